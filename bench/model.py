"""A model behind an OpenAI-compatible API, which says when it says each token.

    python -m bench.model PORT

The name of the model tells what it does: `50x0.1` streams 50 tokens, one each 0.1 seconds. Answers begin at a random
moment of this interval, each at one of its own; those of `50x0.1-together` say all their tokens at the same moments. A
token is the monotonic time at which it is sent, in nanoseconds. `/open` tells how many connections are open, and the
most that were.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route


async def complete(request: Request) -> StreamingResponse:
    """Stream a chat completion."""
    paces, _, together = (await request.json())["model"].partition("-")
    count, interval = paces.split("x")
    return StreamingResponse(_chunks(int(count), float(interval), bool(together)), media_type="text/event-stream")


async def _chunks(count: int, interval: float, together: bool) -> AsyncGenerator[bytes]:
    now = time.monotonic()
    first = (now // interval + 1) * interval if together else now + random.random() * interval
    for index in range(count):
        await asyncio.sleep(max(0.0, first + index * interval - time.monotonic()))
        yield _chunk({"content": f"{time.monotonic_ns()} "}, None)
    yield _chunk({}, "stop")
    yield b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "bench", "choices": [choice]}
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def main(argv: list[str]) -> None:
    """Serve until killed."""
    most = 0
    config: uvicorn.Config

    async def connections(_: Request) -> JSONResponse:
        return JSONResponse({"now": len(server.server_state.connections), "most": most})

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(server.server_state.connections))
            await asyncio.sleep(0.05)

    async def serve() -> None:
        watching = asyncio.create_task(watch())
        try:
            await server.serve()
        finally:
            watching.cancel()

    routes = [Route("/v1/chat/completions", complete, methods=["POST"]), Route("/open", connections)]
    config = uvicorn.Config(
        Starlette(routes=routes), host="127.0.0.1", port=int(argv[1]), log_level="warning", access_log=False
    )
    server = uvicorn.Server(config)
    asyncio.run(serve())


if __name__ == "__main__":
    main(sys.argv)
