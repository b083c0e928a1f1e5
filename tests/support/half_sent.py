"""A request over HTTP whose body comes later than its headers."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any


class HalfSent:
    """A request to this machine whose headers have arrived."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._body = body

    @classmethod
    async def begun(
        cls, port: int, verb: str, path: str, body: Any, headers: Mapping[str, str] | None = None
    ) -> "HalfSent":
        """Send the headers, and wait until the server reads the body, which is JSON."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        content = json.dumps(body).encode()
        lines = [
            f"{verb} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
            "Expect: 100-continue",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        await reader.readuntil(b"100 Continue\r\n\r\n")
        return cls(reader, writer, content)

    async def rest(self, *, send: bool = True) -> str:
        """Send the body, and return the response."""
        if send:
            self._writer.write(self._body)
        found = await self._reader.read()
        self._writer.close()
        return found.decode()
