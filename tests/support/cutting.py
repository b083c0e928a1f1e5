"""A TCP proxy that cuts connections on demand, between a client and a server that are both real."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

# The end of a server-sent event; the headers of HTTP end their lines with CR LF.
_END = b"\n\n"


class CuttingProxy:
    """Forwards bytes between clients and one server. `passed` counts the bytes to clients."""

    def __init__(self, host: str, port: int) -> None:
        """Forwards to the server at `host`:`port`."""
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.cuts = 0
        self.answers = 0
        """Connections that have passed bytes towards the client."""
        self.cut_after: int | None = None
        """Cuts a connection once it has passed so many bytes towards the client; then never again by itself."""
        self.cut_every: int | None = None
        """Cuts each connection once it has passed so many events towards the client."""
        self.event_end = _END
        """The bytes at the end of an event; at first those of a server-sent event."""
        self.cut_every_bytes: int | None = None
        """Cuts each connection once it has passed so many bytes towards the client."""
        self.passing = asyncio.Event()
        """Passes bytes towards clients only while it is set, as it is at first."""
        self.passing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one connection."""
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, server_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, server_writer, counted=False))
                group.create_task(self._pump(server_reader, writer, counted=True))
        except* OSError:
            pass
        finally:
            for each in (writer, server_writer):
                self._writers.discard(each)
                each.close()

    def aim(self, host: str, port: int) -> None:
        """Forwards later connections to another server."""
        self._target = (host, port)

    def cut(self) -> None:
        """Breaks every open connection without a message, as a network does."""
        self.cuts += 1
        for writer in list(self._writers):
            writer.transport.abort()

    async def listen(self) -> None:
        """Listens on a free port of loopback."""
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stops listening, and breaks every open connection."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        passed = events = 0
        while data := await reader.read(65536):
            if counted and self.cut_every is not None:
                *whole, _ = data.split(self.event_end)
                left = self.cut_every - events
                events += len(whole)
                if left <= len(whole):
                    await self._cut_with(writer, self.event_end.join([*whole[:left], b""]))
                    return
            if counted and self.cut_after is not None and passed + len(data) >= self.cut_after:
                await self._cut_with(writer, data[: self.cut_after - passed])
                self.cut_after = None
                return
            if counted and self.cut_every_bytes is not None and passed + len(data) >= self.cut_every_bytes:
                await self._cut_with(writer, data[: self.cut_every_bytes - passed])
                return
            self.answers += counted and not passed
            passed += len(data)
            if counted:
                await self.passing.wait()
            writer.write(data)
            await writer.drain()
        if not writer.transport.is_closing():
            with suppress(OSError):
                writer.write_eof()

    async def _cut_with(self, writer: asyncio.StreamWriter, last: bytes) -> None:
        writer.write(last)
        with suppress(OSError):
            await writer.drain()
        self.cut()


@asynccontextmanager
async def cutting(host: str, port: int) -> AsyncGenerator[CuttingProxy]:
    """A proxy that listens on a free port of loopback."""
    proxy = CuttingProxy(host, port)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
