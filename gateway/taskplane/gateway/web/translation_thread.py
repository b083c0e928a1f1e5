"""A thread for the translation of large requests and responses, beside the event loop.

JSON to protobuf and back takes up to a second for some megabytes. In a thread it shares the interpreter with the event
loop in slices of a few milliseconds. There is one thread only: with two the loop would get every third slice.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

# Bytes of a body, or of the messages of a response, from which on the thread is used.
LARGE: Final = 256 * 1024
THREAD: Final = "taskplane-large"

P = ParamSpec("P")
T = TypeVar("T")


class TranslationThread:
    """The only thread for large work.

    Work must not touch state of the event loop; messages that are no longer changed may be read.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=THREAD)

    async def run(self, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work`, which is about `size` bytes. Work on small ones is done at once, without the
        thread."""
        if size < LARGE:
            return work(*args, **kwargs)
        return await self.run_long(work, *args, **kwargs)

    async def run_long(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `work`, which is long though it is small."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))

    def close(self) -> None:
        """Accept no more work and drop waiting work; running work ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
