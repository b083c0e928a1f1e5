"""Translating what is large beside the event loop, so that nobody else waits for it.

JSON to protobuf and back takes up to a second for some megabytes. In a thread it takes turns with the event loop, a few
milliseconds each. One thread, for two would leave the loop every third turn: what is large waits for what is large.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

# Bytes of a body, or of the messages of an answer, from which on the way to the thread is worth it.
LARGE: Final = 256 * 1024
THREAD: Final = "taskplane-large"

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """Where large things are translated. The work must not touch what belongs to the event loop; messages that nobody
    changes any more may be read."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=THREAD)

    async def run(self, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns or raises. `size`: bytes of what it is about; what is small is done at once."""
        if size < LARGE:
            return work(*args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))

    def close(self) -> None:
        """Takes nothing any more; what waits is dropped, what runs ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
