"""Promises of WatchTask: ordered, gapless, resumable from anywhere, and cheap for those who are caught up."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest
from tests.tasks.plane import (
    ANN,
    BOB,
    COMPLETED,
    INPUT_REQUIRED,
    TERMINAL,
    Plane,
    Run,
    chunk,
    document,
    follow_up,
    message,
    opened,
    status,
    until,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import failpoints
from taskplane.runtime.errors import Invalid, NotFound, OutOfRange
from taskplane.runtime.pacing import Pacer
from taskplane.storage.engine import Engine
from taskplane.tasks import wire
from taskplane.tasks.domain.commands import Append
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.pages import PAGE_EVENTS
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.watch import EventCache, Watch, Watched
from taskplane.tasks.wire import read_changes

SCOPE = Scope(tenant="tenant", owner="ann", actor="executor")
KINDS = pytest.mark.parametrize("kind", ["inprocess", "socket"])


async def events_of(stream: AsyncIterator[pb.WatchTaskResponse]) -> tuple[list[int], pb.End]:
    """The generations that a stream brings until its end, and the end."""
    seen: list[int] = []
    async for response in stream:
        if response.HasField("end"):
            return seen, response.end
        seen.extend(event.generation for event in response.events.events)
    raise AssertionError("the stream closed without an end")


async def take(stream: AsyncIterator[pb.WatchTaskResponse], count: int) -> list[pb.Event]:
    """The next `count` events."""
    events: list[pb.Event] = []
    while len(events) < count:
        response = await anext(stream)
        events.extend(response.events.events)
    return events


async def two_hundred(plane: Plane) -> Run:
    run = await plane.create(working=True)
    await run.chunks(197)
    await run.complete()
    return run


@KINDS
@pytest.mark.parametrize("restarted", [False, True], ids=["hot", "cold"])
async def test_a_watch_from_every_cursor_yields_exactly_the_rest(url: str, kind: str, restarted: bool) -> None:
    """C3, C4: 201 cursors, nothing missing, repeated or out of order, from memory and from the database."""
    async with opened(url, lease_ttl=60.0) as plane:
        run = await two_hundred(plane)
        if not restarted:
            await watch_from_everywhere(plane, run, kind)
    if restarted:
        async with opened(url, lease_ttl=60.0) as plane:
            await watch_from_everywhere(plane, run, kind)


async def watch_from_everywhere(plane: Plane, run: Run, kind: str) -> None:
    for place in range(201):
        seen, end = await events_of(plane.watch(run.id, run.at(place), stop_at=TERMINAL, kind=kind))
        assert seen == list(range(place + 1, 201))
        assert end.cursor == run.at(200)
        assert end.record.state == COMPLETED
        assert len(end.record.task.artifacts[0].parts[0].text) == 197


async def test_a_watcher_gets_events_appended_during_the_watch(plane: Plane) -> None:
    run = await plane.create(working=True)
    stream = plane.watch(run.id, run.at(1), stop_at=TERMINAL)
    assert [event.generation for event in await take(stream, 1)] == [2]
    await run.append(chunk(), chunk())
    assert [event.generation for event in await take(stream, 2)] == [3, 4]
    await run.complete()
    seen, end = await events_of(stream)
    assert seen == [5]
    assert end.record.terminal_generation == 5


async def test_watchers_of_one_task_see_the_same(plane: Plane) -> None:
    run = await plane.create(working=True)
    readers = [
        asyncio.ensure_future(events_of(plane.watch(run.id, run.at(1), stop_at=TERMINAL, kind=kind)))
        for kind in ("inprocess", "inprocess", "socket", "socket")
    ]
    await run.chunks(300, each=7)
    await run.complete()
    for seen, _ in await asyncio.gather(*readers):
        assert seen == list(range(2, 304))


@KINDS
async def test_a_slow_watcher_gets_everything_in_few_large_batches(plane: Plane, kind: str) -> None:
    """C13: it falls far behind what is kept in memory, and misses nothing."""
    run = await plane.create(working=True)
    stream = plane.watch(run.id, run.at(1), stop_at=TERMINAL, kind=kind)
    await take(stream, 1)
    await run.chunks(3000, size=100, each=500)
    await run.complete()
    seen: list[int] = []
    messages = 0
    async for response in stream:
        messages += 1
        seen.extend(event.generation for event in response.events.events)
    assert seen == list(range(3, 3004))
    assert messages < 60


@KINDS
async def test_the_first_batch_of_a_long_log_comes_before_the_rest_is_read(url: str, kind: str) -> None:
    """C13: nothing is in memory, and no more than one short page is read until somebody has it."""
    async with opened(url, lease_ttl=60.0) as plane:
        run = await plane.create(working=True)
        await run.chunks(1000, each=500)
    async with opened(url, lease_ttl=60.0) as plane:
        plane.engine.reads.clear()
        stream = plane.watch(run.id, run.at(1), stop_at=TERMINAL, kind=kind)
        first = await anext(stream)
        assert [event.generation for event in first.events.events] == list(range(2, 2 + PAGE_EVENTS))
        if kind == "inprocess":
            # A socket buffers more than one message, and the next page may be on its way.
            assert plane.engine.reads.count("read_after") <= 2
        assert "get_content" not in plane.engine.reads
        stream.cancel()


async def test_snapshot_and_tail_meet_without_gap_or_repetition_while_a_writer_appends(plane: Plane) -> None:
    """C3: one linearization point, at whatever moment the watch begins."""
    run = await plane.create(working=True)
    readers: list[asyncio.Future[None]] = []
    for _ in range(40):
        readers.append(asyncio.ensure_future(check_snapshot_and_tail(plane, run)))
        await run.chunks(10, each=4)
    await run.complete()
    await asyncio.gather(*readers)


async def check_snapshot_and_tail(plane: Plane, run: Run) -> None:
    stream = plane.watch(run.id, stop_at=TERMINAL)
    snapshot = (await anext(stream)).snapshot
    at = snapshot.record.generation
    assert snapshot.cursor == run.at(at)
    text = snapshot.record.task.artifacts[0].parts[0].text if snapshot.record.task.artifacts else ""
    assert len(text) == min(at - 2, 400)
    seen, _ = await events_of(stream)
    assert seen == list(range(at + 1, 404))


@asynccontextmanager
async def unheard(plane: Plane, engine_name: str) -> AsyncGenerator[Callable[[Run], Awaitable[None]]]:
    """Appends two events that the store does not hear of: through another log, or where it is the only one, because
    it fails to tell."""

    async def append(log: SqlTaskLog, run: Run) -> None:
        run.number += 1
        changes = read_changes([chunk(), chunk()], "changes")
        await log.submit(Append(actor="e", task_uid=run.uid, fence=run.fence, number=run.number, changes=changes))

    async def append_untold(run: Run) -> None:
        failpoints.configure("fanout.before_publish=raise(INTERNAL)")
        try:
            await run.append(chunk(), chunk())
        finally:
            failpoints.configure("")

    if engine_name == "sqlite":
        yield append_untold
    else:
        async with SqlTaskLog(plane.engine) as log:
            yield partial(append, log)


async def test_a_lost_bell_costs_only_the_poll(url: str, engine_name: str) -> None:
    """C3: a commit of which the watchers of this process hear nothing."""
    async with opened(url, lease_ttl=60.0) as plane, unheard(plane, engine_name) as append:
        run = await plane.create(working=True)
        stream = plane.watch(run.id, run.at(2))
        ending = asyncio.ensure_future(events_of(plane.watch(run.id, run.at(2), stop_at=TERMINAL, end_only=True)))
        reading = asyncio.ensure_future(take(stream, 2))
        await until(lambda: len(plane.service.watched) == 1)
        await append(run)
        async with asyncio.timeout(30.0):
            assert [event.generation for event in await reading] == [3, 4]
        # The next commit of this process leaves a gap in its memory, and none in the stream.
        await append(run)
        await run.append(chunk())
        assert [event.generation for event in await take(stream, 3)] == [5, 6, 7]
        await run.complete()
        assert (await ending)[1].cursor == run.at(8)


async def test_watching_through_another_store_process_is_the_same(url: str, engine_name: str) -> None:
    """Two stores on one PostgreSQL: each sees what the other commits, in order, and neither trusts its memory."""
    if engine_name == "sqlite":
        pytest.skip("SQLite has one store process")
    async with opened(url, lease_ttl=60.0) as one, opened(url, lease_ttl=60.0) as two:
        run = await one.create(working=True)
        reading = asyncio.ensure_future(events_of(two.watch(run.id, run.at(1), stop_at=TERMINAL)))
        await run.append(chunk())
        run.plane = two
        await run.append(chunk(), chunk())
        run.plane = one
        await run.complete()
        seen, _ = await reading
        assert seen == [2, 3, 4, 5, 6]
        await two.store().DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
        with pytest.raises(NotFound):
            await anext(one.watch(run.id))


async def test_a_watch_that_begins_after_the_end_brings_the_remainder_and_the_end(plane: Plane) -> None:
    run = await plane.create(working=True)
    await run.complete()
    assert await generations(plane.watch(run.id, run.at(2), stop_at=TERMINAL)) == [3]
    assert await generations(plane.watch(run.id, run.at(3), stop_at=TERMINAL)) == []
    stream = plane.watch(run.id, stop_at=TERMINAL)
    assert (await anext(stream)).snapshot.record.task.status.state == COMPLETED
    assert await generations(stream) == []


async def generations(stream: AsyncIterator[pb.WatchTaskResponse]) -> list[int]:
    return (await events_of(stream))[0]


async def test_a_watch_stops_at_the_same_event_however_late_it_is_read(plane: Plane) -> None:
    """A pause that was answered meanwhile still ends the stream of the turn that paused."""
    run = await plane.create(working=True)
    await run.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
    early = plane.watch(run.id, run.at(1), stop_at=[*TERMINAL, INPUT_REQUIRED])
    assert await generations(early) == [2, 3]
    await plane.store().AddMessage(follow_up(run.id))
    late, end = await events_of(plane.watch(run.id, run.at(1), stop_at=[*TERMINAL, INPUT_REQUIRED]))
    assert late == [2, 3]
    assert end.cursor == run.at(3)
    assert end.record.generation == 4
    subscriber = plane.watch(run.id, run.at(1), stop_at=TERMINAL)
    assert [event.generation for event in await take(subscriber, 3)] == [2, 3, 4]


async def test_an_end_only_watch_sends_the_end_and_nothing_else(plane: Plane) -> None:
    run = await plane.create(working=True)
    for cursor in ("", run.at(1)):
        stream = plane.watch(run.id, cursor, stop_at=TERMINAL, end_only=True)
        reading = asyncio.ensure_future(anext(stream))
        await run.append(chunk())
        assert not reading.done()
        if cursor:
            await run.complete()
            assert (await reading).end.record.task.status.state == COMPLETED
        else:
            reading.cancel()


async def test_the_end_carries_the_task_up_to_a_mebibyte(plane: Plane) -> None:
    small, large = [await plane.create(working=True) for _ in range(2)]
    await small.chunks(10, size=90_000, each=1)
    await large.chunks(12, size=90_000, each=1)
    for run, carried in ((small, True), (large, False)):
        await run.complete()
        _, end = await events_of(plane.watch(run.id, run.at(1), stop_at=TERMINAL))
        assert end.record.HasField("task") is carried
        assert end.record.state == COMPLETED


@pytest.mark.parametrize(
    "cursor",
    ["x", "-1", "abc-", "abc-1-2", "ABC-1", "abc1-1", "abc-+1", "abc- 1", "abc-1\n", "abc-\u0661", "a" * 70 + "-1"],
)
async def test_a_malformed_cursor_is_refused(plane: Plane, cursor: str) -> None:
    run = await plane.create()
    with pytest.raises(Invalid) as refused:
        await anext(plane.watch(run.id, cursor))
    assert refused.value.reason == "CURSOR_MALFORMED"


async def test_a_cursor_that_cannot_be_honoured_is_refused_by_name(plane: Plane) -> None:
    """C4."""
    run, other = await plane.create(working=True), await plane.create()
    for cursor, reason in (
        (run.at(3), "CURSOR_AHEAD"),
        (run.at(10**18), "CURSOR_AHEAD"),
        (other.at(1), "CURSOR_FOREIGN"),
    ):
        with pytest.raises(OutOfRange) as refused:
            await anext(plane.watch(run.id, cursor))
        assert refused.value.reason == reason
    assert re.fullmatch(r"[a-z2-7]+-[0-9]+", run.at(1))


async def test_a_task_of_another_owner_is_not_found(plane: Plane, url: str) -> None:
    run = await plane.create()
    errors: list[str] = []
    for task_id, who in ((run.id, BOB), ("none", BOB), ("none", ANN)):
        with pytest.raises(NotFound) as refused:
            await anext(plane.watch(task_id, who=who))
        errors.append(refused.value.message.replace(task_id, "?"))
    assert len(set(errors)) == 1
    assert (await anext(plane.watch(run.id, who=ANN))).HasField("snapshot")


async def test_deleting_a_watched_task_ends_the_watch(plane: Plane) -> None:
    run = await plane.create(working=True)
    stream = plane.watch(run.id, run.at(2))
    reading = asyncio.ensure_future(anext(stream))
    await until(lambda: len(plane.service.watched) == 1)
    await plane.store().DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
    with pytest.raises(NotFound):
        await reading


async def test_commits_of_this_store_reach_watchers_at_once(url: str) -> None:
    """Events and the deletion, without a poll."""
    async with opened(url, lease_ttl=60.0, poll_every=60.0) as plane:
        run = await plane.create(working=True)
        stream = plane.watch(run.id, run.at(2))
        reading = asyncio.ensure_future(take(stream, 1))
        await until(lambda: len(plane.service.watched) == 1)
        await run.append(chunk())
        async with asyncio.timeout(30.0):
            await reading
            await plane.store().DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
            with pytest.raises(NotFound):
                await anext(stream)


@KINDS
async def test_a_watch_that_is_left_leaves_nothing_behind(plane: Plane, kind: str) -> None:
    """W16: over every channel."""
    run = await plane.create(working=True)
    streams = [plane.watch(run.id, kind=kind) for _ in range(20)]
    for stream in streams:
        await anext(stream)
    assert len(plane.service.watched) == 1
    for stream in streams:
        stream.cancel()
    await until(lambda: not len(plane.service.watched))


async def test_a_draining_store_ends_its_watches_cleanly(plane: Plane) -> None:
    """C14: at a boundary, without an end: the client resumes."""
    run = await plane.create(working=True)
    stream = plane.watch(run.id, run.at(1), stop_at=TERMINAL)
    await take(stream, 1)
    reading = asyncio.ensure_future(collect(stream))
    await until(lambda: len(plane.service.watched) == 1)
    await plane.service.drain()
    assert await reading == []


async def collect(stream: AsyncIterator[pb.WatchTaskResponse]) -> Sequence[pb.WatchTaskResponse]:
    return [response async for response in stream]


async def test_a_watcher_of_a_document_task_is_led_to_the_new_document(plane: Plane) -> None:
    """C1: every version is an event, the document comes whole, and the stream ends at a terminal state."""
    store = plane.store()
    put = await store.PutTask(pb.PutTaskRequest(task=document("doc")))
    stream = plane.watch("doc", stop_at=TERMINAL)
    assert (await anext(stream)).snapshot.record.task.artifacts[0].parts[0].text == "draft"
    await store.PutTask(pb.PutTaskRequest(task=document("doc", text="second")))
    events = (await anext(stream)).events.events
    assert [(event.generation, event.kind, event.HasField("event")) for event in events] == [
        (2, pb.EVENT_KIND_REPLACED, False)
    ]
    snapshot = (await anext(stream)).snapshot
    assert snapshot.cursor == f"{put.record.incarnation}-2"
    assert snapshot.record.task.artifacts[0].parts[0].text == "second"
    await store.PutTask(pb.PutTaskRequest(task=document("doc", COMPLETED, "third")))
    rest = await collect(stream)
    assert [response.WhichOneof("response") for response in rest] == ["events", "snapshot", "end"]
    assert rest[2].end.record.task.status.state == COMPLETED
    late = await collect(plane.watch("doc", f"{put.record.incarnation}-1", stop_at=TERMINAL))
    assert [response.WhichOneof("response") for response in late] == ["events", "snapshot", "end"]
    assert [event.generation for event in late[0].events.events] == [2, 3]


async def test_the_watch_of_a_new_task_takes_no_read(url: str, engine_name: str) -> None:
    """A store that is alone serves those who are caught up from memory: created, watched, completed, no read at all."""
    if engine_name != "sqlite":
        pytest.skip("with several store processes the first look is into the database")
    async with opened(url, lease_ttl=60.0, poll_every=60.0) as plane:
        await plane.create()
        plane.engine.reads.clear()
        run = await plane.create(working=True)
        reading = asyncio.ensure_future(events_of(plane.watch(run.id, run.at(1), stop_at=TERMINAL)))
        whole = asyncio.ensure_future(anext(plane.watch((await plane.create()).id)))
        await run.chunks(50, each=5)
        await run.complete()
        seen, end = await reading
        assert seen == list(range(2, 54))
        assert end.record.task.status.state == COMPLETED
        assert (await whole).snapshot.record.task.status.state == a2a.TASK_STATE_SUBMITTED
        others = {"sweep", "expired", "claimable", "held", "now"}
        assert not [read for read in plane.engine.reads if read not in others]


async def test_a_silent_watch_sends_a_bookmark(url: str) -> None:
    """After some seconds of silence, followed by the later events."""
    async with opened(url, lease_ttl=60.0) as plane, OpenWatch(plane.engine) as watch:
        run = await plane.create(working=True)
        stream = watch.stream(SCOPE, run.id, cursor=run.at(1))
        assert (await anext(stream)).events.events[0].generation == 2
        assert (await anext(stream)).bookmark.cursor == run.at(2)
        await stream.aclose()


class OpenWatch:
    """A watch that loses patience soon."""

    def __init__(self, engine: Engine) -> None:
        self._log = SqlTaskLog(engine)

    async def __aenter__(self) -> Watch:
        log = await self._log.__aenter__()
        watched = Watched(log, poll_every=0.1)
        records = wire.Wire(await log.epoch())
        return Watch(log, EventCache(wire.event), watched, records, Pacer(), alone=False, bookmark_after=0.05)

    async def __aexit__(self, *_: object) -> None:
        await self._log.__aexit__(None, None, None)
