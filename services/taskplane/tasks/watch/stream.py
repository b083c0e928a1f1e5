"""One watch: the events of a task after a place, in order and without a gap, then live ones, then the end."""

import time
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import nullcontext
from typing import Final, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import tracing
from taskplane.runtime.errors import Unavailable
from taskplane.runtime.failpoints import afp
from taskplane.runtime.pacing import Pacer
from taskplane.tasks.domain.drafts import task_not_found
from taskplane.tasks.domain.kinds import REPLACED
from taskplane.tasks.domain.task import DOCUMENT, Event, Row, Scope, content_size, cursor_of
from taskplane.tasks.pages import PAGE_BYTES, PAGE_EVENTS
from taskplane.tasks.store import ReadLog
from taskplane.tasks.watch import cursor as cursors
from taskplane.tasks.watch.event_cache import EventCache
from taskplane.tasks.watch.ring import Ring, batch
from taskplane.tasks.watch.watched import Watched

MAX_FINAL: Final = 1024 * 1024
# A reader that takes page after page from the database gets longer ones, up to this; their bytes stay bounded.
LONGEST_PAGE: Final = 512
# Bytes of one message of such a page; it takes a millisecond or two to translate.
BATCH_BYTES: Final = 64 * 1024


class Records(Protocol):
    """How rows are shown."""

    def incarnation(self, row: Row) -> str:
        """Return the first half of the task's cursors."""
        ...

    def fill(self, record: pb.TaskRecord, row: Row, task: a2a.Task | None = None) -> None:
        """Show the row, with the content `task`, in the empty `record`."""
        ...


class Watch:
    """Serves WatchTask calls.

    `alone`: no other process writes to this log, so the owner and the newest generation of a task may be taken from the
    cache. Otherwise they are read from the database when a watch begins.
    """

    def __init__(
        self,
        log: ReadLog,
        cache: EventCache,
        watched: Watched,
        records: Records,
        pacer: Pacer,
        *,
        alone: bool,
        bookmark_after: float = 5.0,
    ) -> None:
        self._log = log
        self._cache = cache
        self._watched = watched
        self._records = records
        self._pacer = pacer
        self._alone = alone
        self._bookmark_after = bookmark_after

    async def stream(
        self,
        scope: Scope,
        task_id: str,
        *,
        cursor: str = "",
        stop_at: Collection[int] = (),
        end_only: bool = False,
    ) -> AsyncGenerator[pb.WatchTaskResponse, None]:
        """Yield the responses of one WatchTask call, in the order of the contract.

        Each event is tested against `stop_at`, so that a stream from the same cursor always ends at the same event,
        whenever it is read. When the store drains, the stream ends without `end`. NotFound: the task does not exist, or
        was deleted during the watch. Invalid `CURSOR_MALFORMED`; OutOfRange `CURSOR_FOREIGN`, `CURSOR_AHEAD`,
        `CURSOR_TRIMMED`.
        """
        parsed = cursors.parse(cursor) if cursor else None
        whole = parsed is None and not end_only
        with self._watched.starting() as start:
            row, task = await self._start(scope, task_id, whole=whole, beyond=parsed[1] if parsed else 0)
            tracing.link(tracing.unpack(row.trace))
            incarnation = self._records.incarnation(row)
            place = row.generation
            if parsed is not None:
                # A trimmed log of a document loses nothing: a late watcher gets the whole current document.
                trimmed_to = 0 if row.origin == DOCUMENT else row.trimmed_generation
                cursors.check(parsed[1], parsed[0], own=incarnation, head=row.generation, trimmed_to=trimmed_to)
                place = parsed[1]
            # Find commits after the read: those of this process are in the cache, those of other processes in `start`.
            cached = self._cache.get(row.uid)
            head = max(row.generation, cached.row.generation if cached else 0)
            seat = self._watched.enter(row.uid, head, place, stop_at if end_only else None, start)
        try:
            if task is not None:
                yield self._snapshot(row, task, incarnation)
                await afp("watch.after_snapshot")
            spoke = time.monotonic()
            limit = PAGE_EVENTS
            behind = False
            while True:
                if seat.gone:
                    raise task_not_found(task_id)
                if self._watched.draining:
                    return
                place = seat.place
                if place >= seat.head:
                    if row.generation == place and row.state in stop_at:
                        break
                    quiet = spoke + self._bookmark_after - time.monotonic()
                    if quiet <= 0:
                        yield pb.WatchTaskResponse(bookmark=pb.Bookmark(cursor=cursor_of(incarnation, place)))
                        spoke = time.monotonic()
                    elif self._watched.outage is not None:
                        raise self._watched.outage
                    else:
                        await seat.wait(quiet)
                    continue
                if row.origin == DOCUMENT:
                    row, task = await self._current(scope, row)
                    # Hiding or restoring a document does not change its content.
                    replaced = place < row.trimmed_generation
                    place = max(place, row.trimmed_generation)
                    while place < row.generation and not end_only:
                        _, ring, events = await self._events(row.uid, place, PAGE_EVENTS)
                        events = [event for event in events if event.generation <= row.generation]
                        yield self._batch(ring, events)
                        place = events[-1].generation
                        replaced = replaced or any(event.kind == REPLACED for event in events)
                    if replaced and not end_only:
                        yield self._snapshot(row, task, incarnation)
                        spoke = time.monotonic()
                    seat.place = row.generation
                    continue
                async with self._pacer.piece() if behind else nullcontext():
                    row, ring, events = await self._events(row.uid, place, limit)
                events, stopped = _until(events, stop_at)
                if not end_only:
                    await afp("watch.before_send")
                    for some in [events] if ring is not None else _batches(events):
                        async with self._pacer.piece() if behind else nullcontext():
                            response = self._batch(ring, some)
                        yield response
                    spoke = time.monotonic()
                seat.place = place = events[-1].generation
                if stopped:
                    break
                behind = ring is None and place < seat.head
                limit = min(2 * limit, LONGEST_PAGE) if behind else PAGE_EVENTS
            yield await self._end(scope, row, place, incarnation)
        finally:
            seat.leave()

    async def _start(self, scope: Scope, task_id: str, *, whole: bool, beyond: int) -> tuple[Row, a2a.Task | None]:
        """Return the row to begin with, and if `whole` the task at exactly the generation of the row."""
        cached = self._cache.find(scope.tenant, task_id) if self._alone else None
        if cached is not None and cached.row.generation >= beyond:
            if cached.row.owner != scope.owner:
                raise task_not_found(task_id)
            if not whole:
                return cached.row, None
            task = self._cache.task_at(cached.row.uid, cached.row.generation)
            if task is not None:
                return cached.row, task
        if whole:
            return await self._log.get(scope, task_id)
        return await self._log.row(scope, task_id), None

    async def _events(self, uid: str, place: int, limit: int) -> tuple[Row, Ring | None, Sequence[Event]]:
        """Return the row of the task, the ring if the events are cached, and the events after `place`, at least one."""
        cached = self._cache.get(uid)
        if cached is not None:
            events = cached.ring.after(place, PAGE_BYTES)
            if events:
                return cached.row, cached.ring, events
        page = await self._log.read_after(uid, place, limit)
        if not page.events:
            raise Unavailable("the log of this task is shorter than before", reason="LOG_CHANGED")
        return page.row, None, page.events

    def _batch(self, ring: Ring | None, events: Sequence[Event]) -> pb.WatchTaskResponse:
        return ring.batch(events, self._cache.render) if ring is not None else batch(events, self._cache.render)

    async def _current(self, scope: Scope, row: Row) -> tuple[Row, a2a.Task]:
        """Return the current task. NotFound also if another task has its id by now."""
        cached = self._cache.get(row.uid)
        if cached is not None and cached.row.generation > row.generation:
            task = self._cache.task_at(cached.row.uid, cached.row.generation)
            if task is not None:
                return cached.row, task
        now, task = await self._log.get(scope, row.id)
        if now.uid != row.uid:
            raise task_not_found(row.id)
        return now, task

    def _snapshot(self, row: Row, task: a2a.Task, incarnation: str) -> pb.WatchTaskResponse:
        response = pb.WatchTaskResponse()
        response.snapshot.cursor = cursor_of(incarnation, row.generation)
        self._records.fill(response.snapshot.record, row, task)
        return response

    async def _end(self, scope: Scope, row: Row, place: int, incarnation: str) -> pb.WatchTaskResponse:
        """Return the last response. Its record has the newest generation: a pause may have been answered since."""
        task = self._cache.task_at(row.uid, place) if row.generation == place else None
        if task is None and content_size(row) <= MAX_FINAL:
            row, task = await self._current(scope, row)
        if task is not None:
            size = row.snapshot_bytes if row.snapshot_generation == row.generation else task.ByteSize()
            task = task if size <= MAX_FINAL else None
        response = pb.WatchTaskResponse()
        response.end.cursor = cursor_of(incarnation, place)
        self._records.fill(response.end.record, row, task)
        return response


def _batches(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Cut the events into batches of at most `PAGE_EVENTS` events and `BATCH_BYTES`; a larger event is a batch."""
    first = size = 0
    for index, event in enumerate(events):
        size += len(event.payload)
        if index > first and (index - first == PAGE_EVENTS or size > BATCH_BYTES):
            yield events[first:index]
            first, size = index, len(event.payload)
    yield events[first:]


def _until(events: Sequence[Event], states: Collection[int]) -> tuple[Sequence[Event], bool]:
    """Return the events up to the first one with a state in `states`, that one included, and whether there is one."""
    for index, event in enumerate(events, 1):
        if event.state in states:
            return events[:index], True
    return events, False
