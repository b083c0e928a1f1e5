"""Readers of one path, over and over, in a process of their own: `python -m bench.readers PORT PATH COUNT`."""

import asyncio
import sys
from typing import Final

_AT_ONCE: Final = 1024 * 1024


async def _read(port: int, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-User-Id: ann\r\nConnection: close\r\n\r\n"
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_AT_ONCE)
        writer.write(head.encode())
        while await reader.read(_AT_ONCE):
            pass
        writer.close()


async def _main(port: int, path: str, count: int) -> None:
    await asyncio.gather(*[_read(port, path) for _ in range(count)])


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
