"""The task log as the executor needs it: one append in flight for all its runs, and reading events in pages."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.outbox import LEASE_GONE, ItemRefused, Outbox
from taskplane.runtime.errors import Conflict, DeadlineExceeded, Exhausted, PlaneError, Unavailable
from taskplane.runtime.failpoints import afp

log = logging.getLogger(__name__)
T = TypeVar("T")

MAX_CALL_CHANGES: Final = 1000
MAX_CALL_BYTES: Final = 3_500_000
PAGE: Final = 1000
# What may be tried again unchanged: every write of the executor is idempotent.
RETRYABLE: Final = (Unavailable, DeadlineExceeded, Exhausted, Conflict)


class Backoff:
    """Growing, jittered pauses between attempts: 50 ms to 1 s."""

    def __init__(self) -> None:
        self._next = 0.05

    async def pause(self, error: PlaneError | None = None) -> None:
        """Waits; as long as the error asks for, where it does."""
        wait = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, 1.0)
        if error is not None and error.retry_after is not None:
            wait = max(wait, min(error.retry_after, 5.0))
        await asyncio.sleep(wait)

    def reset(self) -> None:
        """The next pause is a short one again."""
        self._next = 0.05


# For how many seconds a write whose outcome is unknown is repeated before a waiting caller is told: a store that has
# restarted is found again meanwhile, and clients that give up on silence have not done so yet.
PERSISTENCE: Final = 2.0


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats an idempotent call for 2 s while its outcome is unknown; then, and for other errors, raises."""
    give_up = time.monotonic() + PERSISTENCE
    backoff: Backoff | None = None
    while True:
        try:
            return await call()
        except (Unavailable, DeadlineExceeded) as error:
            if time.monotonic() > give_up:
                raise
            log.warning("a call is tried again: %s", error)
            backoff = backoff or Backoff()
            await backoff.pause(error)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats an idempotent call until a part that cannot be reached is back; other errors are the caller's."""
    backoff: Backoff | None = None
    while True:
        try:
            return await call()
        except RETRYABLE as error:
            log.warning("a call is tried again: %s", error)
            backoff = backoff or Backoff()
            await backoff.pause(error)


class Appender:
    """Sends what all runs of this process produced meanwhile as one AppendEvents, one call at a time.

    Runs are served in the order in which they had something to send, each again at the end of the line. An item whose
    outcome is unknown is sent again unchanged, with what else has come up, until its run no longer has its lease.
    """

    def __init__(self, store: TaskStoreStub) -> None:
        self._store = store
        self._ready: dict[Outbox, None] = {}
        self._bell = asyncio.Event()
        self._backoff = Backoff()
        self.calls = 0

    def ring(self, outbox: Outbox) -> None:
        """`outbox` has something to send."""
        self._ready[outbox] = None
        self._bell.set()

    def forget(self, outbox: Outbox) -> None:
        """Nothing of `outbox` will be sent any more."""
        self._ready.pop(outbox, None)

    async def run(self) -> None:
        """Sends, until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while batch := self._next():
                await self._send(batch)

    def _next(self) -> list[Outbox]:
        batch: list[Outbox] = []
        changes, size = 0, 0
        for outbox in list(self._ready):
            more, bytes_more = outbox.weight()
            if more == 0:
                self._ready.pop(outbox)
                continue
            if batch and (changes + more > MAX_CALL_CHANGES or size + bytes_more > MAX_CALL_BYTES):
                break
            batch.append(outbox)
            changes += more
            size += bytes_more
        return batch

    async def _send(self, batch: Sequence[Outbox]) -> None:
        request = pb.AppendEventsRequest()
        for outbox in batch:
            outbox.take(request)
        self.calls += 1
        await afp("append.before_send")
        try:
            response = await self._store.AppendEvents(request)
        except RETRYABLE as error:
            log.warning("appending %d items failed and is tried again: %s", len(batch), error)
            await self._backoff.pause(error)
        except PlaneError as error:
            await self._one_by_one(batch, error)
        else:
            self._backoff.reset()
            for outbox, result in zip(batch, response.results, strict=True):
                self._ready.pop(outbox, None)
                if result.refusal.reason in LEASE_GONE:
                    log.warning("an append under fence %d was refused: %s", outbox.fence, result.refusal.reason)
                if outbox.answer(result):
                    self._ready[outbox] = None

    async def _one_by_one(self, batch: Sequence[Outbox], error: PlaneError) -> None:
        """The call as such was refused: only the item at fault may suffer."""
        log.error("appending %d items was refused: %s", len(batch), error)
        if len(batch) > 1:
            for outbox in batch:
                if outbox.weight()[0]:
                    await self._send([outbox])
        else:
            self._ready.pop(batch[0], None)
            batch[0].refuse(ItemRefused(error.reason, error.message))


async def events(
    store: TaskStoreStub,
    task_id: str,
    *,
    after: int,
    kinds: "Sequence[pb.EventKind.ValueType]" = (),
    speaking: bool = False,
) -> AsyncGenerator[pb.ListEventsResponse]:
    """Pages of the task's events after a generation, oldest first; the last page is the first that is not full."""
    while True:
        page = await store.ListEvents(
            pb.ListEventsRequest(task_id=task_id, kinds=kinds, speaking=speaking, after_generation=after, limit=PAGE)
        )
        yield page
        if len(page.events) < PAGE:
            return
        after = page.events[-1].generation
