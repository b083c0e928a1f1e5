"""Requests that are sent as bytes, and their answers as far as they come."""

import asyncio
import time
from pathlib import Path
from typing import Final

import httptools
from tests.system.fuzz_cases import Case
from tests.system.plane import Plane

BOUND: Final = 2.0
"""Seconds until an answer; on a busy machine, for a request that is sent alone."""
# Seconds for which a stream is read.
MOMENT: Final = 0.05


class Answer:
    """An answer as far as it was read: status 0 without an answer. `seconds`: until its end, for a stream until its
    start."""

    def __init__(self, case: Case) -> None:
        self.status = 0
        self.kind = ""
        self.body = b""
        self.seconds = 0.0
        self.whole = False
        self._bodiless = case.method == "HEAD"
        self._parser = httptools.HttpResponseParser(self)

    @property
    def streams(self) -> bool:
        return self.kind == "text/event-stream"

    def feed(self, data: bytes) -> None:
        """Takes received bytes; bytes after the answer are ignored."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.whole:
                raise

    # Callbacks of httptools.
    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type" and not self.whole:
            self.kind = value.decode("latin-1").partition(";")[0]

    def on_headers_complete(self) -> None:
        # An interim answer is followed by the answer.
        if not self.status and (status := self._parser.get_status_code()) >= 200:
            self.status = status
            self.whole = self._bodiless

    def on_body(self, body: bytes) -> None:
        if not self.whole:
            self.body += body

    def on_message_complete(self) -> None:
        self.whole = self.whole or bool(self.status)


async def asked(plane: Plane, case: Case) -> Answer:
    """Sends a request over a connection of its own, and reads its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(plane.url.rpartition(":")[2]))
    answer, begun = Answer(case), time.monotonic()
    try:
        writer.write(case.wire())
        if case.left:
            writer.write_eof()
        async with asyncio.timeout(10 * BOUND):
            await _read(reader, answer)
        answer.seconds = time.monotonic() - begun
        if answer.streams and not answer.whole:
            async with asyncio.timeout(MOMENT):
                await _read(reader, answer, streams=True)
    except TimeoutError:
        answer.seconds = answer.seconds or time.monotonic() - begun
    except OSError:
        # The server closes the connection if it refuses a body without reading it.
        answer.seconds = time.monotonic() - begun
    finally:
        writer.transport.abort()
    return answer


async def _read(reader: asyncio.StreamReader, answer: Answer, *, streams: bool = False) -> None:
    while not answer.whole and (streams or not answer.streams):
        data = await reader.read(1 << 16)
        if not data:
            return
        answer.feed(data)


def described(folder: Path, case: Case, what: str) -> str:
    """Writes the request to a file; returns the fault with the name of the file."""
    file = folder / f"request-{case.number}"
    file.write_bytes(case.wire())
    line = f"{what}: request {case.number}, {file}: {case.wire()[:600]!r}"
    print(line, flush=True)
    return line
