"""An ended task never changes: by clients, by the executor that ran it, or by a shell on the database."""

from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from tests.support.additions import without_additions
from tests.system.plane import Plane, on_both_engines
from tests.system.stores import task_store
from tests.system.wire import Json, call, client, data, raw_log, result, stream, text_message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import AlreadyExists, PlaneError
from taskplane.storage.engine import open_engine

pytestmark = [pytest.mark.asyncio(loop_scope="module"), on_both_engines]

# For each terminal state, the message with which the demo agent reaches it.
ENDS = {"completed": "artifact", "failed": "fail", "canceled": "slow 400", "rejected": "reject"}
every_end = pytest.mark.parametrize("end", ENDS)


async def ended(http: httpx.AsyncClient, end: str, **fields: Any) -> Json:
    """Returns a task with metadata and this end, from GetTask."""
    params: Json = {"message": text_message(ENDS[end], **fields), "metadata": {"ticket": 7}}
    if end != "canceled":
        task = (await result(http, "SendMessage", params))["task"]
    else:
        async with stream(http, "SendStreamingMessage", params) as events:
            told = aiter(events)
            while "artifactUpdate" not in (event := await anext(told)).result:
                pass
        task = await result(http, "CancelTask", {"id": event.result["artifactUpdate"]["taskId"]})
    assert task["status"]["state"] == "TASK_STATE_" + end.upper()
    assert without_additions(task)["metadata"] == {"ticket": 7}
    return await result(http, "GetTask", {"id": task["id"]})


async def seen(http: httpx.AsyncClient, task: Json) -> list[Any]:
    """Everything that clients see of a task."""
    listed = await result(http, "ListTasks", {"contextId": task["contextId"], "includeArtifacts": True})
    return [
        await result(http, "GetTask", {"id": task["id"]}),
        next(each for each in listed["tasks"] if each["id"] == task["id"]),
        await data(http, f"/api/tasks/{task['id']}"),
        await data(http, f"/api/tasks/{task['id']}/artifacts"),
        await raw_log(http, task["id"]),
    ]


def status(state: "a2a.TaskState.ValueType", words: str = "") -> pb.Change:
    update = a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=state))
    if words:
        update.status.message.CopyFrom(said(words))
    return pb.Change(status=update)


def said(words: str) -> a2a.Message:
    return a2a.Message(message_id=uuid4().hex, role=a2a.ROLE_AGENT, parts=[a2a.Part(text=words)])


def late(record: pb.TaskRecord) -> list[pb.AppendItem]:
    """Late changes of an executor, under every past fence and the next one."""
    more = a2a.TaskArtifactUpdateEvent(
        artifact=a2a.Artifact(artifact_id="chunks", parts=[a2a.Part(text="more")]), append=True
    )
    changes = [
        status(a2a.TASK_STATE_WORKING),
        status(a2a.TASK_STATE_WORKING, "one more thing"),
        status(a2a.TASK_STATE_COMPLETED, "after all"),
        status(a2a.TASK_STATE_FAILED),
        status(a2a.TASK_STATE_INPUT_REQUIRED, "well?"),
        pb.Change(artifact=more),
    ]
    return [
        pb.AppendItem(task_uid=record.uid, fence=fence, number=1_000 + number, changes=[change])
        for fence in range(1, record.fence + 2)
        for number, change in enumerate(changes)
    ]


@every_end
async def test_no_client_and_no_executor_can_change_an_ended_task(plane: Plane, end: str) -> None:
    """I4, C7, M4: state, status, artifacts, history and metadata; a late `working` is refused as TERMINAL."""
    async with client(plane.url) as http, task_store(plane, service=True) as (store, queue):
        task = await ended(http, end)
        before = await seen(http, task)
        record = (await store.GetTask(pb.GetTaskRequest(task_id=task["id"]))).record
        for item in late(record):
            (answer,) = (await store.AppendEvents(pb.AppendEventsRequest(items=[item]))).results
            assert answer.refusal.reason == "TERMINAL", item
        turn: dict[str, Any] = {"invocation_id": uuid4().hex, "request_hash": b"h" * 32}
        for request in (
            store.AddMessage(pb.AddMessageRequest(task_id=task["id"], message=said("hello?"), **turn)),
            store.CancelTask(pb.CancelTaskRequest(task_id=task["id"])),
            store.PutTask(pb.PutTaskRequest(task=a2a.Task(id=task["id"], context_id="elsewhere"))),
        ):
            with pytest.raises(PlaneError) as refused:
                await request
            assert refused.value.reason in {"TERMINAL", "MANAGED"}
        again = pb.CreateTaskRequest(task_id=task["id"], context_id="c", agent="demo", message=said("again"), **turn)
        with pytest.raises(AlreadyExists):
            await store.CreateTask(again)
        held = pb.RenewRequest(process_id="late", leases=[pb.Lease(task_uid=record.uid, fence=record.fence)])
        assert not (await queue.Renew(held)).leases[0].still_yours
        for method, params, code in (
            ("SendMessage", {"message": text_message("more", taskId=task["id"])}, -32004),
            ("SendStreamingMessage", {"message": text_message("more", taskId=task["id"])}, -32004),
            ("CancelTask", {"id": task["id"], "metadata": {"why": "late"}}, -32002),
        ):
            assert (await call(http, method, params))["error"]["code"] == code
        written = {"id": task["id"], "contextId": task["contextId"], "status": {"state": "working"}}
        assert (await http.post("/api/tasks", json=written)).status_code == 409
        assert await seen(http, task) == before


@every_end
async def test_a_message_after_an_ended_task_makes_a_new_task_and_both_are_listed(plane: Plane, end: str) -> None:
    """M4: in the same session; the ended task does not change."""
    async with client(plane.url) as http:
        first = await ended(http, end, contextId=uuid4().hex)
        before = await seen(http, first)
        params = {"message": text_message("echo next", contextId=first["contextId"])}
        second = (await result(http, "SendMessage", params))["task"]
        assert (second["contextId"], second["status"]["state"]) == (first["contextId"], "TASK_STATE_COMPLETED")
        assert second["id"] != first["id"]
        listed = await data(http, f"/api/sessions/{first['contextId']}/tasks")
        assert [task["id"] for task in listed] == [first["id"], second["id"]]
        assert [task["status"]["state"] for task in listed] == [end, "completed"]
        page = await result(http, "ListTasks", {"contextId": first["contextId"]})
        assert [task["id"] for task in page["tasks"]] == [second["id"], first["id"]]
        assert await seen(http, first) == before


_UID = "(SELECT uid FROM task WHERE id = :id)"
_COLUMNS = (
    "task_uid, generation, tenant, owner, fence, attempt, kind, actor, invocation_id, request_hash, speaks, payload,"
    " created_at"
)
ATTACKS = [
    "UPDATE task SET state = 2, terminal_generation = NULL WHERE id = :id",
    "UPDATE task SET state = CASE state WHEN 4 THEN 3 ELSE 4 END WHERE id = :id",
    "UPDATE task SET status_at = status_at + 1 WHERE id = :id",
    "UPDATE task SET context_id = 'elsewhere' WHERE id = :id",
    "UPDATE task SET generation = generation + 1 WHERE id = :id",
    "UPDATE task SET fence = fence + 1 WHERE id = :id",
    f"UPDATE event SET payload = :junk WHERE task_uid = {_UID}",
    f"UPDATE event SET created_at = 0 WHERE task_uid = {_UID}",
    f"DELETE FROM event WHERE task_uid = {_UID} AND generation = (SELECT generation FROM task WHERE id = :id)",
    f"INSERT INTO event ({_COLUMNS})"
    f" SELECT {_COLUMNS.replace('generation', 'generation + 1', 1)} FROM event"
    f" WHERE task_uid = {_UID} AND generation = (SELECT generation FROM task WHERE id = :id)",
]


async def test_the_database_refuses_to_change_an_ended_task(plane: Plane) -> None:
    """I4, C7: for statements of a shell; clients see the same afterwards."""
    async with client(plane.url) as http:
        tasks = [await ended(http, end) for end in ENDS]
        before = [await seen(http, task) for task in tasks]
    await plane.kill("dev")

    def attack(conn: Connection, statement: str, task_id: str) -> int:
        values = {"id": task_id, "junk": b"junk"}
        used = {key: value for key, value in values.items() if f":{key}" in statement}
        return conn.execute(text(statement), used).rowcount

    accepted: list[tuple[str, str]] = []
    async with open_engine(plane.tasks_url) as engine:
        for task in tasks:
            for statement in ATTACKS:
                try:
                    await engine.write(attack, statement, task["id"])
                except IntegrityError:
                    continue
                accepted.append((task["status"]["state"], statement))
            # Control: a column that clients do not see can be changed, so the statements reach the row.
            copied = "UPDATE task SET copied_generation = generation WHERE id = :id"
            assert await engine.write(attack, copied, task["id"]) == 1
    await plane.start("dev")
    assert accepted == []
    async with client(plane.url) as http:
        assert [await seen(http, task) for task in tasks] == before
