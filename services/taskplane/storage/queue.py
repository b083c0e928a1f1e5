"""The queue of operations to be committed: bounded in number and bytes, in order by key."""

import asyncio
from collections import Counter, deque
from collections.abc import Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from taskplane.runtime import tracing
from taskplane.runtime.errors import Exhausted, PlaneError
from taskplane.runtime.sharing import Owner, leaves_part
from taskplane.storage.turns import here

Op = TypeVar("Op")
Answer = TypeVar("Answer")

FIRST_PAUSE: Final = 0.001
_RETRY_AFTER: Final = 0.2


class Waiting(Generic[Op, Answer]):
    """An operation between its submission and its answer. `future` gets the answer, and is cancelled if the caller has
    gone.

    `shares`: the operation may share a batch with other operations of its key that have `shares`, too. `suspect`: a
    transaction with the operation failed. `pause`: seconds to wait if the next batch has no effect. `span`: the span of
    the caller, if there is one. `owner`: the owner of the caller, see `here`.
    """

    __slots__ = ("future", "key", "op", "owner", "pause", "shares", "size", "span", "suspect")

    def __init__(self, op: Op, key: Hashable | None, size: int, future: "asyncio.Future[Any]", *, shares: bool) -> None:
        self.op = op
        self.key = key
        self.size = size
        self.shares = shares
        self.future = future
        self.suspect = False
        self.pause = FIRST_PAUSE
        self.span = tracing.here() if tracing.LIVE.on else None
        self.owner = here()

    def settle(self, outcome: Answer | PlaneError) -> None:
        """Deliver the answer."""
        future = self.future
        if future.done():
            return
        if isinstance(outcome, PlaneError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


class Together(Generic[Answer]):
    """The answers to operations of a caller that waits for all of them, by place, and how many are `missing`."""

    __slots__ = ("answers", "future", "missing")

    def __init__(self, count: int, future: "asyncio.Future[None]") -> None:
        self.answers: list[Answer | PlaneError | None] = [None] * count
        self.missing = count
        self.future = future

    def settle(self, place: int, outcome: Answer | PlaneError) -> None:
        """Deliver one answer."""
        self.answers[place] = outcome
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result(None)


class OneOf(Waiting[Op, Answer]):
    """An operation submitted together with others."""

    __slots__ = ("place", "together")

    def __init__(
        self, op: Op, key: Hashable | None, size: int, together: Together[Answer], place: int, *, shares: bool
    ) -> None:
        super().__init__(op, key, size, together.future, shares=shares)
        self.together = together
        self.place = place

    def settle(self, outcome: Answer | PlaneError) -> None:
        self.together.settle(self.place, outcome)


class _Line(Generic[Op, Answer]):
    """The operations of one key: how many are ready or taken, and those that wait behind these."""

    __slots__ = ("ahead", "behind")

    def __init__(self) -> None:
        self.ahead = 1
        self.behind: deque[Waiting[Op, Answer]] = deque()


class Queue(Generic[Op, Answer]):
    """The `size` operations that are not answered yet.

    Operations of one key leave in their order, each when the operation before it is released. Successive operations
    that share a batch leave together, and the next one when all of them are released.
    """

    def __init__(self, *, max_ops: int, max_bytes: int) -> None:
        self._max_ops, self._max_bytes = max_ops, max_bytes
        self.size = self._bytes = 0
        self._ready: deque[Waiting[Op, Answer]] = deque()
        self._lines: dict[Hashable, _Line[Op, Answer]] = {}
        # Operations and bytes of each owner.
        self._ops_of: Counter[Owner] = Counter()
        self._bytes_of: Counter[Owner] = Counter()

    def put(self, waiting: Waiting[Op, Answer]) -> None:
        """Add an operation. Exhausted: the queue is full, or the owner has three quarters of the part that others do
        not use. An operation larger than the queue is accepted if the queue is empty."""
        if self.size and (self.size >= self._max_ops or self._bytes + waiting.size > self._max_bytes):
            raise Exhausted("the database has too many waiting writes", reason="QUEUE_FULL", retry_after=_RETRY_AFTER)
        owner = waiting.owner
        # An owner with less than half of all leaves more than a quarter.
        if owner[1] and 2 * max(self.size / self._max_ops, (self._bytes + waiting.size) / self._max_bytes) > 1:
            self._check_share(owner, waiting.size)
        self.size += 1
        self._bytes += waiting.size
        self._ops_of[owner] += 1
        self._bytes_of[owner] += waiting.size
        key = waiting.key
        if key is not None:
            line = self._lines.get(key)
            if line is not None:
                line.behind.append(waiting)
                return
            self._lines[key] = _Line()
        self._ready.append(waiting)

    def _check_share(self, owner: Owner, size: int) -> None:
        for most, used, own, more in (
            (self._max_ops, self.size, self._ops_of[owner], 1),
            (self._max_bytes, self._bytes, self._bytes_of[owner], size),
        ):
            if own and not leaves_part(own + more, most - used + own):
                raise Exhausted("you have too many waiting writes", reason="QUEUE_FULL", retry_after=_RETRY_AFTER)

    def take(self, max_ops: int, max_bytes: int) -> list[Waiting[Op, Answer]]:
        """Return the next batch; an operation larger than `max_bytes` goes alone.

        The operations stay counted, and hold their keys, until they are released.
        """
        batch: list[Waiting[Op, Answer]] = []
        sharing: list[_Line[Op, Answer]] = []
        ready = self._ready
        while ready and len(batch) < max_ops:
            waiting = ready[0]
            if waiting.future.cancelled():
                ready.popleft()
                self.release(waiting)
                continue
            max_bytes -= waiting.size
            if batch and max_bytes < 0:
                return batch
            batch.append(ready.popleft())
            if waiting.shares and (line := self._lines.get(waiting.key)) is not None and line.ahead == 1:
                sharing.append(line)
        # Behind all that is ready, so that a long line delays no other key.
        for line in sharing:
            while line.behind and line.behind[0].shares and len(batch) < max_ops:
                waiting = line.behind[0]
                if waiting.future.cancelled():
                    self._make_room(line.behind.popleft())
                    continue
                max_bytes -= waiting.size
                if max_bytes < 0:
                    return batch
                batch.append(line.behind.popleft())
                line.ahead += 1
        return batch

    def put_back(self, taken: Iterable[Waiting[Op, Answer]]) -> None:
        """Put operations back that were taken, in their order, before all others."""
        self._ready.extendleft(reversed(list(taken)))

    def release(self, waiting: Waiting[Op, Answer]) -> None:
        """Remove an operation that was taken: its room is free, and its key with the last that holds it."""
        self._make_room(waiting)
        if waiting.key is None:
            return
        line = self._lines[waiting.key]
        if line.ahead > 1:
            line.ahead -= 1
        elif line.behind:
            self._ready.append(line.behind.popleft())
        else:
            del self._lines[waiting.key]

    def _make_room(self, waiting: Waiting[Op, Answer]) -> None:
        self.size -= 1
        self._bytes -= waiting.size
        owner = waiting.owner
        self._ops_of[owner] -= 1
        self._bytes_of[owner] -= waiting.size
        if not self._ops_of[owner]:
            del self._ops_of[owner], self._bytes_of[owner]
