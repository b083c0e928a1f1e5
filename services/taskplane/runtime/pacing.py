"""Long reads in pieces, so that they leave the process to the calls that somebody waits for."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

REST: Final = 4.0
"""Times that a piece took for which the process rests from such work while calls are in flight."""
LONGEST_REST: Final = 0.02
"""Seconds of a rest at most."""


class Pacer:
    """The long reads of one process, one piece at a time, in the order of their arrival.

    While calls are running, each piece is followed by a pause, so all readers together take a fifth of the process.
    Otherwise the next piece begins at once. Beside ten readers of a long log a `hello` takes more than ten times as
    long without it, and a fifth longer with it; a reader that is alone is as fast (`bench`).
    """

    def __init__(self) -> None:
        self.calls = 0
        """The number of calls in flight that somebody waits for."""
        self._piece = asyncio.Lock()

    @asynccontextmanager
    async def piece(self) -> AsyncGenerator[None]:
        """Run the body when its turn has come. The body must be short, wait for no client, and need no other piece."""
        async with self._piece:
            begun = time.perf_counter()
            yield
            took = time.perf_counter() - begun
            await asyncio.sleep(min(REST * took, LONGEST_REST) if self.calls else 0)
