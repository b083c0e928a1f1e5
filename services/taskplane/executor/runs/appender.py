"""One AppendEvents call at a time for all runs of an executor process."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.runs.answer_timeout import AnswerTimeout
from taskplane.executor.runs.outbox import LEASE_GONE, ItemRefused, Outbox
from taskplane.runtime import tracing
from taskplane.runtime.backoff import Backoff
from taskplane.runtime.errors import DeadlineExceeded, PlaneError
from taskplane.runtime.failpoints import afp
from taskplane.runtime.retry import RETRYABLE

log = logging.getLogger(__name__)

MAX_CALL_CHANGES: Final = 1000
MAX_CALL_BYTES: Final = 3_500_000


class Appender:
    """Sends the new changes of all runs of this process as one AppendEvents, one call at a time.

    Runs are served in the order in which they had something to send, each again at the end of the line. An item of
    unknown outcome is sent again unchanged, with newer changes of others, until its run no longer has its lease.
    """

    def __init__(self, store: TaskStoreStub, answer_timeout: AnswerTimeout) -> None:
        """`store`: by a channel for appends only, see `answer_timeout`."""
        self._store = store
        self._answer_timeout = answer_timeout
        self._ready: dict[Outbox, None] = {}
        self._bell = asyncio.Event()
        self._backoff = Backoff()
        self.calls = 0

    def ring(self, outbox: Outbox) -> None:
        """Note that `outbox` has something to send."""
        self._ready[outbox] = None
        self._bell.set()

    def forget(self, outbox: Outbox) -> None:
        """Send nothing of `outbox` any more."""
        self._ready.pop(outbox, None)

    async def run(self) -> None:
        """Send until cancelled."""
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

    async def _send(self, ready: Sequence[Outbox]) -> None:
        request = pb.AppendEventsRequest()
        batch: list[Outbox] = []
        for outbox in ready:
            if outbox.take(request):
                batch.append(outbox)
            else:
                self._ready.pop(outbox, None)
        if not batch:
            return
        self.calls += 1
        await afp("append.before_send")
        try:
            # The call is part of the first run's trace; the store links it to the others, which the items name.
            with tracing.within(batch[0].traceparent):
                response = await self._store.AppendEvents(request, timeout=self._answer_timeout.timeout)
        except DeadlineExceeded as error:
            log.warning("appending %d items had no answer, trying the next replica: %s", len(batch), error)
            self._answer_timeout.unanswered()
        except RETRYABLE as error:
            log.warning("appending %d items failed, will retry: %s", len(batch), error)
            await self._backoff.wait(error)
        except PlaneError as error:
            await self._one_by_one(batch, error)
        else:
            if self._backoff.failures:
                self._backoff.reset()
            self._answer_timeout.answered()
            for outbox, result in zip(batch, response.results, strict=True):
                self._ready.pop(outbox, None)
                if result.refusal.reason in LEASE_GONE:
                    log.warning("an append under fence %d was refused: %s", outbox.fence, result.refusal.reason)
                if outbox.answer(result):
                    self._ready[outbox] = None

    async def _one_by_one(self, batch: Sequence[Outbox], error: PlaneError) -> None:
        """Send the items of a refused call one by one, so that only the item at fault is refused."""
        log.error("appending %d items was refused: %s", len(batch), error)
        if len(batch) > 1:
            for outbox in batch:
                if outbox.weight()[0]:
                    await self._send([outbox])
        else:
            self._ready.pop(batch[0], None)
            batch[0].refuse(ItemRefused(error.reason, error.message))
