"""A TCP balancer: it gives each new connection to the next of its backends, and sees nothing of what goes through."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Balancer:
    """Forwards connections; `connections` counts those it gave to each backend, a port of loopback, and `passed` the
    pieces of what it passed on. While `silent` is set it passes nothing on."""

    def __init__(self, *backends: int) -> None:
        self.backends = list(backends)
        self.connections: dict[int, int] = {}
        self.passed = 0
        self.silent = False
        self.port = 0
        self._next = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until both sides have closed it."""
        backend = self.backends[self._next % len(self.backends)]
        self._next += 1
        self.connections[backend] = self.connections.get(backend, 0) + 1
        async with _closing(writer):
            try:
                to_reader, to_writer = await asyncio.open_connection("127.0.0.1", backend)
            except OSError:
                return
            async with _closing(to_writer):
                await asyncio.gather(self._pump(reader, to_writer), self._pump(to_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.silent:
                    await asyncio.Event().wait()
                self.passed += 1
                writer.write(data)
                await writer.drain()
            writer.write_eof()


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    """Closes the connection and waits until it is; what a cancelled task did not send yet is dropped."""
    try:
        yield
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def balancer(*backends: int) -> AsyncGenerator[Balancer]:
    """A balancer on a free port of loopback, over servers on these ports."""
    made = Balancer(*backends)
    tasks: set[asyncio.Task[None]] = set()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.accept(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
