"""Tasks under /api: documents, managed tasks read as documents, and conversations."""

import asyncio
from typing import Any

import pytest
from tests.gateway.plane import Plane, fresh, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")


def document(**fields: Any) -> Any:
    """Return a whole task as a runtime posts it."""
    return {"id": fresh(), "contextId": fresh(), "status": {"state": "completed"}, **fields}


def message(message_id: str, text: str, role: str = "agent", **fields: Any) -> Any:
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": message_id, "role": role, "parts": parts, **fields}


async def data(plane: Plane, path: str, status: int = 200) -> Any:
    reply = await plane.http.get(path)
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert body["error"] is False
    return body.get("data")


async def refused(plane: Plane, method: str, path: str, status: int, **options: Any) -> Any:
    """Return the error envelope of a refused request."""
    reply = await plane.http.request(method, path, **options)
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert isinstance(body["error"], str)
    return body


async def session(plane: Plane) -> str:
    reply = await plane.http.post("/api/sessions", json={"agent_ref": "demo"})
    context_id: str = reply.json()["data"]["id"]
    return context_id


def texts(messages: list[Any]) -> list[str]:
    return ["".join(part.get("text", "") for part in one["parts"]) for one in messages]


async def test_a_document_is_stored_replaced_read_and_deleted(plane: Plane) -> None:
    """T3: a write is an upsert by id and answered with 201; T4: in any state."""
    task = document(history=[message("m1", "hi", "user")], metadata={"a": 1})
    created = await plane.http.post("/api/tasks", json=task)
    assert created.status_code == 201
    stored = created.json()["data"]
    assert (stored["kind"], stored["id"], stored["metadata"]["a"]) == ("task", task["id"], 1)
    assert created.headers["etag"] == '"1"'
    task["status"] = {"state": "working"}
    assert (await plane.http.post("/api/tasks", json=task)).status_code == 201
    read = await plane.http.get(f"/api/tasks/{task['id']}")
    assert (read.json()["data"]["status"]["state"], read.headers["etag"]) == ("working", '"2"')
    assert (await plane.http.delete(f"/api/tasks/{task['id']}")).status_code == 204
    assert (await refused(plane, "GET", f"/api/tasks/{task['id']}", 404))["code"] == "TASK_NOT_FOUND"
    await refused(plane, "DELETE", f"/api/tasks/{task['id']}", 404)


async def test_a_document_without_an_id_gets_one_and_without_a_context_is_refused(plane: Plane) -> None:
    """T3: the answer has the new id. A document without a context is refused with 400."""
    task = document()
    del task["id"]
    created = (await plane.http.post("/api/tasks", json=task)).json()["data"]
    assert await data(plane, f"/api/tasks/{created['id']}") == created
    del task["contextId"]
    assert "contextId" in (await refused(plane, "POST", "/api/tasks", 400, json=task))["fields"]


async def test_a_replacement_with_an_outdated_if_match_is_refused_with_409(plane: Plane) -> None:
    """T3: nothing is written."""
    task = document()
    await plane.http.post("/api/tasks", json=task)
    for tag in ('"1"', "2", 'W/"3"', "abc-4"):
        done = await plane.http.post("/api/tasks", json=task, headers={"If-Match": tag})
        assert done.status_code == 201, tag
    body = await refused(plane, "POST", "/api/tasks", 409, json=task, headers={"If-Match": '"1"'})
    assert body["code"] == "GENERATION_MISMATCH"
    await refused(plane, "POST", "/api/tasks", 400, json=task, headers={"If-Match": "x"})
    assert (await plane.http.get(f"/api/tasks/{task['id']}")).headers["etag"] == '"5"'


async def test_a_write_to_a_managed_task_is_refused_with_409(plane: Plane) -> None:
    """T4: the error says that this server runs the task."""
    task = await plane.send("hello")
    body = await refused(plane, "POST", "/api/tasks", 409, json=document(id=task["id"], contextId=task["contextId"]))
    assert body["code"] == "MANAGED"
    assert "run by this server" in body["error"]


async def test_a_task_of_another_owner_is_409_on_write_and_404_on_read(plane: Plane) -> None:
    """T3, S6: the session of another owner is 404, as an unknown one is."""
    task = document(contextId=await session(plane))
    await plane.http.post("/api/tasks", json=task)
    assert len(await data(plane, f"/api/sessions/{task['contextId']}/tasks")) == 1
    other = {"X-User-Id": "mallory"}
    await refused(plane, "POST", "/api/tasks", 409, json=task, headers=other)
    await refused(plane, "GET", f"/api/tasks/{task['id']}", 404, headers=other)
    await refused(plane, "DELETE", f"/api/tasks/{task['id']}", 404, headers=other)
    await refused(plane, "GET", f"/api/sessions/{task['contextId']}/tasks", 404, headers=other)


@pytest.mark.parametrize("key", ["kagent_adk_partial", "adk_partial"])
async def test_partial_messages_are_removed_from_the_history_of_a_document(plane: Plane, key: str) -> None:
    """T5: for either key, and only if its value is true. This includes the message of the status."""
    partial, whole = (message(name, name, metadata={key: value}) for name, value in (("p", True), ("w", False)))
    growing = message("s", "so f", metadata={key: True})
    history = [message("u", "hi", "user"), partial, whole, message("f", "grown")]
    task = document(history=history, status={"state": "working", "message": growing})
    await plane.http.post("/api/tasks", json=task)
    stored = await data(plane, f"/api/tasks/{task['id']}")
    assert [one["messageId"] for one in stored["history"]] == ["u", "w", "f"]
    shown = [task["history"] for task in (await plane.result("ListTasks", {"contextId": task["contextId"]}))["tasks"]]
    assert [one["messageId"] for one in shown[0]] == ["u", "w", "f"]


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [({}, ["u", "s"]), ({"adk_partial": True}, ["u"]), ({"kind": "status-message"}, ["u"])],
)
async def test_the_status_message_is_appended_to_the_history_unless_transient(
    plane: Plane, metadata: Any, shown: list[str]
) -> None:
    """T6: otherwise the flattened conversation would lack it."""
    status = {"state": "working", "message": message("s", "so far", metadata=metadata)}
    task = document(status=status, history=[message("u", "hi", "user")])
    await plane.http.post("/api/tasks", json=task)
    stored = await data(plane, f"/api/tasks/{task['id']}")
    assert [one["messageId"] for one in stored["history"]] == shown


async def test_a_message_in_both_status_and_history_is_shown_once(plane: Plane) -> None:
    """T6."""
    repeated = message("s", "done")
    task = document(status={"state": "completed", "message": repeated}, history=[repeated])
    await plane.http.post("/api/tasks", json=task)
    assert len((await data(plane, f"/api/tasks/{task['id']}"))["history"]) == 1


async def test_the_tasks_of_a_session_are_listed_oldest_first_with_their_artifacts(plane: Plane) -> None:
    """T3, S1, S6: each has its kind. The envelope omits an empty list; an unknown session is 404."""
    context = await session(plane)
    assert "data" not in (await plane.http.get(f"/api/sessions/{context}/tasks")).json()
    first = await plane.send("artifact", message={"contextId": context})
    second = document(contextId=context)
    await plane.http.post("/api/tasks", json=second)
    third = await plane.send("hello", message={"contextId": context})
    listed = await data(plane, f"/api/sessions/{context}/tasks")
    assert [task["id"] for task in listed] == [first["id"], second["id"], third["id"]]
    assert {task["kind"] for task in listed} == {"task"}
    assert len(listed[0]["artifacts"]) == 3
    assert texts(listed[2]["history"]) == ["hello", "hello"]
    await refused(plane, "GET", "/api/sessions/none/tasks", 404)


async def test_a_session_with_more_tasks_than_one_page_lists_all(plane: Plane) -> None:
    context = await session(plane)
    bodies = [document(contextId=context) for _ in range(130)]
    await asyncio.gather(*(plane.http.post("/api/tasks", json=body) for body in bodies))
    listed = [task["id"] for task in await data(plane, f"/api/sessions/{context}/tasks")]
    assert sorted(listed) == sorted(body["id"] for body in bodies)


async def test_a_session_with_a_direct_answer_lists_its_session_task_first(plane: Plane) -> None:
    """R5, T6: the session task has the messages without a task. The flattened conversation has each message once."""
    context = fresh()
    task = await plane.send("hello", message={"contextId": context})
    assert [one["id"] for one in await data(plane, f"/api/sessions/{context}/tasks")] == [task["id"]]
    await plane.send("message direct", message={"contextId": context})
    listed = await data(plane, f"/api/sessions/{context}/tasks")
    assert [one["id"] for one in listed] == [context, task["id"]]
    assert (listed[0]["contextId"], listed[0]["status"]["state"]) == (context, "completed")
    conversation = ["hello", "hello", "message direct", "direct"]
    assert texts(listed[0]["history"]) == conversation
    assert (await data(plane, f"/api/tasks/{context}"))["history"] == listed[0]["history"]
    assert texts((await data(plane, f"/api/sessions/{context}/messages"))["messages"]) == conversation
    await refused(plane, "GET", f"/api/tasks/{context}", 404, headers={"X-User-Id": "mallory"})


async def test_a_document_under_the_session_id_replaces_the_session_task(plane: Plane) -> None:
    context = fresh()
    await plane.send("message direct", message={"contextId": context})
    await plane.http.post("/api/tasks", json=document(id=context, contextId=context, metadata={"mine": True}))
    listed = await data(plane, f"/api/sessions/{context}/tasks")
    assert [(one["id"], one["metadata"]["mine"]) for one in listed] == [(context, True)]


async def test_a_conversation_equals_its_flattened_tasks_newest_page_first(plane: Plane) -> None:
    """T6: the oldest task first, with its history. Of messages with equal ids the first one is kept."""
    context = await session(plane)
    for number in range(5):
        history = [message(f"u{number}", f"ask {number}", "user"), message("same", "once"), message(f"a{number}", "ok")]
        await plane.http.post("/api/tasks", json=document(contextId=context, history=history))
    whole = await data(plane, f"/api/sessions/{context}/messages")
    ids = [one["messageId"] for one in whole["messages"]]
    assert ids == ["u0", "same", "a0", "u1", "a1", "u2", "a2", "u3", "a3", "u4", "a4"]
    assert whole["before"] is None
    assert {one["kind"] for one in whole["messages"]} == {"message"}
    pages: list[list[str]] = []
    before = ""
    while True:
        page = await data(plane, f"/api/sessions/{context}/messages?limit=4&before={before}")
        pages.append([one["messageId"] for one in page["messages"]])
        before = page["before"]
        if before is None:
            break
    assert [len(page) for page in pages] == [4, 4, 3]
    assert [one for page in reversed(pages) for one in page] == ids
    for query in ("limit=0", "limit=1001", "limit=x", "before=none"):
        await refused(plane, "GET", f"/api/sessions/{context}/messages?{query}", 400)
    await refused(plane, "GET", "/api/sessions/none/messages", 404)


async def test_messages_are_listed_by_task_and_by_kind(plane: Plane) -> None:
    """P10: the filter is metadata.kind; P4: status texts are readable, but not in the history; S1: an empty list is
    `[]`."""
    task = await plane.send("artifact")
    plain = await data(plane, f"/api/tasks/{task['id']}/messages")
    assert texts(plain) == ["artifact", "Three artifacts were made."]
    status = await data(plane, f"/api/tasks/{task['id']}/messages?kind=status-message")
    assert texts(status) == ["Making three artifacts"]
    session_wide = await data(plane, f"/api/sessions/{task['contextId']}/messages?kind=status-message")
    assert session_wide["messages"] == status
    assert await data(plane, f"/api/tasks/{task['id']}/messages?kind=other") == []
    await refused(plane, "GET", "/api/tasks/none/messages", 404)


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, "PARSE_ERROR"),
        (b"[]", {}, 400, "INVALID_ARGUMENT"),
        (b"{}", {"content-type": "text/plain"}, 415, "CONTENT_TYPE_NOT_SUPPORTED"),
        (b"x" * (8 * 1024 * 1024 + 1), {}, 413, "BODY_TOO_LARGE"),
        (b"[" * 501 + b"]" * 501, {}, 400, "TOO_DEEP"),
    ],
)
async def test_an_invalid_body_is_refused_with_its_error_code(
    plane: Plane, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    found = {"content-type": "application/json", **headers}
    assert (await refused(plane, "POST", "/api/tasks", status, content=body, headers=found))["code"] == code


async def test_a_document_too_large_for_the_store_is_refused_with_413(plane: Plane) -> None:
    task = document(history=[message("m", "x" * 4_200_000)])
    assert (await refused(plane, "POST", "/api/tasks", 413, json=task))["code"] == "REQUEST_TOO_LARGE"


async def test_managed_tasks_are_returned_in_the_form_of_0_3(plane: Plane) -> None:
    task = await plane.send("tool")
    read = await data(plane, f"/api/tasks/{task['id']}")
    assert (read["kind"], read["status"]["state"]) == ("task", "completed")
    assert read["history"][0]["parts"] == [{"kind": "text", "text": "tool"}]
    old = await plane.result("tasks/get", {"id": task["id"]})
    assert read["status"] == old["status"]


async def test_a_question_asked_over_0_3_is_read_in_full_over_the_api(plane: Plane) -> None:
    asked = await plane.result("message/send", {"message": said_0_3("ask"), "configuration": {"blocking": True}})
    await plane.send("Ann", message={"taskId": asked["id"]})
    read = await data(plane, f"/api/tasks/{asked['id']}")
    assert texts(read["history"]) == ["ask", "What is your name?", "Ann", 'You said: "Ann"']
