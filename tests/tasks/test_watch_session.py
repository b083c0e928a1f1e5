"""WatchSession: all that a session has, then each task that is new or has changed, once. M5, T9, C3."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest
from tests.tasks.plane import (
    ANN,
    BOB,
    CANCELED,
    COMPLETED,
    EXECUTOR,
    INPUT_REQUIRED,
    WORKING,
    Plane,
    document,
    message,
    opened,
    status,
    until,
)

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.principal import Principal
from taskplane.tasks import session_wire
from taskplane.tasks.domain.task import Scope
from taskplane.tasks.watch import SessionStreams

Told = tuple[str, str, int, bool]


@pytest.fixture
async def plane(url: str) -> AsyncGenerator[Plane, None]:
    """A store that hears of changes, and hardly ever looks for them."""
    async with opened(url, lease_ttl=60.0, poll_every=60.0) as plane:
        yield plane


class Watcher:
    """A watch as its client holds it."""

    def __init__(self, plane: Plane, who: Principal = ANN, kind: str = "inprocess") -> None:
        call = plane.store(who, kind).WatchSession(pb.WatchSessionRequest(context_id="context"))
        self._stream = cast("AsyncIterator[pb.WatchSessionResponse]", call)

    async def snapshot(self) -> list[tuple[str, int]]:
        response = await anext(self._stream)
        assert response.HasField("snapshot")
        return [(info.task_id, info.state) for info in response.snapshot.infos]

    async def told(self) -> Told:
        async with asyncio.timeout(10):
            response = await anext(self._stream)
        which = response.WhichOneof("response")
        if which == "removed":
            return which, response.removed, 0, False
        assert which in ("received", "changed"), response
        info = response.received if which == "received" else response.changed
        return which, info.task_id, info.state, info.superseded

    async def end(self) -> None:
        async with asyncio.timeout(10):
            async for response in self._stream:
                assert response.HasField("quiet")


@pytest.mark.parametrize("kind", ["inprocess", "socket"])
async def test_a_session_is_shown_and_then_each_task_that_is_new_or_changes(plane: Plane, kind: str) -> None:
    """M5: a second tab follows without polling."""
    first = await plane.create(working=True)
    watcher = Watcher(plane, kind=kind)
    assert await watcher.snapshot() == [(first.id, WORKING)]
    second = await plane.create()
    assert await watcher.told() == ("received", second.id, a2a.TASK_STATE_SUBMITTED, False)
    await first.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
    assert await watcher.told() == ("changed", first.id, INPUT_REQUIRED, False)
    await plane.store().CancelTask(pb.CancelTaskRequest(task_id=second.id))
    assert await watcher.told() == ("changed", second.id, CANCELED, False)
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc")))
    assert await watcher.told() == ("received", "doc", WORKING, False)
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc", text="more")))
    assert await watcher.told() == ("changed", "doc", WORKING, False)
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc", COMPLETED)))
    assert await watcher.told() == ("changed", "doc", COMPLETED, False)


async def test_tasks_that_leave_or_return_to_a_session_are_reported(plane: Plane) -> None:
    """M5, T4: a document that moves to another session, and any task that is deleted."""
    run = await plane.create(working=True)
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc")))
    watcher = Watcher(plane)
    assert len(await watcher.snapshot()) == 2
    moved = document("doc")
    moved.context_id = "elsewhere"
    for task, told in ((moved, "removed"), (document("doc"), "received")):
        await plane.store().PutTask(pb.PutTaskRequest(task=task))
        assert (await watcher.told())[:2] == (told, "doc")
    for task_id in ("doc", run.id):
        await plane.store().DeleteTask(pb.DeleteTaskRequest(task_id=task_id))
        assert (await watcher.told())[:2] == ("removed", task_id)
    # One that comes and goes before anybody looks is none.
    late = Watcher(plane)
    assert await late.snapshot() == []
    await plane.store().PutTask(pb.PutTaskRequest(task=document("other")))
    assert (await late.told())[:2] == (await watcher.told())[:2] == ("received", "other")


async def test_a_rewind_is_reported_and_an_undo_shows_an_unknown_task_as_new(plane: Plane) -> None:
    """R4, R8: a watcher that began after the rewind gets the restored task as a new one."""
    run = await plane.create(working=True, invocation_id="i1")
    before = Watcher(plane)
    await before.snapshot()
    cut = pb.MarkSupersededRequest(context_id="context", steered_seq=1, cut_invocation_ids=["i1"])
    await plane.store().MarkSuperseded(cut)
    assert await before.told() == ("changed", run.id, CANCELED, True)
    after = Watcher(plane)
    assert await after.snapshot() == []
    await plane.store().MarkSuperseded(pb.MarkSupersededRequest(context_id="context", steered_seq=2))
    assert await before.told() == ("changed", run.id, CANCELED, False)
    assert await after.told() == ("received", run.id, CANCELED, False)


async def test_streamed_events_wake_nobody_and_a_change_is_read_once_for_all(plane: Plane) -> None:
    """T9: watchers of a session cost nothing while a text is streamed, and one read when something happens."""
    run = await plane.create(working=True)
    watchers = [Watcher(plane) for _ in range(20)]
    for watcher in watchers:
        await watcher.snapshot()
    telling = [asyncio.ensure_future(watcher.told()) for watcher in watchers]
    plane.engine.reads.clear()
    await run.chunks(100)
    assert {"infos_of", "session_infos"}.isdisjoint(plane.engine.reads)
    await run.complete()
    assert await asyncio.gather(*telling) == [("changed", run.id, COMPLETED, False)] * 20
    assert plane.engine.reads.count("infos_of") == 1


async def test_no_change_is_missed_or_reported_twice_under_load(plane: Plane) -> None:
    """C3: a watcher that begins at any time ends with the present state of the session."""
    done: list[str] = []

    async def live() -> None:
        for _ in range(8):
            run = await plane.create(working=True)
            await run.complete()
            done.append(run.id)

    async def follow() -> dict[str, list[int]]:
        watcher = Watcher(plane)
        told = {task_id: [state] for task_id, state in await watcher.snapshot()}
        while sum(states[-1] == COMPLETED for states in told.values()) < 32:
            which, task_id, state, _ = await watcher.told()
            assert (which == "received") == (task_id not in told)
            told.setdefault(task_id, []).append(state)
        return told

    async with asyncio.TaskGroup() as group:
        followers = [group.create_task(follow()) for _ in range(5)]
        for _ in range(4):
            group.create_task(live())
    for told in [follower.result() for follower in followers]:
        assert set(told) == set(done)
        assert all(len(states) == len(set(states)) for states in told.values()), told


async def test_a_change_of_another_process_is_reported_after_at_most_one_poll(url: str, engine_name: str) -> None:
    """C3: there is no notification of it here."""
    if engine_name == "sqlite":
        pytest.skip("a SQLite file is served by one process")
    async with opened(url, lease_ttl=60.0) as plane, opened(url, lease_ttl=60.0) as other:
        here, there = Watcher(plane), Watcher(other)
        assert await here.snapshot() == await there.snapshot() == []
        run = await other.create(working=True, invocation_id="i1")
        assert await here.told() == await there.told() == ("received", run.id, WORKING, False)
        assert await Watcher(plane).snapshot() == [(run.id, WORKING)]
        cut = pb.MarkSupersededRequest(context_id="context", steered_seq=1, cut_invocation_ids=["i1"])
        await other.store().MarkSuperseded(cut)
        assert await here.told() == await there.told() == ("changed", run.id, CANCELED, True)


async def test_sessions_are_their_owners(plane: Plane) -> None:
    await plane.create()
    stranger = Watcher(plane, BOB)
    assert await stranger.snapshot() == []


async def test_a_task_with_the_id_of_a_deleted_one_is_a_new_one(plane: Plane) -> None:
    watcher = Watcher(plane)
    await watcher.snapshot()
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc")))
    assert (await watcher.told())[:2] == ("received", "doc")
    await plane.store().DeleteTask(pb.DeleteTaskRequest(task_id="doc"))
    await plane.store().PutTask(pb.PutTaskRequest(task=document("doc", COMPLETED)))
    assert (await watcher.told())[:2] == ("removed", "doc")
    assert await watcher.told() == ("received", "doc", COMPLETED, False)


async def test_watches_end_cleanly_when_the_store_drains_and_leave_nothing(plane: Plane) -> None:
    """C14."""
    watchers = [Watcher(plane), Watcher(plane, EXECUTOR, "socket")]
    for watcher in watchers:
        await watcher.snapshot()
    assert len(plane.service.watched.sessions) == 1
    await plane.service.drain()
    for watcher in watchers:
        await watcher.end()
    await until(lambda: not len(plane.service.watched.sessions))


async def test_a_watch_of_a_quiet_session_sends_quiet(plane: Plane) -> None:
    following = SessionStreams(plane.service.watched, session_wire.info, alone=True, quiet_after=0.02)
    stream = following.stream(Scope("tenant", "ann", ""), "context")
    responses = [await anext(stream) for _ in range(3)]
    await stream.aclose()
    assert [each.WhichOneof("response") for each in responses] == ["snapshot", "quiet", "quiet"]
    assert not len(plane.service.watched.sessions)
