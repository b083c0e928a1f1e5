"""The service over both channels: what a caller sees, whom it acts for, and how refusals arrive."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.timestamp_pb2 import Timestamp
from tests.conformance.session_log import HASH, copy, event, message, outcome, pushed, rewind, user
from tests.conftest import Migrated
from tests.support.additions import untimed

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.runtime.channel import InProcessChannel, client, connect
from taskplane.runtime.errors import (
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
    PermissionDenied,
    Refused,
    Unauthenticated,
)
from taskplane.runtime.principal import Principal, acting_as
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.sessions.composition import SessionsService, open_sessions
from taskplane.sessions.servicer import POLICY
from taskplane.sessions.settings import SessionsSettings

ANN = Principal("tenant", "ann", "user:ann")
BOB = Principal("tenant", "bob", "user:bob")
EXECUTOR = Principal("tenant", "ann", "executor", service=True)


@dataclass
class Plane:
    """The service, and stubs on one kind of channel."""

    service: SessionsService
    channel: grpc.aio.Channel

    def acting(self, identity: Principal) -> SessionHistoryStub:
        return SessionHistoryStub(client(self.channel, identity=identity))


@pytest.fixture(params=["inprocess", "socket"])
async def plane(request: pytest.FixtureRequest, migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """The session history, migrated and served."""
    async with AsyncExitStack() as stack:
        services = Services(policy=POLICY)
        service = await stack.enter_async_context(
            open_sessions(SessionsSettings(database_url=await migrated("taskplane.sessions")), services)
        )
        if request.param == "inprocess":
            channel: grpc.aio.Channel = await stack.enter_async_context(InProcessChannel(services))
        else:
            served = await stack.enter_async_context(serving(services, "127.0.0.1:0", ready=service.ready, grace=0.5))
            channel = await stack.enter_async_context(connect(served.address))
        yield Plane(service, channel)


@pytest.fixture
def ann(plane: Plane) -> SessionHistoryStub:
    return plane.acting(ANN)


def append(context_id: str, *entries: pb.Entry, expected_version: int = 0) -> pb.AppendEntriesRequest:
    return pb.AppendEntriesRequest(
        context_id=context_id,
        entries=entries,
        create=pb.NewSession(agent="demo", title="hello", source="test"),
        expected_version=expected_version,
    )


async def test_a_session_from_its_creation_to_its_end(ann: SessionHistoryStub, plane: Plane) -> None:
    """S4."""
    assert await plane.service.ready()
    created = await ann.CreateSession(pb.CreateSessionRequest(agent="demo", title="one"))
    context_id = created.session.context_id
    assert (created.created, len(context_id), created.session.owner) == (True, 32, "ann")
    assert created.session.created_at.seconds > 1_600_000_000
    updated = await ann.UpdateSession(pb.UpdateSessionRequest(context_id=context_id, title="two"))
    assert (updated.session.title, updated.session.agent, updated.session.version) == ("two", "demo", 2)
    got = await ann.GetSession(pb.GetSessionRequest(context_id=context_id))
    assert got.session == updated.session
    listed = await ann.ListSessions(pb.ListSessionsRequest())
    assert list(listed.sessions) == [got.session]
    await ann.DeleteSession(pb.DeleteSessionRequest(context_id=context_id))
    with pytest.raises(NotFound) as refused:
        await ann.GetSession(pb.GetSessionRequest(context_id=context_id))
    assert refused.value.reason == "SESSION_NOT_FOUND"


async def test_a_turn_is_appended_in_two_calls_and_reads_as_a_conversation(ann: SessionHistoryStub) -> None:
    """R5, T6."""
    first = await ann.AppendEntries(append("s", user("A", request_hash=HASH), outcome("A")))
    assert (first.appended, first.entry_count, first.version) == (2, 2, 3)
    assert list(first.known) == []
    again = await ann.AppendEntries(append("s", user("A", request_hash=HASH), outcome("A")))
    assert (again.appended, again.entry_count, again.version) == (0, 2, 3)
    assert [(entry.seq, entry.actor, entry.WhichOneof("payload")) for entry in again.known] == [
        (1, "user:ann", "message"),
        (2, "user:ann", None),
    ]
    await ann.AppendEntries(append("s", copy("A", 3, "working"), copy("A", 5, "done")))
    page = await ann.ListEntries(pb.ListEntriesRequest(context_id="s", effective=True))
    assert [entry.message.parts[0].text for entry in page.entries] == ["A?", "working", "done"]
    assert page.entries[0].request_hash == HASH
    assert page.session.version == 5
    whole = await ann.ListEntries(pb.ListEntriesRequest(context_id="s"))
    assert [entry.seq for entry in whole.entries] == [1, 2, 3, 4]


async def test_the_session_task_is_completed_and_has_the_effective_history(ann: SessionHistoryStub) -> None:
    """R5, R1: each message keeps its metadata."""
    await ann.AppendEntries(append("s", user("A"), outcome("A", "hi"), user("B"), rewind("B", "r")))
    answer = await ann.GetSessionTask(pb.GetSessionTaskRequest(context_id="s"))
    task = answer.task
    assert (task.id, task.context_id, task.status.state) == ("s", "s", a2a.TASK_STATE_COMPLETED)
    assert task.status.timestamp == answer.session.updated_at
    assert list(map(untimed, task.history)) == [user("A").message, outcome("A", "hi").message]
    assert task.history[0].metadata.fields["kagent_invocation_id"].string_value == "A"
    assert answer.session.has_session_task


async def test_events_and_pushed_histories_of_a_runtime_are_served(ann: SessionHistoryStub) -> None:
    """R7, R10: by the same reads as other entries."""
    await ann.AppendEntries(append("s", event("e1", '{"invocation_id": "A"}'), event("e2", '{"invocationId": "B"}')))
    await ann.AppendEntries(append("s", event("e3", '{"actions": {"rewindBeforeInvocationId": "B"}}')))
    page = await ann.ListEntries(pb.ListEntriesRequest(context_id="s", effective=True, kinds=[pb.ENTRY_KIND_EVENT]))
    assert [entry.data for entry in page.entries] == ['{"invocation_id": "A"}']
    await ann.AppendEntries(append("s", pushed("p", message("pushed"))))
    task = (await ann.GetSessionTask(pb.GetSessionTaskRequest(context_id="s"))).task
    assert [each.parts[0].text for each in task.history] == ["pushed"]


async def test_refusals_arrive_with_reason_and_metadata(ann: SessionHistoryStub) -> None:
    """R9, C10."""
    await ann.AppendEntries(append("s", user("A", request_hash=HASH)))
    with pytest.raises(Conflict) as conflict:
        await ann.AppendEntries(append("s", user("B"), expected_version=7))
    assert (conflict.value.reason, conflict.value.metadata["version"]) == ("VERSION_MISMATCH", "2")
    with pytest.raises(Refused) as refused:
        await ann.AppendEntries(append("t", user("A", request_hash=HASH)))
    assert refused.value.reason == "KEY_REUSED"
    with pytest.raises(Invalid) as invalid:
        await ann.AppendEntries(append("s", pb.Entry(id="x", kind=pb.ENTRY_KIND_MESSAGE)))
    assert list(invalid.value.fields) == ["entries[0].message"]
    with pytest.raises(Invalid) as invalid:
        await ann.ListSessions(pb.ListSessionsRequest(page_size=-1))
    assert (invalid.value.reason, list(invalid.value.fields)) == ("INVALID_ARGUMENT", ["page_size"])
    with pytest.raises(Invalid) as invalid:
        await ann.ListEntries(pb.ListEntriesRequest(context_id="s", page_token="x"))
    assert invalid.value.reason == "BAD_PAGE_TOKEN"
    with pytest.raises(Invalid) as invalid:
        await ann.UpdateSession(pb.UpdateSessionRequest(context_id="s"))
    assert invalid.value.message == "title or agent is required"


async def test_a_service_acts_for_the_owner_its_principal_names_and_is_named_as_actor(plane: Plane) -> None:
    ann, bob, executor = plane.acting(ANN), plane.acting(BOB), plane.acting(EXECUTOR)
    await executor.AppendEntries(append("s", user("A", actor="user:ann"), outcome("A")))
    page = await ann.ListEntries(pb.ListEntriesRequest(context_id="s"))
    assert [entry.actor for entry in page.entries] == ["user:ann", "executor"]
    with pytest.raises(NotFound):
        await bob.ListEntries(pb.ListEntriesRequest(context_id="s"))
    with acting_as(BOB):
        await executor.AppendEntries(append("s", user("A")))
    assert (await bob.GetSession(pb.GetSessionRequest(context_id="s"))).session.owner == "bob"


async def test_only_executors_can_list_unsettled_turns_of_all_sessions(plane: Plane) -> None:
    mine = [user("A", request_hash=HASH, task_id="t", generation=1), outcome("A", task_id="t")]
    ann, executor = plane.acting(ANN), plane.acting(EXECUTOR)
    await ann.AppendEntries(append("s", *mine))
    with acting_as(Principal("", "", "executor", service=True)):
        found = await executor.ListUnsettled(pb.ListUnsettledRequest())
        turn = pb.UnsettledTurn(tenant="tenant", owner="ann", context_id="s", invocation_id="A", task_id="t")
        assert (list(found.turns), found.more) == ([turn], False)
        await executor.MarkSettled(pb.MarkSettledRequest(until=found.until))
        assert await executor.ListUnsettled(pb.ListUnsettledRequest()) == pb.ListUnsettledResponse()
        with pytest.raises(Invalid) as refused:
            await executor.MarkSettled(pb.MarkSettledRequest())
        assert list(refused.value.fields) == ["until"]
    with pytest.raises(PermissionDenied):
        await ann.ListUnsettled(pb.ListUnsettledRequest())
    with pytest.raises(PermissionDenied):
        await ann.MarkSettled(pb.MarkSettledRequest(until=found.until))


async def test_a_rewind_and_its_undo_over_the_wire(plane: Plane) -> None:
    """R3, R4, R8, R9."""
    ann, executor = plane.acting(ANN), plane.acting(EXECUTOR)
    await ann.AppendEntries(append("s", user("A"), user("B")))
    request = pb.RewindRequest(context_id="s", before_invocation_id="B", id="r", message=message("back"))
    done = await ann.Rewind(request)
    assert (done.seq, done.rewound, done.session.steered_seq, done.session.applied_seq) == (3, True, 3, 0)
    assert not (await ann.Rewind(request)).rewound
    cut = await ann.ListCut(pb.ListCutRequest(context_id="s"))
    assert (list(cut.invocation_ids), cut.session) == (["B"], done.session)
    assert list(cut.voided_invocation_ids) == []
    with pytest.raises(NotFound) as refused:
        await ann.Rewind(pb.RewindRequest(context_id="s", before_invocation_id="B", id="r2"))
    assert (refused.value.reason, refused.value.metadata["invocation_id"]) == ("INVOCATION_NOT_FOUND", "B")
    with acting_as(Principal("", "", "executor", service=True)):
        found = await executor.ListUnapplied(pb.ListUnappliedRequest())
        after = await executor.ListUnapplied(pb.ListUnappliedRequest(after=found.sessions[0]))
    (behind,) = found.sessions
    assert (behind.tenant, behind.owner, behind.context_id) == ("tenant", "ann", "s")
    assert behind.HasField("updated_at") and not after.sessions
    await executor.MarkApplied(pb.MarkAppliedRequest(context_id="s", seq=3))
    assert (await ann.GetSession(pb.GetSessionRequest(context_id="s"))).session.applied_seq == 3
    undone = await ann.Undo(pb.UndoRequest(context_id="s"))
    assert (undone.seq, undone.session.steered_seq, undone.session.applied_seq) == (5, 5, 3)
    assert list((await ann.ListCut(pb.ListCutRequest(context_id="s"))).invocation_ids) == []
    with pytest.raises(Refused) as too_late:
        await ann.Undo(pb.UndoRequest(context_id="s"))
    assert too_late.value.reason == "NOTHING_TO_UNDO"
    with pytest.raises(PermissionDenied):
        await ann.ListUnapplied(pb.ListUnappliedRequest())
    with pytest.raises(PermissionDenied):
        await ann.MarkApplied(pb.MarkAppliedRequest(context_id="s", seq=5))


async def test_only_executors_see_the_remains_of_a_deleted_session(plane: Plane) -> None:
    """C16, S1: a user cannot have tasks deleted later, nor list the tasks to delete."""
    ann, executor = plane.acting(ANN), plane.acting(EXECUTOR)
    await ann.AppendEntries(append("s", user("A")))
    until = Timestamp(seconds=5, nanos=7_000)
    for refused in (
        ann.DeleteSession(pb.DeleteSessionRequest(context_id="s", tasks_until=until)),
        ann.ListRemains(pb.ListRemainsRequest()),
        ann.DropRemains(pb.DropRemainsRequest(context_id="s", tasks_until=until)),
    ):
        with pytest.raises(PermissionDenied):
            await refused
    await executor.DeleteSession(pb.DeleteSessionRequest(context_id="s", tasks_until=until))
    with acting_as(Principal("", "", "executor", service=True)):
        found = await executor.ListRemains(pb.ListRemainsRequest())
    assert list(found.remains) == [pb.Remains(tenant="tenant", owner="ann", context_id="s", tasks_until=until)]
    await executor.DropRemains(pb.DropRemainsRequest(context_id="s", tasks_until=until))
    assert not (await executor.ListRemains(pb.ListRemainsRequest())).remains


async def test_the_state_of_a_session_over_the_wire(ann: SessionHistoryStub) -> None:
    """R12."""
    delta = '{"invocation_id": "A", "actions": {"state_delta": {"x": {"y": [1, null]}, "user:u": true, "app:a": "b"}}}'
    answer = await ann.AppendEntries(append("s", event("e1", delta)))
    got = await ann.GetState(pb.GetStateRequest(context_id="s"))
    assert MessageToDict(got.state) == {"x": {"y": [1, None]}, "user:u": True, "app:a": "b"}
    assert got.session.version == answer.version
    with pytest.raises(Invalid) as refused:
        await ann.AppendEntries(append("s", event("e2", '{"actions": {"state_delta": []}}')))
    assert refused.value.reason == "BAD_STATE"
    await ann.Rewind(pb.RewindRequest(context_id="s", before_invocation_id="A", id="r"))
    (stored,) = (await ann.ListEntries(pb.ListEntriesRequest(context_id="s", kinds=[pb.ENTRY_KIND_REWIND]))).entries
    assert MessageToDict(stored.state_delta) == {"x": None}
    with pytest.raises(NotFound):
        await ann.GetState(pb.GetStateRequest(context_id="none"))


async def test_a_session_is_watched_until_it_is_deleted(plane: Plane) -> None:
    """M5."""
    ann = plane.acting(ANN)
    await ann.AppendEntries(append("s", user("A"), user("B")))
    stream = ann.WatchEntries(pb.WatchEntriesRequest(context_id="s", after_seq=1))
    seen = aiter(stream)
    assert (await anext(seen)).session == (await ann.GetSession(pb.GetSessionRequest(context_id="s"))).session
    first = (await anext(seen)).entries
    assert ([entry.id for entry in first.entries], first.version) == (["B"], 3)
    done = await ann.Rewind(pb.RewindRequest(context_id="s", before_invocation_id="B", id="r"))
    second = (await anext(seen)).entries
    assert ([entry.kind for entry in second.entries], second.version) == ([pb.ENTRY_KIND_REWIND], done.session.version)
    await ann.DeleteSession(pb.DeleteSessionRequest(context_id="s"))
    assert [one.WhichOneof("response") async for one in seen] == ["deleted"]
    with pytest.raises(NotFound):
        await anext(aiter(ann.WatchEntries(pb.WatchEntriesRequest(context_id="s"))))
    with pytest.raises(Invalid):
        await anext(aiter(ann.WatchEntries(pb.WatchEntriesRequest(context_id="s", after_seq=-1))))


async def test_a_fork_over_the_wire(plane: Plane) -> None:
    ann = plane.acting(ANN)
    await ann.AppendEntries(append("s", user("A"), copy("A", 2), user("B")))
    request = pb.ForkRequest(context_id="s", before_invocation_id="B", new_context_id="f", title="again")
    made = await ann.Fork(request)
    assert (made.created, made.session.context_id, made.session.title, made.session.agent) == (
        True,
        "f",
        "again",
        "demo",
    )
    assert (made.session.entry_count, made.session.has_session_task, made.session.source) == (2, True, "test")
    again = await ann.Fork(request)
    assert (again.created, again.session) == (False, made.session)
    task = (await ann.GetSessionTask(pb.GetSessionTaskRequest(context_id="f"))).task
    assert [each.parts[0].text for each in task.history] == ["A?", "A.2"]
    other = await ann.Fork(pb.ForkRequest(context_id="s"))
    assert (other.created, len(other.session.context_id), other.session.title) == (True, 32, "hello")
    with pytest.raises(AlreadyExists):
        await ann.Fork(pb.ForkRequest(context_id="s", new_context_id="f"))
    with pytest.raises(NotFound) as refused:
        await ann.Fork(pb.ForkRequest(context_id="s", before_invocation_id="C", new_context_id="g"))
    assert refused.value.reason == "INVOCATION_NOT_FOUND"
    with pytest.raises(NotFound):
        await plane.acting(BOB).Fork(pb.ForkRequest(context_id="s"))


async def test_a_drain_ends_watches_cleanly(plane: Plane) -> None:
    """C14."""
    ann = plane.acting(ANN)
    await ann.AppendEntries(append("s", user("A")))
    seen = aiter(ann.WatchEntries(pb.WatchEntriesRequest(context_id="s")))
    assert (await anext(seen)).HasField("session")
    await plane.service.drain()
    assert [one async for one in seen] == []


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        (pb.Entry(kind=pb.ENTRY_KIND_MESSAGE), {"message": "is required in an entry of kind MESSAGE"}),
        (
            pb.Entry(kind=pb.ENTRY_KIND_PUSHED, data="{}"),
            {"data": "must not be set in an entry of kind PUSHED, whose payload is pushed"},
        ),
        (
            pb.Entry(kind=pb.ENTRY_KIND_OUTCOME, data="{}"),
            {"data": "must not be set in an entry of kind OUTCOME, whose payload is message"},
        ),
    ],
    ids=["missing", "other", "other than an optional one"],
)
async def test_an_entry_with_the_payload_of_another_kind_is_refused(
    ann: SessionHistoryStub, entry: pb.Entry, fields: dict[str, str]
) -> None:
    entry.id = "e"
    with pytest.raises(Invalid) as refused:
        await ann.AppendEntries(pb.AppendEntriesRequest(context_id="c", entries=[entry]))
    assert refused.value.fields == {f"entries[0].{name}": rule for name, rule in fields.items()}


async def test_nobody_in_particular_is_refused(plane: Plane) -> None:
    stub = SessionHistoryStub(plane.channel)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.ListSessions(pb.ListSessionsRequest())
    assert refused.value.code().name == Unauthenticated.code


async def test_sixteen_concurrent_callers_each_get_their_own_session(plane: Plane) -> None:
    stub = plane.acting(EXECUTOR)
    answers = await asyncio.gather(
        *(stub.AppendEntries(append(f"s{n}", user(f"A{n}"), outcome(f"A{n}"))) for n in range(16))
    )
    assert {(answer.appended, answer.entry_count) for answer in answers} == {(2, 2)}
    found: list[str] = []
    request = pb.ListSessionsRequest(page_size=5)
    while True:
        page = await stub.ListSessions(request)
        found.extend(session.context_id for session in page.sessions)
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert sorted(found) == sorted(f"s{n}" for n in range(16))
