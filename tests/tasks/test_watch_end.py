"""A watch that wants the end only: it passes over all else in silence, told of it or not, and ends where others do."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from tests.conftest import Migrated
from tests.tasks.plane import (
    INPUT_REQUIRED,
    TERMINAL,
    WORKING,
    Plane,
    Run,
    chunk,
    follow_up,
    message,
    opened,
    status,
    until,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime import failpoints
from taskplane.storage.bell import key_of
from taskplane.tasks.rings import Notified


@pytest.fixture
async def unpolled(migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """A store that does not look by itself: it might see a commit just before it is told of it."""
    async with opened(await migrated("taskplane.tasks"), lease_ttl=60.0, poll_every=60.0) as plane:
        yield plane
        await until(lambda: not len(plane.service.watched))


async def everything(stream: AsyncIterator[pb.WatchTaskResponse]) -> list[pb.WatchTaskResponse]:
    return [response async for response in stream]


async def watching(
    plane: Plane, run: Run, *stop_at: int, cursor: str = ""
) -> "asyncio.Task[list[pb.WatchTaskResponse]]":
    """All that an end-only watch sends, which has taken its place."""
    stream = plane.watch(run.id, cursor, stop_at=stop_at, end_only=True)
    reading = asyncio.create_task(everything(stream))
    await until(lambda: len(plane.service.watched) == 1)
    return reading


async def append(run: Run, *changes: pb.Change, told: bool = True) -> int:
    """The last generation of an item; where its watchers are not `told`, only their re-check can find it."""
    failpoints.configure("" if told else "fanout.before_publish=raise(INTERNAL)")
    try:
        result = await run.append(*changes)
    finally:
        failpoints.configure("")
    assert not result.HasField("refusal"), result.refusal
    return result.last_generation


async def ends_at(run: Run, reading: "asyncio.Task[list[pb.WatchTaskResponse]]", generation: int) -> None:
    """It has sent one message, the end at this generation, with the task as it is now."""
    async with asyncio.timeout(30.0):
        responses = await reading
    assert [response.WhichOneof("response") for response in responses] == ["end"]
    end, now = responses[0].end, await run.record_now()
    assert end.cursor == run.at(generation)
    assert (end.record.generation, end.record.state) == (now.generation, now.state)
    assert end.record.task == now.task


# The watcher is told of an item (+), or not (-); the last one ends the task.
@pytest.mark.parametrize("script", ["+", "++++", "-+", "+-+", "--+", "+-+-+", "-", "+-", "+--"])
async def test_events_are_passed_over_until_the_end(plane: Plane, script: str) -> None:
    """C3: with gaps, too, between what it is told."""
    run = await plane.create(working=True)
    await run.append(chunk())
    reading = await watching(plane, run, *TERMINAL)
    for told in script[:-1]:
        said = status(WORKING, message(f"{run.number}"))
        await append(run, chunk(append=True), said, chunk(append=True), told=told == "+")
        assert not reading.done()
    end = await append(run, chunk(append=True), status(TERMINAL[0], message("done")), told=script[-1] == "+")
    assert end == 3 + 3 * (len(script) - 1) + 2
    await ends_at(run, reading, end)


async def test_a_watcher_that_is_notified_of_all_commits_reads_no_events(unpolled: Plane) -> None:
    """Its place moves with the commits."""
    plane = unpolled
    run = await plane.create(working=True)
    reading = await watching(plane, run, *TERMINAL, cursor=run.at(2))
    for number in range(20):
        await append(run, chunk(append=number > 0), chunk(append=True))
    assert not reading.done()
    end = await append(run, status(TERMINAL[0]))
    await ends_at(run, reading, end)
    assert "read_after" not in plane.engine.reads


@pytest.mark.parametrize("told", [True, False])
async def test_a_pause_that_was_answered_meanwhile_still_ends_the_watch(plane: Plane, told: bool) -> None:
    """C4: the watch ends at the event that it waits for, with the task as it is by then."""
    run = await plane.create(working=True)
    reading = await watching(plane, run, INPUT_REQUIRED, *TERMINAL)
    await append(run, chunk(), told=told)
    paused = await append(run, chunk(append=True), status(INPUT_REQUIRED, message("which?")), told=told)
    await plane.store().AddMessage(follow_up(run.id))
    async with asyncio.timeout(30.0):
        responses = await reading
    assert [response.WhichOneof("response") for response in responses] == ["end"]
    assert responses[0].end.cursor == run.at(paused)
    assert responses[0].end.record.generation in (paused, paused + 1)


async def test_it_ends_where_a_watch_from_the_same_cursor_ends_that_shows_everything(plane: Plane) -> None:
    """C4: from every cursor, long after it happened."""
    run = await plane.create(working=True)
    await append(run, chunk(), chunk(append=True))
    await append(run, status(INPUT_REQUIRED, message("which?")))
    await plane.store().AddMessage(follow_up(run.id))
    for place in range(1, 7):
        states = [INPUT_REQUIRED] if place < 5 else [a2a.TASK_STATE_SUBMITTED]
        shown = await everything(plane.watch(run.id, run.at(place), stop_at=states))
        silent = await everything(plane.watch(run.id, run.at(place), stop_at=states, end_only=True))
        assert silent == [shown[-1]]
        assert silent[0].end.cursor == run.at(5 if place < 5 else 6)


async def test_a_place_moves_only_by_events_that_directly_follow_it(unpolled: Plane) -> None:
    """A watcher that waits for the end is not woken for other events. After a gap or the end it reads."""
    plane = unpolled
    run = await plane.create(working=True)
    watched = plane.service.watched
    with watched.starting() as start:
        silent, reader = watched.enter(run.uid, 2, 2, TERMINAL, start), watched.enter(run.uid, 2, 2, None, start)
    try:
        await append(run, chunk(), chunk(append=True))
        assert (silent.place, reader.place, silent.head) == (4, 2, 4)
        await append(run, chunk(append=True), told=False)
        await append(run, chunk(append=True))
        assert (silent.place, silent.head) == (4, 6)
        silent.place = 6
        await append(run, status(TERMINAL[0]))
        assert (silent.place, silent.head) == (6, 7)
    finally:
        silent.leave()
        reader.leave()


@pytest.mark.parametrize("heard", ["the task", "anything"])
async def test_a_change_of_another_process_at_the_beginning_of_a_watch_is_not_missed(
    unpolled: Plane, heard: str
) -> None:
    """C3: the notification arrives after the task was read, and before the watcher waits."""
    run = await unpolled.create(working=True)
    watched = unpolled.service.watched
    with watched.starting() as start:
        await append(run, chunk(), told=False)
        watched.notified(Notified(tasks={key_of(run.uid)}) if heard == "the task" else None)
        seat = watched.enter(run.uid, 2, 2, None, start)
    try:
        assert await seat.wait(30.0) and seat.head == 3
    finally:
        seat.leave()
