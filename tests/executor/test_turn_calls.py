"""The calls of a turn to the plane, wherever its agent runs: the tasks that a message refers to, and the session."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from tests.executor.isolated import Caller
from tests.executor.plane import ANN, BOB, SERVICE, Plane, Stores, open_plane, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AgentCard, ArtifactChunk, Change, Complete, Part, Policy, Turn
from taskplane.agents.asked_calls import AskedCalls
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.runs.turn_calls import Calls
from taskplane.runtime.errors import NotFound
from taskplane.runtime.principal import Principal

SESSION = "the-session"


@pytest.fixture(params=["none", "thread", "process"])
async def plane(stores: Stores, request: pytest.FixtureRequest) -> AsyncGenerator[Plane, None]:
    """An executor of an agent that makes calls: in the event loop, in a thread, or in a process."""
    if request.param == "process":
        async with open_plane(stores, loaded=["a=tests.executor.isolated:Caller@process"]) as plane:
            yield plane
    else:
        async with open_plane(stores, ("a", Caller(Policy(isolation=request.param)))) as plane:
            yield plane


async def view_of_turn(
    plane: Plane, *events: dict[str, Any], who: Principal = ANN, **of_message: Any
) -> tuple[a2a.Task, dict[str, Any]]:
    message: dict[str, Any] = {"context_id": SESSION, **of_message}
    sent = await plane.submit(json.dumps(events), who=who, **message)
    task = await plane.at_rest(sent, who)
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    known: dict[str, Any] = json.loads(text(task.status.message))
    return task, known


async def test_a_turn_reads_the_tasks_that_its_message_refers_to(plane: Plane) -> None:
    """I3, P5: with their artifacts, in the order of the message, so that "make it shorter" works; tasks of others and
    unknown tasks are left out."""
    one, _ = await view_of_turn(plane, context_id="one")
    two, _ = await view_of_turn(plane, context_id="two")
    foreign, _ = await view_of_turn(plane, context_id="three", who=BOB)
    names = [two.id, foreign.id, "nothing", one.id]
    _, known = await view_of_turn(plane, reference_task_ids=names)
    assert known["referenced"] == [[two.id, [f"by {two.id}"]], [one.id, [f"by {one.id}"]]]


async def test_a_turn_reads_whole_versions_of_artifacts(stores: Stores) -> None:
    """P5, I3: of any size and form, the newest or one with given metadata, and the caller's own only."""
    value, big = value_of({"a": [1, "ö"]}), "ö" * 400_000

    async def made(turn: Turn) -> AsyncIterator[Change]:
        for number, word in enumerate(("one", "two")):
            yield ArtifactChunk("a", text=f"{word} ", metadata={"number": number}, mergeable=False)
            yield ArtifactChunk("a", text=big, append=True, last=True)
        parts = [Part(data=value), Part(url="https://example.com/x"), Part(raw=b"\0\xff", media_type="image/png")]
        yield ArtifactChunk("b", parts=parts, last=True)

    async def read(turn: Turn) -> AsyncIterator[Change]:
        artifact = turn.session.artifact
        for having in (None, {"number": 0}, {"number": 1}, {"number": 2}):
            found.append(await artifact(turn.text, "a", having))
        found.extend([await artifact(turn.text, "b"), await artifact(turn.text, "c"), await artifact("none", "a")])
        yield Complete("well")

    found: list[a2a.Artifact | None] = []
    for isolation in ("none", "thread"):
        found.clear()
        agent = Scripted(read, policy=Policy(isolation=isolation))
        async with open_plane(stores, ("made", Scripted(made)), ("read", agent)) as plane:
            task = await plane.run("go", agent="made")
            await plane.run(task.id, agent="read")
            words = ["".join(part.text for part in each.parts) if each else "" for each in found[:4]]
            assert words == ["two " + big, "one " + big, "two " + big, ""]
            assert found[4] == task.artifacts[1] and found[5:] == [None, None]
            await plane.at_rest(await plane.submit(task.id, agent="read", who=BOB), BOB)
            assert found[7:] == [None] * 7


async def test_a_deleted_task_is_left_out_of_the_referenced_tasks(stores: Stores) -> None:
    """I3: here it existed when the message was sent."""
    deleted = asyncio.Event()
    found: list[a2a.Task] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.message.reference_task_ids:
            await deleted.wait()
            found.extend(await turn.referenced())
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        kept, gone = await plane.run("one"), await plane.run("two")
        waiting = await plane.submit("go", reference_task_ids=[gone.id, kept.id])
        await stores.tasks(SERVICE).DeleteTask(tasks.DeleteTaskRequest(task_id=gone.id))
        deleted.set()
        assert (await plane.at_rest(waiting)).status.state == a2a.TASK_STATE_COMPLETED
    assert [task.id for task in found] == [kept.id]


async def test_a_turn_stores_events_and_state_in_its_session(plane: Plane) -> None:
    """P2, S: an event gets an id if it has none; the state has the session's, the user's and the agent's keys, and
    `temp:` is not stored; another session of the user has only the wider scopes."""
    delta = {"a": 1, "user:b": [1.5], "app:c": None, "app:d": {"e": True}, "temp:f": 1}
    _, first = await view_of_turn(plane, {"id": "e1", "author": "ö"}, {"actions": {"state_delta": delta}})
    assert [event.get("author") for event in first["events"]] == ["ö", None]
    assert first["events"][0] == {"id": "e1", "author": "ö"} and first["events"][1]["id"]
    assert first["state"] == {"a": 1, "user:b": [1.5], "app:d": {"e": True}}
    _, second = await view_of_turn(plane, {"id": "e2"})
    assert [event["id"] for event in second["events"]] == ["e1", first["events"][1]["id"], "e2"]
    _, elsewhere = await view_of_turn(plane, context_id="another")
    assert elsewhere["events"] == [] and elsewhere["state"] == {"user:b": [1.5], "app:d": {"e": True}}
    _, foreign = await view_of_turn(plane, who=BOB)
    assert foreign["events"] == [] and foreign["state"] == {"app:d": {"e": True}}


async def test_an_event_that_cannot_be_stored_is_refused_at_its_append(plane: Plane) -> None:
    """P9: as a ValueError in the agent's own code. An equal event is stored once; another one under its id is
    refused."""
    task, known = await view_of_turn(plane, {"id": "e"}, {"id": "e"}, {"id": "e", "author": "x"}, {"id": 5})
    assert [text(message) for message in task.history[1:]] == [
        "refused: the session already has another entry with the id 'e'",
        "refused: the id of an event must be a str, not 5",
    ]
    assert known["events"] == [{"id": "e"}]


async def test_events_of_a_turn_are_not_messages_and_are_cut_with_the_turn(plane: Plane) -> None:
    """R2, S: the conversation has each message once, even if it is stored as an event, too; a rewind before the turn
    removes its events and their changes of state."""
    mark = {"id": "e1", "content": {"role": "model", "parts": [{"text": "said"}]}, "actions": {"state_delta": {"a": 1}}}
    first, _ = await view_of_turn(plane, {"id": "e0"})
    task, _ = await view_of_turn(plane, mark)
    assert len(await plane.conversation(SESSION)) == 4
    asked = sessions.GetSessionTaskRequest(context_id=SESSION)
    shown = (await plane.stores.sessions(ANN).GetSessionTask(asked)).task
    assert len(shown.history) == 4
    _, third = await view_of_turn(plane)
    assert len(third["history"]) == 4 and third["state"] == {"a": 1}
    (entry,) = [entry for entry in await plane.entries(SESSION) if entry.id == "e1"]
    assert entry.task_id == task.id and entry.actor.startswith("executor:")
    before = task.history[0].metadata.fields["kagent_invocation_id"].string_value
    assert entry.invocation_id == before == entry.task_invocation_id
    rewind = pb.RewindSessionRequest(context_id=SESSION, before_invocation_id=before)
    await plane.executor().RewindSession(rewind)
    _, last = await view_of_turn(plane)
    assert [event["id"] for event in last["events"]] == ["e0"] and last["state"] == {}
    assert len(last["history"]) == 2 and first.id


class Deciding:
    """Answers directly with its view of the session and of the tasks that its message names."""

    card = AgentCard(name="deciding", version="1")

    async def route(self, turn: Turn) -> str | None:
        if turn.text == "task":
            return None
        await turn.session.update_state(asked=len(await turn.session.events()))
        found = [task.id for task in await turn.referenced()]
        return json.dumps([found, await turn.session.state(), await turn.incoming()])

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete("made")


async def test_a_router_makes_the_same_calls(stores: Stores) -> None:
    """P2, I3: on behalf of the caller, before there is a task; a direct answer may stand on an earlier task."""
    async with open_plane(stores, ("a", Deciding())) as plane:
        task = await plane.run("task", context_id=SESSION)
        response = await plane.submit("ask", context_id=SESSION, reference_task_ids=[task.id])
        assert json.loads(text(response.message)) == [[task.id], {"asked": 0}, []]
        response = await plane.submit("ask", context_id=SESSION)
        assert json.loads(text(response.message)) == [[], {"asked": 1}, []]


async def test_a_turn_in_a_deleted_session_has_no_events_and_cannot_append(stores: Stores) -> None:
    """P9: the append raises NotFound, and the task is deleted with its session."""
    view_of_turn: list[object] = []

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await turn.session.append({"id": "e"})
        await stores.sessions().DeleteSession(sessions.DeleteSessionRequest(context_id=turn.context_id))
        view_of_turn.extend((await turn.session.events(), await turn.session.state()))
        try:
            await turn.session.append({"id": "f"})
        except NotFound as error:
            view_of_turn.append(error.code)
        yield Complete("well")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        with pytest.raises(NotFound):
            await plane.run("Hi", context_id=SESSION)
    assert view_of_turn == [[], {}, "NOT_FOUND"]


def test_every_call_of_the_port_exists_for_threads_and_processes() -> None:
    """P8: the names of both classes are equal."""
    names = {name for name in vars(Calls) if not name.startswith("_")} - set(Calls.__dataclass_fields__)
    assert names == {name for name in vars(AskedCalls) if not name.startswith("_")}
