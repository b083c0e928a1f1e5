"""Group commit: what many callers want to write becomes one transaction and one fsync.

A batch begins a few turns of the event loop after there is something for it and the commit before has returned, when
what those turns had to do is done. So whoever was answered together, or came in together, goes on together; an idle
loop turns at once. There is no timer: the fsync of the batch before is the natural window. At most one batch is in
flight.
"""

import asyncio
import copy
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar, cast
from weakref import WeakSet

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from taskplane.runtime.errors import Internal, PlaneError, Unavailable
from taskplane.runtime.failpoints import blocks, fp
from taskplane.runtime.turns import call_after
from taskplane.storage.engine import Engine, closing
from taskplane.storage.queue import OneOf, Queue, Together, Waiting

Op = TypeVar("Op")
Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)

# A batch that may be carried out on the event loop: its work there, not its commit, stays within a few milliseconds.
_SMALL_OPS: Final = 16
_SMALL_BYTES: Final = 64 * 1024
# Those whose next batch begins within a few turns of the loop.
_due: "WeakSet[Committer[Any, Any]]" = WeakSet()

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05


class Later(Enum):
    """The outcome of an operation that has to wait for the next batch."""

    LATER = "later"


LATER: Final[Literal[Later.LATER]] = Later.LATER


@dataclass(slots=True)
class Batch(Generic[Answer]):
    """What a transaction came to: one outcome per operation, in their order, and what it changed, for `committed`.

    A PlaneError among the outcomes is a refusal of that operation; the transaction is committed all the same.
    """

    outcomes: list[Answer | PlaneError | Later]
    effects: Any = None


class Committer(Generic[Op, Answer]):
    """Commits operations in batches. For the tasks of one event loop; use it as `async with committer:`.

    Operations of one key are carried out in the order in which they were submitted, at most one of them in a batch.
    """

    def __init__(
        self,
        engine: Engine,
        apply: Callable[[Connection, Sequence[Op]], Batch[Answer]],
        *,
        key: Callable[[Op], Hashable | None],
        size: Callable[[Op], int],
        committed: Callable[[Batch[Answer]], None] | None = None,
        max_ops: int = 256,
        max_bytes: int = 4 * 1024 * 1024,
        queue_ops: int = 8192,
        queue_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`apply` is a store function: it carries out a batch inside the transaction and may run more than once.

        `key` names what an operation changes (None: it may share a batch with any other), `size` its bytes. A batch
        has at most `max_ops` operations and `max_bytes` (one that is larger goes alone); at most `queue_ops` and
        `queue_bytes` are waiting or in flight. `committed` is called on the loop for each batch, after its commit and
        before its answers are delivered; it must not raise.
        """
        self._engine = engine
        self._apply = apply
        self._key = key
        self._size = size
        self._committed = committed
        self._max_ops, self._max_bytes = max_ops, max_bytes
        self._queue: Queue[Op, Answer] = Queue(max_ops=queue_ops, max_bytes=queue_bytes)
        self._flight: list[Waiting[Op, Answer]] = []
        # Operations of a transaction that failed, to be committed one by one.
        self._suspects: deque[Waiting[Op, Answer]] = deque()
        self._fruitless = 0
        self._pause: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self._may_be_small = True
        self._open = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        # A test that stops a transaction does not mean the event loop.
        self._may_be_small = not blocks("append.before_commit")
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commits what was submitted; what is submitted from now on is refused."""
        self._open = False
        await self._idle.wait()

    async def submit(self, op: Op) -> Answer:
        """The answer to `op`, once it is committed.

        Raises the PlaneError that refused it. Exhausted: the queue is full, nothing was changed. Unavailable: the
        database cannot be reached, or this process is closing; whether `op` took effect may be unknown. Internal: the
        database refused what `op` wrote. A caller that is cancelled takes an operation back that has not begun.
        """
        if not self._open:
            raise closing()
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._queue.put(Waiting(op, self._key(op), self._size(op), answer))
        self._soon()
        return await answer

    async def submit_all(self, ops: Sequence[Op]) -> list[Answer | PlaneError]:
        """The answers to `ops`, in their order, once all are committed; the errors of `submit` are values here."""
        complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        together: Together[Answer] = Together(len(ops), complete)
        for place, op in enumerate(ops):
            try:
                if not self._open:
                    raise closing()
                self._queue.put(OneOf(op, self._key(op), self._size(op), together, place))
            except PlaneError as refusal:
                together.settle(place, refusal)
        if together.missing:
            self._soon()
            await complete
        return cast("list[Answer | PlaneError]", together.answers)

    def _soon(self) -> None:
        """Starts the next batch in four turns of the loop, unless one is in flight.

        About as many lie between an answer and the next operation of who was answered.
        """
        if not self._flight and self not in _due:
            _due.add(self)
            self._idle.clear()
            call_after(4, self._loop, self._go)

    def _go(self) -> None:
        """Starts the next batch unless one is in flight or nothing is to be done."""
        _due.discard(self)
        if self._flight:
            return
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._flight = flight = self._next()
        if not flight:
            self._idle.set()
            return
        try:
            fp("append.before_begin")
            small = self._may_be_small and _is_small(flight)
            ops = [waiting.op for waiting in flight]
            self._engine.start(self._finished, self._carry_out, ops, small=small, more_due=bool(_due))
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            self._finished(None, error)

    def _next(self) -> "list[Waiting[Op, Answer]]":
        while self._suspects:
            suspect = self._suspects.popleft()
            if not suspect.future.cancelled():
                return [suspect]
            self._queue.release(suspect)
        return self._queue.take(self._max_ops, self._max_bytes)

    def _carry_out(self, conn: Connection, ops: Sequence[Op]) -> Batch[Answer]:
        batch = self._apply(conn, ops)
        if len(batch.outcomes) != len(ops):
            raise AssertionError(f"{len(ops)} operations, {len(batch.outcomes)} outcomes")
        fp("append.before_commit")
        return batch

    def _finished(self, batch: Batch[Answer] | None, error: BaseException | None) -> None:
        flight, self._flight = self._flight, []
        try:
            fp("append.after_commit_before_ack")
        except PlaneError as failed:
            batch, error = None, failed
        if batch is not None:
            self._deliver(flight, batch)
        else:
            self._fail(flight, error or AssertionError("neither a batch nor an error"))
        if self._pause is not None:
            return
        if self._suspects or len(self._queue):
            self._soon()
        else:
            self._idle.set()

    def _deliver(self, flight: "list[Waiting[Op, Answer]]", batch: Batch[Answer]) -> None:
        if self._committed is not None:
            try:
                self._committed(batch)
            except Exception:  # noqa: BLE001
                # The batch is committed; its callers must hear so whatever becomes of those who are told beside.
                _log.exception("a listener to commits failed")
        leftovers: list[Waiting[Op, Answer]] = []
        for waiting, outcome in zip(flight, batch.outcomes, strict=True):
            if outcome is LATER:
                leftovers.append(waiting)
            else:
                self._queue.release(waiting)
                waiting.settle(outcome)
        if leftovers:
            self._queue.put_back(leftovers)
        if len(leftovers) < len(flight):
            self._fruitless = 0
            return
        self._fruitless += 1
        if self._fruitless > 1 and len(self._queue) == len(leftovers) and not self._suspects:
            # Nothing moves and nothing new has come: do not spin.
            pause = min(_FIRST_PAUSE * 2 ** (self._fruitless - 2), _LONGEST_PAUSE)
            self._pause = self._loop.call_later(pause, self._go)

    def _fail(self, flight: "list[Waiting[Op, Answer]]", error: BaseException) -> None:
        if isinstance(error, Unavailable | asyncio.CancelledError):
            # Nothing better can be expected for the rest of a batch that was being taken apart.
            flight = [*flight, *self._suspects]
            self._suspects.clear()
        elif len(flight) > 1 or (isinstance(error, IntegrityError) and not flight[0].suspect):
            # Each alone, and once more: one that collided with another process now sees what that one wrote.
            for waiting in flight:
                waiting.suspect = True
            self._suspects.extend(flight)
            return
        for waiting in flight:
            self._queue.release(waiting)
            waiting.settle(_refusal(error))


def _is_small(flight: "Sequence[Waiting[Any, Any]]") -> bool:
    """Whether the event loop may stand still for this batch, as far as that can be told before it is carried out."""
    if len(flight) > _SMALL_OPS:
        return False
    size = 0
    for waiting in flight:
        size += waiting.size
    return size <= _SMALL_BYTES


def _refusal(error: BaseException) -> PlaneError:
    """What an operation whose transaction failed with `error` is answered; one instance each, since it is raised."""
    if isinstance(error, PlaneError):
        return copy.copy(error)
    if isinstance(error, asyncio.CancelledError):
        return closing()
    _log.error("a transaction failed", exc_info=error)
    refusal = Internal("the database refused the change" if isinstance(error, IntegrityError) else "a fault of ours")
    refusal.__cause__ = error
    return refusal
