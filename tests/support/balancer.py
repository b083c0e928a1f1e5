"""A TCP balancer: it gives each new connection to the next of its backends, and forwards bytes unread."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Balancer:
    """Forwards connections. `connections` counts them by backend, a port of loopback, and `passed` counts forwarded
    pieces. While `silent` is set nothing is forwarded."""

    def __init__(self, *backends: int) -> None:
        self.backends = list(backends)
        self.connections: dict[int, int] = {}
        self.passed = 0
        self.silent = False
        self.port = 0
        self._next = 0

    async def forward(self, client: socket.socket) -> None:
        """Forward one connection until both sides have closed it."""
        backend = self.backends[self._next % len(self.backends)]
        self._next += 1
        self.connections[backend] = self.connections.get(backend, 0) + 1
        with socket.socket() as server:
            server.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(server, ("127.0.0.1", backend))
            except OSError:
                return
            await asyncio.gather(self._pump(client, server), self._pump(server, client))

    async def _pump(self, source: socket.socket, target: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, 65_536):
                if self.silent:
                    await asyncio.Event().wait()
                self.passed += 1
                await loop.sock_sendall(target, data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@asynccontextmanager
async def balancer(*backends: int) -> AsyncGenerator[Balancer]:
    """A balancer on a free port of loopback, over servers on these ports."""
    made = Balancer(*backends)
    tasks: set[asyncio.Task[None]] = set()

    def accept() -> None:
        client, _ = listener.accept()
        client.setblocking(False)
        task = asyncio.create_task(made.forward(client))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        # Here, since a task that is cancelled before its first step closes nothing.
        task.add_done_callback(lambda _: client.close())

    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        made.port = listener.getsockname()[1]
        # If they are cancelled, `sock_accept` and `start_server` leave a connection open that they have just accepted.
        loop.add_reader(listener, accept)
        try:
            yield made
        finally:
            loop.remove_reader(listener)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
