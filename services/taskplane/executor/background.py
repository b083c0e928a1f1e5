"""Work that belongs to the executor and not to the call it began in."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from taskplane.runtime.errors import PlaneError
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)
T = TypeVar("T")


class BackgroundTasks:
    """The background work of the executor, whether or not a caller waits for it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._working: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Start `work`. A caller waits with `asyncio.shield`; errors are logged."""
        task = asyncio.create_task(work, name=name)
        self._working.add(task)
        task.add_done_callback(self._finished)
        return task

    async def serve(self, work: Coroutine[Any, Any, T], caller: Principal, *, name: str) -> T:
        """Run `work` for a caller, as a service; a caller that goes away cancels nothing."""
        with acting_as(Principal(caller.tenant, caller.owner, caller.actor, service=True)):
            task = self.start(work, name=name)
        return await asyncio.shield(task)

    async def settle(self, timeout: float) -> bool:
        """Wait until nothing is at work, at most `timeout` seconds; return whether it came to that."""
        deadline = time.monotonic() + timeout
        while self._working and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(self._working, timeout=left)
        return not self._working

    async def dismiss(self, timeout: float) -> None:
        """Cancel the remaining jobs and wait for them, at most `timeout` seconds."""
        for task in self._working:
            task.cancel()
        if not await self.settle(timeout):
            log.error(
                "background jobs did not stop after their cancellation: %s",
                sorted(task.get_name() for task in self._working),
            )

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, PlaneError):
            log.debug("%s was refused: %s", task.get_name(), error)
        elif error is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
