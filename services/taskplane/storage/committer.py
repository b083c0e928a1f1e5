"""Group commit: the operations of many callers become one transaction and one fsync.

All operations that wait when a commit returns are the next batch; there is no timer. On SQLite one batch is in flight,
on PostgreSQL several, with different keys.
"""

import asyncio
import copy
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar, cast

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from taskplane.runtime import tracing
from taskplane.runtime.errors import DataLoss, Internal, PlaneError, Unavailable
from taskplane.runtime.failpoints import ARMED, afp, fp
from taskplane.storage import metrics
from taskplane.storage.port import Engine, closing
from taskplane.storage.queue import OneOf, Queue, Together, Waiting

Op = TypeVar("Op")
Answer = TypeVar("Answer")
T = TypeVar("T")

_log = logging.getLogger(__name__)

# Maximum number of seconds before the next attempt of a batch without effect.
_LONGEST_PAUSE: Final = 0.05


class Later(Enum):
    """The outcome of an operation that has to wait for a later batch."""

    LATER = "later"


LATER: Final[Literal[Later.LATER]] = Later.LATER


@dataclass(slots=True)
class Batch(Generic[Answer]):
    """The result of a transaction: one outcome per operation, in their order, and its changes, for `committed`.

    A PlaneError among the outcomes refuses only its operation; the transaction is committed.
    """

    outcomes: list[Answer | PlaneError | Later]
    effects: Any = None


def _never(_op: object) -> bool:
    return False


class Committer(Generic[Op, Answer]):
    """Commits operations in batches. For the tasks of one event loop; use it as `async with committer:`.

    Operations of one key are carried out in the order in which they were submitted, at most one of them at a time;
    those that share, in one transaction.
    """

    def __init__(
        self,
        engine: Engine,
        apply: Callable[[Connection, Sequence[Op]], Batch[Answer]],
        *,
        name: str,
        key: Callable[[Op], Hashable | None],
        size: Callable[[Op], int],
        shares: Callable[[Op], bool] = _never,
        committed: Callable[[Batch[Answer]], None] | None = None,
        max_ops: int = 256,
        max_bytes: int = 4 * 1024 * 1024,
        queue_ops: int = 8192,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`apply` is a store function: it carries out a batch inside the transaction and may run more than once. `name`
        is the value of the label `store` of its metrics.

        `key` names what an operation changes (None: it may run beside any other), `size` its bytes, and `shares` tells
        whether it may be in one batch with others of its key that share. A batch has at most `max_ops` operations and
        `max_bytes` (one that is larger goes alone); at most `queue_ops` and `queue_bytes` are waiting or in flight.
        `committed` is called on the loop for each batch, after its commit and before its answers are delivered; it must
        not raise. An operation with the outcome LATER is tried again, which delays no other.
        """
        self._engine = engine
        self._apply = apply
        self._key = key
        self._size = size
        self._shares = shares
        self._committed = committed
        self._max_ops, self._max_bytes = max_ops, max_bytes
        # One connection is kept for other writers.
        self._most_flights = max(1, engine.writers - 1)
        self._queue: Queue[Op, Answer] = Queue(max_ops=queue_ops, max_bytes=queue_bytes)
        self._operations, self._seconds = metrics.OPERATIONS.labels(name), metrics.SECONDS.labels(name)
        self._failed, self._waiting = metrics.FAILED.labels(name), metrics.WAITING.labels(name)
        # Operations of a transaction that failed, to be committed one by one, and the one that is in flight.
        self._suspects: deque[Waiting[Op, Answer]] = deque()
        self._tried: Waiting[Op, Answer] | None = None
        self._flights: set[asyncio.Task[None]] = set()
        self._scheduled = False
        self._loop: asyncio.AbstractEventLoop
        self._open = False
        # Set by a caller that waits until all submitted operations have ended.
        self._idle: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit the submitted operations; refuse later ones."""
        self._open = False
        if self._queue.size or self._flights or self._scheduled:
            self._idle = self._loop.create_future()
            await self._idle

    async def submit(self, op: Op) -> Answer:
        """Return the answer to `op`, once it is committed.

        Raise the PlaneError that refused it. Exhausted: the queue is full, nothing was changed. Unavailable: the
        database cannot be reached, or this process is closing; whether `op` took effect may be unknown. Internal: the
        database refused the writes of `op`. A caller that is cancelled takes an operation back that has not begun.
        """
        if not self._open:
            raise closing()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._queue.put(Waiting(op, self._key(op), self._size(op), answer, shares=self._shares(op)))
        self._schedule()
        return await answer

    async def submit_all(self, ops: Sequence[Op]) -> list[Answer | PlaneError]:
        """Return the answers to `ops`, in their order, once all are committed; the errors of `submit` are values."""
        complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        together: Together[Answer] = Together(len(ops), complete)
        for place, op in enumerate(ops):
            try:
                if not self._open:
                    raise closing()
                key, size, shares = self._key(op), self._size(op), self._shares(op)
                self._queue.put(OneOf(op, key, size, together, place, shares=shares))
            except PlaneError as refusal:
                together.settle(place, refusal)
        if together.missing:
            self._schedule()
            await complete
        return cast("list[Answer | PlaneError]", together.answers)

    def _schedule(self) -> None:
        """Start batches in the next cycle of the event loop, so that operations of this cycle share a batch."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._scheduled = False
        while len(self._flights) < self._most_flights:
            batch = self._next()
            if not batch:
                break
            # Log lines of a batch belong to no single request.
            flight = self._loop.create_task(self._commit(batch), context=Context())
            self._flights.add(flight)
            flight.add_done_callback(self._landed)
        self._waiting.value = self._queue.size
        if self._idle is not None:
            self._rest(self._idle)

    def _landed(self, flight: "asyncio.Task[None]") -> None:
        self._flights.discard(flight)
        if self._queue.size:
            self._schedule()
            return
        self._waiting.value = 0
        if self._idle is not None:
            self._rest(self._idle)

    def _rest(self, idle: "asyncio.Future[None]") -> None:
        if not (self._queue.size or self._flights or self._scheduled or idle.done()):
            idle.set_result(None)

    def _next(self) -> "list[Waiting[Op, Answer]]":
        while self._suspects and self._tried is None:
            suspect = self._suspects.popleft()
            if not suspect.future.cancelled():
                self._tried = suspect
                return [suspect]
            self._queue.release(suspect)
        return self._queue.take(self._max_ops, self._max_bytes)

    async def _commit(self, flight: "list[Waiting[Op, Answer]]") -> None:
        try:
            if ARMED:
                await afp("append.before_begin")
            began = time.perf_counter()
            try:
                writing = self._engine.write(self._carry_out, [waiting.op for waiting in flight])
                batch = await (_traced(flight, writing) if tracing.LIVE.on else writing)
            finally:
                self._seconds.observe(time.perf_counter() - began)
            self._operations.observe(len(flight))
            if ARMED:
                await afp("append.after_commit_before_ack")
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the callers must get any error
            self._failed.value += 1
            self._fail(flight, error)
        else:
            self._deliver(flight, batch)
        finally:
            if flight[0] is self._tried:
                self._tried = None

    def _carry_out(self, conn: Connection, ops: Sequence[Op]) -> Batch[Answer]:
        batch = self._apply(conn, ops)
        if len(batch.outcomes) != len(ops):
            raise AssertionError(f"{len(ops)} operations, {len(batch.outcomes)} outcomes")
        if ARMED:
            fp("append.before_commit")
        return batch

    def _deliver(self, flight: "list[Waiting[Op, Answer]]", batch: Batch[Answer]) -> None:
        if self._committed is not None:
            try:
                self._committed(batch)
            except Exception:  # noqa: BLE001
                # The batch is committed: answer the callers even if a listener fails.
                _log.exception("a listener to commits failed")
        later: list[Waiting[Op, Answer]] = []
        for waiting, outcome in zip(flight, batch.outcomes, strict=True):
            if outcome is LATER:
                later.append(waiting)
            else:
                self._queue.release(waiting)
                waiting.settle(outcome)
        if len(later) < len(flight):
            if later:
                self._queue.put_back(later)
            return
        # No progress: do not spin. Other operations go on.
        pause = max(waiting.pause for waiting in later)
        self._loop.call_later(pause, self._put_back, later)
        for waiting in later:
            waiting.pause = min(2 * pause, _LONGEST_PAUSE)

    def _put_back(self, later: "list[Waiting[Op, Answer]]") -> None:
        self._queue.put_back(later)
        self._schedule()

    def _fail(self, flight: "list[Waiting[Op, Answer]]", error: BaseException) -> None:
        if isinstance(error, Unavailable | DataLoss | asyncio.CancelledError):
            # Nothing better can be expected for the rest of a batch that was being taken apart.
            flight = [*flight, *self._suspects]
            self._suspects.clear()
        elif len(flight) > 1 or (isinstance(error, IntegrityError) and not flight[0].suspect):
            # Repeat each operation alone: after a conflict with another process it now sees the writes of that process.
            for waiting in flight:
                waiting.suspect = True
            self._suspects.extend(flight)
            return
        for waiting in flight:
            self._queue.release(waiting)
            waiting.settle(_refusal(error))


async def _traced(flight: "list[Waiting[Op, Answer]]", writing: Coroutine[Any, Any, T]) -> T:
    with tracing.batch("commit", [waiting.span for waiting in flight]):
        return await writing


def _refusal(error: BaseException) -> PlaneError:
    """Return the answer to an operation of a failed transaction; a new instance each time, since it is raised."""
    if isinstance(error, PlaneError):
        return copy.copy(error)
    if isinstance(error, asyncio.CancelledError):
        return closing()
    _log.error("a transaction failed", exc_info=error)
    refusal = Internal("the database refused the change" if isinstance(error, IntegrityError) else "an internal error")
    refusal.__cause__ = error
    return refusal
