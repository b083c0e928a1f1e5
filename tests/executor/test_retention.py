"""Old sessions and erased owners: deleted and kept data in both stores. C16."""

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.executor.plane import ANN, Plane, Stores, eventually, open_plane
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AskInput, Change, Complete, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_log import SessionLog
from taskplane.executor.sweeps.expiry import Expiry
from taskplane.runtime.channel import client
from taskplane.runtime.errors import PermissionDenied, PlaneError, Unavailable
from taskplane.runtime.principal import Principal

OPERATOR = ANN._replace(actor="operator", service=True)
BOB = Principal(ANN.tenant, "bob", "user:bob")
NOBODY = Principal("", "", "executor", service=True)


class Talking:
    """Answers, asks, or runs for ever, by the message."""

    def __init__(self) -> None:
        self.agent = Scripted(self._run)

    async def _run(self, turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "ask":
            yield AskInput("which?")
        elif turn.text == "stay":
            yield Text("so far")
            await asyncio.Event().wait()
        else:
            yield Complete("answer")


async def of(plane: Plane, who: Principal = ANN) -> tuple[set[str], set[str]]:
    """The sessions that there are, and the sessions that have tasks."""
    listed = await plane.stores.sessions(who).ListSessions(sessions.ListSessionsRequest())
    found = await plane.stores.tasks(who).ListTasks(tasks.ListTasksRequest(page_size=100, include_superseded=True))
    return {each.context_id for each in listed.sessions}, {each.context_id for each in found.records}


async def listed(plane: Plane) -> set[str]:
    found = await plane.stores.tasks().ListTasks(tasks.ListTasksRequest(context_id="c"))
    return {each.id for each in found.records}


async def version(plane: Plane) -> int:
    found = await plane.stores.sessions().GetSession(sessions.GetSessionRequest(context_id="c"))
    return found.session.version


def expiry(plane: Plane, ttl: float) -> Expiry:
    channel = client(plane.stores.channel, identity=NOBODY)
    history = SessionLog(SessionHistoryStub(channel))
    return Expiry(TaskStoreStub(channel), history, actor="executor", ttl=ttl)


async def run(plane: Plane, who: Principal, text: str, context_id: str) -> None:
    await plane.at_rest(await plane.submit(text, context_id=context_id, who=who), who)


async def age(monkeypatch: pytest.MonkeyPatch) -> float:
    """Returns a time to live between the data written until now and later data. It stays valid for a test of any
    length: the clock of the sweep is set to a moment after now."""
    await asyncio.sleep(0.01)
    ttl, seen = 1.0, time.time()
    await asyncio.sleep(0.01)
    monkeypatch.setattr("taskplane.executor.sweeps.expiry.time", SimpleNamespace(time=lambda: seen + ttl))
    clock = SimpleNamespace(time_ns=lambda: int((seen + ttl) * 1_000_000_000))
    monkeypatch.setattr("taskplane.sessions.sql.log.time", clock)
    return ttl


async def test_an_unchanged_session_is_deleted_with_its_tasks_after_its_time_to_live(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: sessions of every owner; a younger one stays."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await plane.run("one", context_id="old")
        await plane.run("two", context_id="old")
        await run(plane, BOB, "one", "bobs")
        ttl = await age(monkeypatch)
        await plane.run("one", context_id="young")
        assert await expiry(plane, ttl=0.0).sweep() == 0
        assert await expiry(plane, ttl=3600.0).sweep() == 0
        assert await expiry(plane, ttl).sweep() == 2
        assert await of(plane) == ({"young"}, {"young"})
        assert await of(plane, BOB) == (set(), set())


async def test_a_session_with_a_live_an_asking_or_an_uncopied_task_stays(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: at any age."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await plane.submit("stay", context_id="live")
        await plane.run("ask", context_id="asking")
        await plane.run("one", context_id="old")
        document = a2a.Task(id="d", context_id="document", status=a2a.TaskStatus(state=a2a.TASK_STATE_COMPLETED))
        await stores.sessions().CreateSession(sessions.CreateSessionRequest(context_id="document"))
        await plane.run("one", context_id="uncopied")
        create = tasks.CreateTaskRequest(
            invocation_id="i", request_hash=b"h" * 32, context_id="uncopied", agent="nobody", task_id="t"
        )
        create.message.CopyFrom(a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text="x")]))
        await stores.tasks().CreateTask(create)
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id="t"))
        ttl = await age(monkeypatch)
        await stores.tasks().PutTask(tasks.PutTaskRequest(task=document))
        left = {"live", "asking", "uncopied", "document"}
        assert await expiry(plane, ttl).sweep() == 1
        assert (await of(plane))[0] == left


async def test_a_session_is_kept_for_its_whole_time_to_live_after_a_document(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: the time of the document counts to the millisecond."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await stores.sessions().CreateSession(sessions.CreateSessionRequest(context_id="c"))
        ttl = await age(monkeypatch)
        document = a2a.Task(id="d", context_id="c", status=a2a.TaskStatus(state=a2a.TASK_STATE_COMPLETED))
        put = await stores.tasks().PutTask(tasks.PutTaskRequest(task=document))
        saved = put.record.updated_at.ToMicroseconds() / 1_000_000
        for later, deleted in ((-0.001, 0), (0.001, 1)):
            clock = SimpleNamespace(time=lambda later=later: saved + ttl + later)
            monkeypatch.setattr("taskplane.executor.sweeps.expiry.time", clock)
            assert await expiry(plane, ttl).sweep() == deleted


async def test_a_session_that_changes_during_the_sweep_stays(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """C16: its version is checked again after its tasks were listed."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await plane.run("one", context_id="c")
        ttl = await age(monkeypatch)

        async def go_on(request: Any) -> None:
            del stores.channel.before["ListTaskInfos"]
            await stores.sessions().UpdateSession(sessions.UpdateSessionRequest(context_id="c", title="mine"))

        stores.channel.before["ListTaskInfos"] = go_on
        assert await expiry(plane, ttl).sweep() == 0
        assert await of(plane) == ({"c"}, {"c"})


@pytest.mark.parametrize("deleted", [False, True], ids=["said before the deletion", "said after it"])
async def test_a_turn_that_begins_while_its_session_is_deleted_keeps_its_task(
    stores: Stores, deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: the session is deleted unchanged or not at all, and then only the tasks that were listed with it."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        old = await plane.run("one", context_id="c")
        ttl = await age(monkeypatch)
        let_go, sent = asyncio.Event(), list[asyncio.Task[pb.SubmitResponse]]()

        async def hold(request: Any) -> None:
            await let_go.wait()

        async def begin(request: Any) -> None:
            # Its task exists, and its messages reach the session now or after the deletion.
            del stores.channel.before["DeleteSession"]
            if deleted:
                stores.channel.before["AppendEntries"] = hold
            created = stores.calls["CreateTask"]
            sent.append(asyncio.create_task(plane.submit("stay", context_id="c", message_id="")))
            await eventually(lambda: listed(plane), lambda found: len(found) == 2)
            assert stores.calls["CreateTask"] == created + 1
            if not deleted:
                await eventually(lambda: version(plane), lambda now: now > before)

        before = await version(plane)
        stores.channel.before["DeleteSession"] = begin
        assert await expiry(plane, ttl).sweep() == int(deleted)
        let_go.set()
        new = (await sent[0]).task.task_id
        await eventually(lambda: of(plane), lambda found: found == ({"c"}, {"c"}))
        assert await listed(plane) == ({new} if deleted else {old.id, new})
        assert (await plane.task(new)).status.state == a2a.TASK_STATE_WORKING


@pytest.mark.parametrize("again", [False, True], ids=["gone for good", "begun anew"])
async def test_an_interrupted_deletion_is_finished_or_undone_by_any_executor(
    stores: Stores, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C16: tasks of a deleted session are deleted; tasks of an existing session belong to it again."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await plane.run("one", context_id="c")
        await plane.run("two", context_id="c")
        ttl = await age(monkeypatch)

        async def fail(request: Any) -> None:
            del stores.channel.before["DeleteTask"]
            raise Unavailable("the store is away")

        stores.channel.before["DeleteTask"] = fail
        with pytest.raises(Unavailable):
            await expiry(plane, ttl).sweep()
        assert await of(plane) == (set(), {"c"})
        if again:
            await plane.run("three", context_id="c")
        for _ in range(2):
            assert await expiry(plane, ttl=0.0).sweep() == 0
            assert await of(plane) == (({"c"}, {"c"}) if again else (set(), set()))
        assert len(await listed(plane)) == (3 if again else 0)
        left = await plane.stores.sessions(NOBODY).ListRemains(sessions.ListRemainsRequest())
        assert not left.remains


async def test_an_executor_deletes_old_sessions_by_itself(stores: Stores) -> None:
    """C16: by its settings."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        await plane.run("one", context_id="c")
    async with open_plane(stores, ("a", Talking().agent), session_ttl=0.1, expire_every=0.1) as plane:
        await eventually(lambda: of(plane), lambda found: found == (set(), set()))


async def test_erasing_an_owner_deletes_all_data_of_this_owner_only(stores: Stores) -> None:
    """C16: sessions, entries, tasks, runs, imports and state; a repeat finds nothing."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        for who in (ANN, BOB):
            await run(plane, who, "one", "c1")
            await run(plane, who, "ask", "c2")
            await plane.submit("stay", context_id="c3", who=who)
            document = a2a.Task(id=f"d-{who.owner}", context_id="alone")
            document.status.state = a2a.TASK_STATE_WORKING
            await stores.tasks(who).PutTask(tasks.PutTaskRequest(task=document))
            entry = sessions.Entry(id=f"e-{who.owner}", kind=sessions.ENTRY_KIND_EVENT, invocation_id="x")
            entry.data = '{"invocation_id": "x", "actions": {"state_delta": {"user:name": "n", "user:b": 1, "own": 2}}}'
            await stores.sessions(who).AppendEntries(sessions.AppendEntriesRequest(context_id="c1", entries=[entry]))
            await half_import(plane, who)
        theirs = await of(plane, BOB)
        gone = await plane.executor(OPERATOR).EraseOwner(pb.EraseOwnerRequest())
        assert (gone.sessions, gone.tasks, gone.canceled, gone.state_keys, gone.more) == (3, 4, 2, 2, False)
        assert gone.entries >= 6 and gone.events >= 8
        assert await of(plane) == (set(), set())
        assert await of(plane, BOB) == theirs == ({"c1", "c2", "c3"}, {"c1", "c2", "c3", "alone"})
        state = await stores.sessions(BOB).GetState(sessions.GetStateRequest(context_id="c1"))
        assert state.state.fields["user:name"].string_value == "n"
        await eventually(lambda: running(plane), lambda count: count == 1)
        again = await plane.executor(OPERATOR).EraseOwner(pb.EraseOwnerRequest())
        assert again == pb.EraseOwnerResponse()
        assert await left_of_import(plane, ANN) == {"IMPORT_REPLACED"}
        assert await left_of_import(plane, BOB) == {"IMPORT_CUT"}


async def half_import(plane: Plane, who: Principal) -> None:
    page: dict[str, Any] = {"context_id": "half", "import_id": "i", "number": 1, "data": b"x"}
    await plane.stores.sessions(who).StageImport(sessions.StageImportRequest(**page))
    await plane.stores.tasks(who).StageImport(tasks.StageImportRequest(**page))


async def left_of_import(plane: Plane, who: Principal) -> set[str]:
    """Returns the reasons for which both stores refuse to finish the import."""
    names: dict[str, Any] = {"context_id": "half", "import_id": "i", "pages": 1}
    with pytest.raises(PlaneError) as of_session:
        await plane.stores.sessions(who).CommitImport(sessions.CommitImportRequest(**names))
    with pytest.raises(PlaneError) as of_tasks:
        await plane.stores.tasks(who).CommitImport(tasks.CommitImportRequest(**names))
    return {of_session.value.reason, of_tasks.value.reason}


async def running(plane: Plane) -> int:
    return len(plane.service.runs.active)


async def test_a_user_cannot_erase_an_owner(stores: Stores) -> None:
    """S1: not even themselves; that is for the operator."""
    async with open_plane(stores, ("a", Talking().agent)) as plane:
        with pytest.raises(PermissionDenied):
            await plane.executor(ANN).EraseOwner(pb.EraseOwnerRequest())
