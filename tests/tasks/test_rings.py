"""Two stores on one database: what happens at one is heard at the other. Neither polls unless a test says so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.databases import TASKS, copied
from tests.support.postgres import Cluster
from tests.tasks.plane import (
    ANN,
    CANCELED,
    COMPLETED,
    INPUT_REQUIRED,
    TERMINAL,
    WORKING,
    Plane,
    chunk,
    document,
    eventually,
    follow_up,
    message,
    opened,
    status,
    until,
)
from tests.tasks.test_queue import Executor, connected
from tests.tasks.test_watch_session import Watcher

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import NotFound
from taskplane.storage.bell import key_of
from taskplane.tasks import rings

BELLS = "FROM pg_stat_activity WHERE application_name = 'taskplane bell tasks' AND datname = "
NEVER: dict[str, Any] = {"lease_ttl": 120.0, "renew_every": 5.0, "poll_every": 60.0, "sweep_every": 60.0}


@pytest.fixture
async def url(cluster: Cluster) -> AsyncGenerator[str, None]:
    async with copied(cluster, TASKS) as url:
        yield url


@asynccontextmanager
async def stores(url: str, **settings: Any) -> AsyncGenerator[tuple[Plane, Plane], None]:
    """Two of them, which hear of one another already."""
    async with opened(url, **{**NEVER, **settings}) as here, opened(url, **{**NEVER, **settings}) as there:
        if settings.get("notifications", True):
            await told_of_one_another(here, there)
        yield here, there
        await until(lambda: not len(here.service.claims) + len(there.service.claims))


async def told_of_one_another(here: Plane, there: Plane) -> None:
    """Returns when a watcher at each store was told twice of what happened at the other one."""
    for one, other in ((here, there), (there, here)):
        run = await one.create(working=True)
        stream = other.watch(run.id, run.at(2))
        for _ in range(2):
            await run.append(chunk())
            await anext_within(stream)
        stream.cancel()
        await run.complete()


async def anext_within(stream: Any) -> Any:
    async with asyncio.timeout(30.0):
        while True:
            response = await anext(stream)
            if not response.HasField("bookmark"):
                return response


async def test_a_watcher_gets_events_of_another_store_at_once(url: str) -> None:
    """C3, W12, W15: each event, the end and a deletion."""
    async with stores(url) as (here, there):
        run, gone = await here.create(working=True), await here.create(working=True)
        stream, other = there.watch(run.id, run.at(2), stop_at=TERMINAL), there.watch(gone.id, gone.at(2))
        await until(lambda: len(there.service.watched) == 2)
        await run.chunks(3, each=1)
        seen: list[int] = []
        while len(seen) < 3:
            seen += [event.generation for event in (await anext_within(stream)).events.events]
        await run.complete()
        assert seen == [3, 4, 5] and (await anext_within(stream)).events.events[0].generation == 6
        assert (await anext_within(stream)).end.record.state == COMPLETED
        await here.store().DeleteTask(pb.DeleteTaskRequest(task_id=gone.id))
        with pytest.raises(NotFound):
            while True:
                await anext_within(other)


async def test_a_watcher_of_a_session_gets_changes_of_another_store_at_once(url: str) -> None:
    """M5, T9, C3: a new task, a changed task, and a task that a rewind hides."""
    async with stores(url) as (here, there):
        first = await here.create(working=True, invocation_id="i1")
        watcher = Watcher(there)
        assert (first.id, WORKING) in await watcher.snapshot()
        second = await here.create()
        assert await watcher.told() == ("received", second.id, a2a.TASK_STATE_SUBMITTED, False)
        await first.append(status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
        assert await watcher.told() == ("changed", first.id, INPUT_REQUIRED, False)
        await here.store().CancelTask(pb.CancelTaskRequest(task_id=second.id))
        assert await watcher.told() == ("changed", second.id, CANCELED, False)
        await here.store().DeleteTask(pb.DeleteTaskRequest(task_id=second.id))
        assert (await watcher.told())[:2] == ("removed", second.id)
        await here.store().PutTask(pb.PutTaskRequest(task=document("doc")))
        assert await watcher.told() == ("received", "doc", WORKING, False)
        await here.store().PutTask(pb.PutTaskRequest(task=document("doc", text="more")))
        assert await watcher.told() == ("changed", "doc", WORKING, False)
        moved = document("doc")
        moved.context_id = "elsewhere"
        await here.store().PutTask(pb.PutTaskRequest(task=moved))
        assert (await watcher.told())[:2] == ("removed", "doc")
        cut = pb.MarkSupersededRequest(context_id="context", steered_seq=1, cut_invocation_ids=["i1"])
        await here.store().MarkSuperseded(cut)
        assert await watcher.told() == ("changed", first.id, INPUT_REQUIRED, True)


@pytest.mark.parametrize("what", ["cancel", "message", "delete", "rewind"])
async def test_the_holder_of_a_lease_is_notified_of_changes_at_any_store(url: str, what: str) -> None:
    """C8, C11: by its stream at the other store. It is not notified of its own appends."""
    async with stores(url) as (here, there):
        executor = await connected(there)
        run = await here.create(working=True, invocation_id="i1")
        await run.append(chunk())
        store = here.store(ANN) if what in ("cancel", "message") else here.store()
        if what == "cancel":
            await store.CancelTask(pb.CancelTaskRequest(task_id=run.id))
        elif what == "message":
            await store.AddMessage(follow_up(run.id))
        elif what == "delete":
            await store.DeleteTask(pb.DeleteTaskRequest(task_id=run.id))
        else:
            cut = pb.MarkSupersededRequest(context_id="context", steered_seq=1, cut_invocation_ids=["i1"])
            await store.MarkSuperseded(cut)
        await executor.told_to_renew()
        (state,) = (await executor.renew(pb.Lease(task_uid=run.uid, fence=run.fence))).leases
        assert state.still_yours is (what == "message")
        executor.stream.cancel()


async def soon(executor: Executor) -> pb.Assignment:
    async with asyncio.timeout(30.0):
        return await executor.assigned()


async def test_a_task_queued_at_one_store_is_assigned_by_the_other(url: str) -> None:
    """C8: a new task, a slot freed by an end, and an answered pause."""
    async with stores(url) as (here, there):
        executor = await connected(there, capacity=2)
        first = await here.create()
        assert (await soon(executor)).record.uid == first.uid
        first.fence = 1
        second = await here.create()
        assert (await soon(executor)).record.uid == second.uid
        third = await here.create()
        waiting = asyncio.ensure_future(soon(executor))
        await first.append(status(WORKING), status(INPUT_REQUIRED, message("which?", a2a.ROLE_AGENT)))
        assert (await waiting).record.uid == third.uid
        waiting = asyncio.ensure_future(soon(executor))
        await here.store().AddMessage(follow_up(first.id))
        await here.store().CancelTask(pb.CancelTaskRequest(task_id=second.id))
        assert (await waiting).record.uid == first.uid
        executor.stream.cancel()


async def test_a_task_in_turn_is_assigned_when_the_one_before_it_rests_at_another_store(url: str) -> None:
    """QUEUE."""
    async with stores(url) as (here, there):
        executor = await connected(there)
        first = await here.create(working=True, strategy=pb.STRATEGY_QUEUE)
        second = await here.create(working=True, strategy=pb.STRATEGY_QUEUE)
        assert second.fence == 0
        waiting = asyncio.ensure_future(soon(executor))
        await first.complete()
        assert (await waiting).record.uid == second.uid
        executor.stream.cancel()


async def test_the_stores_work_while_a_listening_connection_is_lost_and_are_notified_again_later(
    url: str, cluster: Cluster
) -> None:
    """C15: changes of that time are found when the connection is back."""
    database = url.rpartition("/")[2]
    async with stores(url) as (here, there):
        run = await here.create(working=True)
        stream = there.watch(run.id, run.at(2), stop_at=TERMINAL)
        executor = await connected(there)
        for _ in range(3):
            assert cluster.sql(f"SELECT count(pg_terminate_backend(pid)) {BELLS}'{database}'") == "2"
            await run.chunks(1)
            assert (await anext_within(stream)).events.events
            queued = await here.create()
            assert (await soon(executor)).record.uid == queued.uid
            await eventually(lambda: asyncio.to_thread(cluster.sql, f"SELECT count(*) {BELLS}'{database}'"), "2".__eq__)
        executor.stream.cancel()


async def test_without_notifications_changes_are_found_by_polling(url: str, cluster: Cluster) -> None:
    """C3, C8, W12: no connection listens."""
    settings = {"notifications": False, "poll_every": 0.2, "renew_every": 0.3}
    async with stores(url, **settings) as (here, there):
        assert cluster.sql(f"SELECT count(*) {BELLS}'{url.rpartition('/')[2]}'") == "0"
        executor = await connected(there, capacity=1)
        run = await here.create()
        stream, watcher = there.watch(run.id, run.at(1), stop_at=TERMINAL), Watcher(there)
        await watcher.snapshot()
        assignment = await soon(executor)
        run.fence = assignment.fence
        await run.append(status(WORKING))
        assert (await anext_within(stream)).events.events
        assert await watcher.told() == ("changed", run.id, WORKING, False)
        await here.store().CancelTask(pb.CancelTaskRequest(task_id=run.id))
        assert await watcher.told() == ("changed", run.id, CANCELED, False)
        (state,) = (await executor.renew(pb.Lease(task_uid=run.uid, fence=run.fence))).leases
        assert state.still_yours is False
        executor.stream.cancel()


async def test_a_notification_with_too_many_keys_wakes_all_watchers(url: str) -> None:
    """C3, C8: watchers and holders of leases. The next notification has keys again."""
    async with stores(url) as (here, there):
        executor = await connected(there)
        cut = [f"i{number}" for number in range(500)]
        for at in range(0, len(cut), 50):
            await asyncio.gather(*(here.create(agent="none", invocation_id=turn) for turn in cut[at : at + 50]))
        run = await here.create(working=True)
        await executor_is_idle(executor)
        stream, watcher = there.watch(run.id, run.at(2)), Watcher(there)
        assert len(await watcher.snapshot()) > len(cut)
        change = pb.MarkSupersededRequest(context_id="context", steered_seq=1, cut_invocation_ids=cut)
        await here.store().MarkSuperseded(change)
        await executor.told_to_renew()
        assert (await watcher.told())[2:] == (CANCELED, True)
        await run.append(chunk())
        assert (await anext_within(stream)).events.events
        executor.stream.cancel()


async def executor_is_idle(executor: Executor) -> None:
    """Passes over what it was told, up to a message that only keeps its stream alive."""
    while (await asyncio.wait_for(anext(executor.stream), 30.0)).hint.now:
        pass


def test_a_key_that_is_not_understood_means_nothing() -> None:
    """Stores of two releases may ring for one another for a while."""
    rung = rings.read(["queued", "zfuture", "", f"t{key_of('u1')}", f"s{key_of('', 'ada', 'c')}{key_of('u2')}"])
    assert (rung.queued, rung.in_turn, rung.freed, rung.executors) == (True, False, False, set())
    assert rung.tasks == {key_of("u1"), key_of("u2")}
    assert rung.sessions == {key_of("", "ada", "c"): {key_of("u2")}}
