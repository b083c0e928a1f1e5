"""Data that an executor stores with a turn, as each kind of client sees it: status texts, checkpoints, usage
figures."""

import secrets
from typing import Any

import pytest
from tests.gateway.plane import Json, Plane, events, fresh, said

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKER = Principal("default", "local", "worker", service=True)
WORKING, COMPLETED = a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED
CURSOR = "taskplane.dev/cursor"
USAGE = "taskplane.dev/usage"


class Turn:
    """A task in a session of its own, which the test drives."""

    def __init__(self, store: TaskStoreStub, created: pb.CreateTaskResponse, context: str) -> None:
        self._store = store
        self._created = created
        self._number = 0
        self.context = context
        self.id = created.record.id

    @classmethod
    async def begun(cls, plane: Plane, *changes: pb.Change, **fields: Any) -> "Turn":
        context = fresh()
        made = await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
        assert made.status_code == 201, made.text
        store = plane.behind.stores.tasks(WORKER)
        message = a2a.Message(message_id=fresh(), role=a2a.ROLE_USER, parts=[a2a.Part(text="hello")])
        request = pb.CreateTaskRequest(
            invocation_id=fresh(),
            request_hash=secrets.token_bytes(32),
            context_id=context,
            agent="demo",
            message=message,
            claim_for="by-hand",
            first_changes=[status(WORKING), *changes],
            **fields,
        )
        return cls(store, await store.CreateTask(request), context)

    async def append(self, *changes: pb.Change) -> None:
        self._number += 1
        item = pb.AppendItem(
            task_uid=self._created.record.uid,
            fence=self._created.fence,
            number=self._number,
            changes=changes,
            consumed_generation=1,
        )
        response = await self._store.AppendEvents(pb.AppendEventsRequest(items=[item]))
        assert not response.results[0].HasField("refusal"), response.results[0].refusal


def update(state: "a2a.TaskState.ValueType", text: str = "") -> a2a.TaskStatusUpdateEvent:
    found = a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=state))
    if text:
        found.status.message.CopyFrom(a2a.Message(message_id=fresh(), role=a2a.ROLE_AGENT, parts=[a2a.Part(text=text)]))
    return found


def status(state: "a2a.TaskState.ValueType", text: str = "", **usage: float) -> pb.Change:
    change = pb.Change(status=update(state, text))
    if usage:
        change.status.metadata.update({USAGE: usage})
    return change


def status_text(text: str) -> pb.Change:
    return pb.Change(status_text=update(WORKING, text))


def chunk(text: str, *, append: bool = False, extensions: list[str] | None = None, **metadata: Any) -> pb.Change:
    artifact = a2a.Artifact(artifact_id="a", parts=[a2a.Part(text=text)], extensions=extensions or [])
    if metadata:
        artifact.metadata.update(metadata)
    return pb.Change(artifact=a2a.TaskArtifactUpdateEvent(artifact=artifact, append=append))


async def data(plane: Plane, path: str) -> Any:
    reply = await plane.http.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()["data"]


async def a_turn(plane: Plane) -> Turn:
    """Begin a turn with a status text and a checkpoint before and after an artifact."""
    turn = await Turn.begun(plane, status_text("Reading"), pb.Change(checkpoint=b"secret"))
    await turn.append(chunk("x"), status_text("Writing"), pb.Change(checkpoint=b"secret"))
    return turn


async def test_streams_of_both_versions_show_status_texts_and_omit_checkpoints(plane: Plane) -> None:
    """P4, P12, C3: as status updates, in order. The stream continues after each cursor, also after that of a
    checkpoint."""
    turn = await a_turn(plane)
    await turn.append(status(COMPLETED, "done"))
    for method in ("SubscribeToTask", "tasks/resubscribe"):
        incarnation = turn_incarnation(await data(plane, f"/api/tasks/{turn.id}"))
        whole = await plane.streamed(method, {"id": turn.id}, last_event_id=f"{incarnation}-1")
        assert [generation(event.id) for event in whole] == [2, 3, 5, 6, 8]
        texts = [text_of(event.result) for event in whole]
        assert texts == ["", "Reading", "", "Writing", "done"]
        marked = [event for event in whole if "status-message" in str(event.data)]
        assert [text_of(event.result) for event in marked] == ["Reading", "Writing"]
        for after in range(1, 8):
            rest = await plane.streamed(method, {"id": turn.id}, last_event_id=f"{incarnation}-{after}")
            assert rest == [event for event in whole if generation(event.id) > after]


def turn_incarnation(task: Json) -> str:
    cursor: str = task["metadata"][CURSOR]
    return cursor.rpartition("-")[0]


def generation(event_id: str) -> int:
    return int(event_id.rpartition("-")[2])


def text_of(event: Json) -> str:
    found = event.get("statusUpdate", event)
    parts = found.get("status", {}).get("message", {}).get("parts", [])
    return "".join(part["text"] for part in parts)


async def test_status_texts_are_read_by_their_kind_and_are_in_no_conversation(plane: Plane) -> None:
    """P4, P10: both those that an agent yields and those of a writer."""
    turn = await a_turn(plane)
    line = status(WORKING, "Still writing")
    line.status.status.message.metadata.update({"kind": "status-message"})
    await turn.append(line)
    shown = (await data(plane, f"/api/tasks/{turn.id}"))["status"]["message"]
    assert shown["parts"][0]["text"] == "Still writing"
    await turn.append(status(COMPLETED, "done"))
    lines = await data(plane, f"/api/tasks/{turn.id}/messages?kind=status-message")
    assert [one["parts"][0]["text"] for one in lines] == ["Reading", "Writing", "Still writing"]
    assert (await data(plane, f"/api/sessions/{turn.context}/messages?kind=status-message"))["messages"] == lines
    plain = await data(plane, f"/api/tasks/{turn.id}/messages")
    assert [one["parts"][0]["text"] for one in plain] == ["hello", "done"]
    assert (await data(plane, f"/api/sessions/{turn.context}/messages"))["messages"] == plain


async def test_the_raw_log_has_the_kinds_and_hides_data_of_executors(plane: Plane) -> None:
    """C9, W18: clients see neither checkpoints nor the options of a turn, in any form of the log."""
    turn = await Turn.begun(
        plane, pb.Change(checkpoint=b"secret"), status_text("Reading"), options=pb.TurnOptions(extensions=["urn:mine"])
    )
    await turn.append(status(COMPLETED))
    async with plane.http.stream("GET", f"/api/tasks/{turn.id}/events") as reply:
        found = [event.data async for event in events(reply)]
    assert [one["kind"] for one in found] == ["created", "status", "checkpoint", "status_text", "status"]
    assert [one["generation"] for one in found if one["event"] is None] == [3]
    export = await plane.http.get(f"/api/sessions/{turn.context}/export")
    assert "EVENT_KIND_CHECKPOINT" in export.text
    hidden = ("c2VjcmV0", "secret", "urn:mine")
    assert not [word for word in hidden if word in export.text or word in str(found)]


async def test_usage_figures_are_equal_on_every_route_and_cannot_be_set_by_clients(plane: Plane) -> None:
    """P9: streams have the figures of the run, the task those of all its runs. Figures that a client sends are not
    stored."""
    forged = {USAGE: {"input": 1000}, "mine": 1}
    asked = await plane.send("ask", message={"metadata": forged})
    assert USAGE not in asked["metadata"]
    canceled = await plane.result("CancelTask", {"id": asked["id"], "metadata": forged})
    assert USAGE not in canceled.get("metadata", {})
    body = {"message": said("ask"), "metadata": forged}
    other = (await plane.result("SendMessage", body))["task"]
    assert (USAGE in other["metadata"], other["metadata"]["mine"]) == (False, 1)
    turn = await Turn.begun(plane)
    await turn.append(status(COMPLETED, "done", input=3, output=4.5))
    task = await plane.result("GetTask", {"id": turn.id})
    assert task["metadata"][USAGE] == {"input": 3, "output": 4.5}
    old = await plane.result("tasks/get", {"id": turn.id})
    assert old["metadata"][USAGE] == task["metadata"][USAGE]
    (ended,) = await plane.streamed("SubscribeToTask", {"id": turn.id}, last_event_id=f"{turn_incarnation(task)}-2")
    assert ended.result["statusUpdate"]["metadata"][USAGE] == {"input": 3, "output": 4.5}


async def test_metadata_and_extensions_of_an_artifact_are_shown_in_both_versions(plane: Plane) -> None:
    """P5: a stream has those of each chunk, the task and the list of artifacts have all."""
    turn = await Turn.begun(plane, chunk("x", extensions=["urn:a"], one=1))
    await turn.append(chunk("y", append=True, extensions=["urn:b", "urn:a"], two=2), status(COMPLETED))
    found: list[Json] = []
    for get, subscribe in (("GetTask", "SubscribeToTask"), ("tasks/get", "tasks/resubscribe")):
        task = await plane.result(get, {"id": turn.id})
        (artifact,) = task["artifacts"]
        found.append(artifact)
        stream = await plane.streamed(subscribe, {"id": turn.id}, last_event_id=f"{turn_incarnation(task)}-2")
        updates = [event.result.get("artifactUpdate", event.result) for event in stream[:2]]
        assert [one["artifact"]["metadata"] for one in updates] == [{"one": 1}, {"two": 2}]
        assert [one["artifact"]["extensions"] for one in updates] == [["urn:a"], ["urn:b", "urn:a"]]
    found += await data(plane, f"/api/tasks/{turn.id}/artifacts")
    for artifact in found:
        assert (artifact["metadata"], artifact["extensions"]) == ({"one": 1, "two": 2}, ["urn:a", "urn:b"])


async def test_usage_and_status_texts_are_imported_and_checkpoints_are_not(plane: Plane) -> None:
    """S: of a paused task. The file does not contain the checkpoint."""
    turn = await a_turn(plane)
    asked = status(a2a.TASK_STATE_INPUT_REQUIRED, "Which one?", input=3)
    await turn.append(asked)
    export = await plane.http.get(f"/api/sessions/{turn.context}/export")
    new = fresh()
    reply = await plane.http.post(
        f"/api/sessions/import?id={new}", content=export.content, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.status_code == 201, reply.text
    (task,) = await data(plane, f"/api/sessions/{new}/tasks")
    assert (task["status"]["state"], task["metadata"][USAGE]) == ("input-required", {"input": 3})
    lines = await data(plane, f"/api/tasks/{task['id']}/messages?kind=status-message")
    assert [one["parts"][0]["text"] for one in lines] == ["Reading", "Writing"]
    store = plane.behind.stores.tasks(WORKER)
    found = await store.ListEvents(pb.ListEventsRequest(task_id=task["id"], kinds=[pb.EVENT_KIND_CHECKPOINT]))
    assert [event.checkpoint for event in found.events] == [b"", b""]
    assert found.record.checkpoint_generation == 0
    again = await plane.http.get(f"/api/sessions/{new}/export")
    assert len(again.text.splitlines()) == len(export.text.splitlines())
