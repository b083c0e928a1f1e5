"""An HTTP server inside a process that has more to do: it takes no signals, and its start can be waited for."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskplane.runtime.errors import Unavailable


@contextlib.contextmanager
def listening(host: str, port: int, *, setting: str, send_buffer: int = 0) -> Generator[socket.socket]:
    """Yield a bound socket, closed on exit. `send_buffer`: bytes of kernel memory per connection; 0: the system's.

    Raise Unavailable `CANNOT_LISTEN`, which names `setting`, if the address is in use or not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only where the protocol is named does asyncio send small answers at once (TCP_NODELAY).
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if send_buffer:
            # Inherited by every connection that is accepted.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}:{port}: {error.strerror}",
                reason="CANNOT_LISTEN",
                suggestion=f"stop the program that listens there, or set {setting} to another port",
            ) from error
        listener.setblocking(False)
        yield listener


class HttpProtocol(HttpToolsProtocol):
    """The protocol of a server without WebSockets: a request that offers one is answered over HTTP, as RFC 9110 section
    7.8 allows, and uvicorn logs no advice to install a library."""

    def _unsupported_upgrade_warning(self) -> None:
        pass


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.asynccontextmanager
async def serving_http(config: uvicorn.Config, listener: socket.socket) -> AsyncGenerator[None]:
    """Serve on `listener` while the body runs, then end open requests within `config.timeout_graceful_shutdown`.

    Raise Unavailable `CANNOT_LISTEN` if the server does not start.
    """
    server = _Server(config)
    running = asyncio.create_task(server.serve([listener]), name="http server")
    up = asyncio.create_task(server.up.wait())
    await asyncio.wait({running, up}, return_when=asyncio.FIRST_COMPLETED)
    up.cancel()
    if running.done():
        running.result()
        raise Unavailable("the HTTP server did not start", reason="CANNOT_LISTEN")
    try:
        yield
    finally:
        server.should_exit = True
        await running
