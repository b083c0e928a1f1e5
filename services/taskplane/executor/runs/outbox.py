"""Changes of one run on their way to the store: limited, joined, and numbered under its fence.

Over 300 lines: the two sides of one small state machine must be read together.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from taskplane.agents.agent import ArtifactChunk
from taskplane.agents.changes import (
    MessageFactory,
    Put,
    artifact,
    is_plain_text,
    mark,
    parts_of,
    text_size,
)
from taskplane.agents.faults import AGENT_ERROR
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import message_times
from taskplane.runtime.message_content import is_plain_part
from taskplane.runtime.times import micros

log = logging.getLogger(__name__)

MAX_WAITING = 256
MAX_WAITING_BYTES = 256 * 1024
# The weight of a change beside its text: ids, metadata, framing.
OVERHEAD = 160
# Limits of the store: the number of figures of a run, and the characters of their names.
_MOST_FIGURES = 100
_LONGEST_NAME = 255
# Refusals after which the store accepts no change of a run any more.
LEASE_GONE = frozenset({"FENCED", "TERMINAL", "NOT_FOUND", "TASK_NOT_FOUND"})


class Stopped(Exception):
    """The run has lost its lease. Further output is not stored."""


class ItemRefused(Exception):
    """The store refused an item. A repeat would be refused, too."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class CommittedItem:
    """An item in the log: its generations, the number of its changes, and its messages.

    `timed`: the messages have the times of the log.
    """

    first: int
    last: int
    count: int
    timed: bool
    spoken: Sequence[tuple[int, a2a.Message]]


class _Ready:
    __slots__ = ("_put", "size", "spoken")

    def __init__(self, put: Put, spoken: a2a.Message | None) -> None:
        self._put = put
        self.spoken = spoken
        self.size = OVERHEAD + put.size()

    def fill(self, change: pb.Change) -> None:
        self._put.fill(change)


class _Text:
    __slots__ = ("_factory", "_message_id", "deltas", "size")
    spoken = None

    def __init__(self, factory: MessageFactory, message_id: str) -> None:
        self._factory = factory
        self._message_id = message_id
        self.deltas: list[str] = []
        self.size = OVERHEAD

    def fill(self, change: pb.Change) -> None:
        self._factory.partial(self._message_id, "".join(self.deltas), change)


class _Sent:
    """A change of an item with a refused final change. This change itself was not refused."""

    __slots__ = ("_change", "size", "spoken")

    def __init__(self, change: pb.Change, spoken: a2a.Message | None, size: int) -> None:
        self._change = change
        self.spoken = spoken
        self.size = size

    def fill(self, change: pb.Change) -> None:
        change.CopyFrom(self._change)


class _Chunks:
    __slots__ = ("_change", "_texts", "size")
    spoken = None

    def __init__(self, change: pb.Change) -> None:
        self._change = change
        self._texts: list[str] = []
        self.size = OVERHEAD + change.ByteSize()

    def extend(self, chunk: ArtifactChunk) -> int:
        """Append a chunk to the waiting chunks; return the number of added bytes."""
        if chunk.text is not None and is_plain_text(chunk):
            added = text_size(chunk.text)
            self._texts.append(chunk.text)
        else:
            parts = parts_of(chunk)
            self._join()
            self._change.artifact.artifact.parts.extend(parts)
            added = sum(part.ByteSize() for part in parts)
        if chunk.metadata or chunk.extensions:
            made = self._change.artifact.artifact
            before = made.ByteSize()
            mark(made, chunk)
            added += made.ByteSize() - before
        self._change.artifact.last_chunk = chunk.last
        self.size += added
        return added

    def fill(self, change: pb.Change) -> None:
        self._join()
        change.CopyFrom(self._change)

    def _join(self) -> None:
        if not self._texts:
            return
        parts = self._change.artifact.artifact.parts
        more = "".join(self._texts)
        self._texts.clear()
        if is_plain_part(parts[-1]):
            parts[-1].text += more
        else:
            parts.add().text = more


_Entry = _Ready | _Text | _Chunks | _Sent


@dataclass(slots=True)
class _Item:
    """An item at the appender. The appender sends the item unchanged, under its number, until an answer arrives."""

    request: pb.AppendItem
    entries: list[_Entry]
    final: bool
    copied: int
    counted: int


class Outbox:
    """A queue from one run to the appender. The run is the only waiter. An outbox belongs to one event loop."""

    def __init__(
        self,
        uid: str,
        fence: int,
        *,
        until: float,
        ring: Callable[["Outbox"], None],
        committed: Callable[[CommittedItem], None],
        lost: Callable[[], object],
    ) -> None:
        """`ring`: called when changes wait for the appender. `committed`: called with each committed item. `lost`:
        called when the store accepts no more changes of this run.

        `until`: the lease is certain up to this monotonic time. After this time nothing is sent, and the run pauses
        until a renewal.
        """
        self.uid = uid
        self.fence = fence
        self.until = until
        # The trace of the run, for its items.
        self.traceparent = ""
        self.input_generation = 0
        # The final change is in the log: the task has ended or is paused, without a lease.
        self.at_rest = False
        self._ring = ring
        self._committed = committed
        self._lost = lost
        self._waiting: list[_Entry] = []
        self._bytes = 0
        self._text: _Text | None = None
        self._chunks: dict[str, _Chunks] = {}
        self._item: _Item | None = None
        self._number = 0
        self._final: tuple[_Ready, int] | None = None
        self._copied = 0
        self._marked = 0
        # `_usage`: the sums of the figures of the run, as sent. `_counted`: the number of their changes. `_told`: the
        # number of changes that the store knows.
        self._usage = pb.AppendItem()
        self._counted = 0
        self._told = 0
        self._pending = False
        self._refusal: ItemRefused | None = None
        self._stopped = False
        self._waiter: asyncio.Future[None] | None = None

    # The run's side.

    def text(self, factory: MessageFactory, message_id: str, delta: str) -> None:
        """Put a piece of the open text. Join the piece to a waiting piece."""
        size = text_size(delta)
        waiting = self._text
        if waiting is None:
            waiting = self._text = _Text(factory, message_id)
            self._add(waiting)
        waiting.deltas.append(delta)
        waiting.size += size
        self._bytes += size

    def chunk(self, chunk: ArtifactChunk) -> None:
        """Put a chunk. Join the chunk to the waiting chunk of the same artifact, if both may be merged. ValueError."""
        waiting = self._chunks.get(chunk.artifact_id)
        if waiting is not None and chunk.mergeable and chunk.append and chunk.name is chunk.description is None:
            self._bytes += waiting.extend(chunk)
        else:
            waiting = _Chunks(artifact(chunk))
            self._add(waiting)
        if chunk.mergeable and not chunk.last:
            self._chunks[chunk.artifact_id] = waiting
        else:
            self._chunks.pop(chunk.artifact_id, None)

    def put(self, change: Put, spoken: a2a.Message | None = None) -> None:
        """Put a change that is never joined with another change.

        `spoken`: the message of the change, if the session must get a copy.
        """
        self._text = None
        self._chunks.clear()
        self._add(_Ready(change, spoken))

    @property
    def ending(self) -> bool:
        """Return whether the final change was sent and its answer may still come."""
        return self._item is not None and self._item.final and not self._expired

    @property
    def blocked(self) -> bool:
        """Return whether the run must wait in `space` before it puts more."""
        return (
            len(self._waiting) >= MAX_WAITING
            or self._bytes >= MAX_WAITING_BYTES
            or self._refusal is not None
            or self._stopped
            or self._expired
        )

    async def space(self) -> None:
        """Wait until more may be put. Stopped, ItemRefused."""
        while self.blocked:
            await self._change()

    async def flush(self) -> None:
        """Wait until all changes are in the log. Stopped, ItemRefused."""
        while self._waiting or self._item is not None:
            await self._change()
        self._check()

    async def finish(self, change: Put, spoken: a2a.Message | None = None, *, consumed: int) -> bool:
        """Append the change that ends or pauses the task, after all earlier changes.

        False: the task has a user message newer than `consumed`. Then `change` is not stored; earlier changes are
        stored, now or later. Stopped, ItemRefused.
        """
        self._final = (_Ready(change, spoken), consumed)
        self._pending = False
        self._ring(self)
        while not (self.at_rest or self._pending):
            await self._change()
        self._final = None
        return self.at_rest

    def mark_copied(self, generation: int) -> None:
        """Report with the next item that the session has every message up to `generation`."""
        self._copied = max(self._copied, generation)

    def count(self, figures: Mapping[str, float]) -> None:
        """Add figures to the sums of the run. The store has the sums at the end of the run, after any kind of end.

        ValueError, TypeError: a name or a figure cannot be sent, there are too many figures, or a sum is not finite.
        Then nothing is added.
        """
        if not figures:
            return
        sums = pb.AppendItem()
        sums.usage.update(self._usage.usage)
        for name, value in figures.items():
            if len(name) > _LONGEST_NAME:
                raise ValueError(f"the name of a figure must have at most {_LONGEST_NAME} characters, not {len(name)}")
            total = sums.usage.get(name, 0) + float(value)
            if not math.isfinite(total):
                raise ValueError(f"the sum of {name} is too large for a double")
            sums.usage[name] = total
        if len(sums.usage) > _MOST_FIGURES:
            raise ValueError(f"a run must have at most {_MOST_FIGURES} figures, not {len(sums.usage)}")
        self._usage = sums
        self._counted += 1
        if self._item is None:
            self._ring(self)

    def clear(self) -> None:
        """Discard waiting and refused changes, so that the run can try a last change alone."""
        self._waiting.clear()
        self._bytes = 0
        self._text = None
        self._chunks.clear()
        self._told = self._counted
        self._refusal = None

    def close(self) -> None:
        """Discard waiting changes after the loss of the lease, and notify the run."""
        self._stopped = True
        self._item = None
        self._final = None
        self._waiting.clear()
        self._wake()

    # The appender's side.

    def weight(self) -> tuple[int, int]:
        """Return the number of changes and the approximate bytes of the next item; (0, 0) if there is no item now."""
        if self._stopped or self._expired or self._refusal is not None:
            return 0, 0
        of_figures = self._usage.ByteSize() if self._counted > self._told else 0
        if self._item is not None:
            return max(1, len(self._item.entries)), of_figures + sum(entry.size for entry in self._item.entries)
        if self._final is None or self._pending:
            if not self._waiting and of_figures:
                return 1, OVERHEAD + of_figures
            return len(self._waiting), self._bytes + of_figures
        return len(self._waiting) + 1, self._bytes + of_figures + self._final[0].size

    def take(self, request: pb.AppendEventsRequest) -> bool:
        """Add an item to `request`: the item without an answer, or a new item with all waiting changes.

        Return False if the item cannot be sent. Then the item is refused.
        """
        if self._item is not None:
            request.items.append(self._item.request)
            return True
        self._number += 1
        item = request.items.add(task_uid=self.uid, fence=self.fence, number=self._number)
        if self.traceparent:
            item.traceparent = self.traceparent
        entries, self._waiting = self._waiting, []
        self._bytes = 0
        self._text = None
        self._chunks.clear()
        final = self._final is not None and not self._pending
        if self._final is not None and final:
            entries.append(self._final[0])
            item.consumed_generation = self._final[1]
        changes = item.changes
        try:
            for entry in entries:
                entry.fill(changes.add())
        except Exception as error:
            log.exception("changes of the run under fence %d cannot be sent", self.fence)
            del request.items[-1]
            self.refuse(ItemRefused(AGENT_ERROR, f"a change cannot be sent: {type(error).__name__}"))
            return False
        if self._copied > self._marked:
            item.copied_generation = self._copied
        if self._counted > self._told:
            item.usage.update(self._usage.usage)
        self._item = _Item(item, entries, final, self._copied, self._counted)
        self._wake()
        return True

    def answer(self, result: pb.AppendResult) -> bool:
        """Take the store's answer to the item. Return whether the outbox has another item."""
        item = self._item
        if item is None:
            return False
        self._item = None
        self.input_generation = max(self.input_generation, result.input_generation)
        if not result.HasField("refusal"):
            self._marked = max(self._marked, item.copied)
            self._told = item.counted
            if item.final:
                self._final = None
                self.at_rest = True
            spoken = [
                (result.first_generation + index, entry.spoken)
                for index, entry in enumerate(item.entries)
                if entry.spoken is not None
            ]
            timed = result.HasField("created_at")
            if timed:
                # A final message that was sent before keeps its time.
                for _, message in spoken:
                    message_times.add_time(message.metadata, micros(result.created_at))
            first, last = result.first_generation, result.last_generation
            if item.entries:
                self._committed(CommittedItem(first, last, len(item.entries), timed, spoken))
        elif result.refusal.reason == "PENDING_INPUT" and item.final:
            self._pending = True
            sent = zip(item.request.changes, item.entries, strict=True)
            kept = [_Sent(change, entry.spoken, entry.size) for change, entry in sent][:-1]
            self._waiting[:0] = kept
            self._bytes += sum(entry.size for entry in kept)
        elif result.refusal.reason in LEASE_GONE:
            self.close()
            self._lost()
        else:
            self.refuse(ItemRefused(result.refusal.reason, result.refusal.message))
        self._wake()
        more = bool(self._waiting) or self._final is not None or self._counted > self._told
        return self._refusal is None and not self.at_rest and more

    def refuse(self, refusal: ItemRefused) -> None:
        """Drop an item that the store will never accept. The run is notified at its next step. Nothing is sent until
        the run has cleared the waiting changes."""
        self._item = None
        self._final = None
        self._refusal = refusal
        self._wake()

    def renewed(self, until: float) -> None:
        """Extend the certain time of the lease to `until`, on the monotonic clock."""
        standing = self._expired
        self.until = until
        if standing:
            self._wake()
            self._ring(self)

    @property
    def _expired(self) -> bool:
        """Return whether the lease is no longer certain. Then nothing may be sent."""
        return time.monotonic() > self.until

    def _add(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        self._bytes += entry.size
        if len(self._waiting) == 1 and self._item is None:
            self._ring(self)

    def _check(self) -> None:
        if self._stopped:
            raise Stopped
        if self._refusal is not None:
            raise self._refusal

    async def _change(self) -> None:
        """Wait for the next change of state. Stopped, ItemRefused."""
        self._check()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        self._check()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
