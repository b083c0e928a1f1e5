"""kagent's task store, unmodified, with a plane."""

from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.compat.process import Refused, Runtime
from tests.support.additions import without_additions
from tests.system.wire import Json, data, send, state_of, stream

pytestmark = pytest.mark.asyncio(loop_scope="session")


def message(role: str, text: str, **metadata: Any) -> Json:
    parts: list[Json] = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": uuid4().hex, "role": role, "parts": parts, "metadata": metadata}


def document(state: str = "completed", **fields: Any) -> Json:
    """A task with a value in every field that such a runtime fills."""
    call = {"id": "c1", "name": "look", "args": {"deep": [1, 2.5, None, True]}}
    parts: list[Json] = [
        {"kind": "text", "text": "found"},
        {"kind": "data", "data": call, "metadata": {"kagent_type": "function_call"}},
        {"kind": "file", "file": {"name": "a.csv", "mimeType": "text/csv", "bytes": "YSxi"}},
        {"kind": "file", "file": {"uri": "https://files.example/a", "mimeType": "text/csv"}},
    ]
    return {
        "kind": "task",
        "id": uuid4().hex,
        "contextId": uuid4().hex,
        "status": {"state": state, "timestamp": "2026-01-02T03:04:05Z"},
        "history": [message("user", "look"), message("agent", "found", kagent_invocation_id="i1")],
        "artifacts": [{"artifactId": "a", "name": "A", "description": "All", "parts": parts}],
        "metadata": {"kagent_usage_metadata": {"totalTokenCount": 7}},
        **fields,
    }


async def saved(runtime: Runtime, task: Json, user: str) -> Any:
    """The task as its runtime reads it, without the additions of the plane."""
    return without_additions(await runtime.call("get_task", task_id=task["id"], user=user))


async def test_a_saved_task_is_read_back_unchanged_replaced_listed_and_deleted(
    runtime: Runtime, user: str, http: httpx.AsyncClient
) -> None:
    """T2, T3: at any state it is replaced, and a deleted task is None."""
    task = document("completed")
    context = (await runtime.call("create_session", user=user, session_id=task["contextId"]))["id"]
    for state in ("completed", "working", "input-required", "failed"):
        task["status"]["state"] = state
        await runtime.call("save_task", task=task, user=user)
        assert await saved(runtime, task, user) == without_additions(task)
        assert without_additions(await data(http, f"/api/sessions/{context}/tasks")) == [without_additions(task)]
    second = document(contextId=context)
    await runtime.call("save_task", task=second, user=user)
    assert [each["id"] for each in await data(http, f"/api/sessions/{context}/tasks")] == [task["id"], second["id"]]
    await runtime.call("delete_task", task_id=task["id"], user=user)
    assert await runtime.call("get_task", task_id=task["id"], user=user) is None
    with pytest.raises(Refused) as refused:
        await runtime.call("delete_task", task_id=task["id"], user=user)
    assert (refused.value.kind, refused.value.status) == ("HTTPStatusError", 404)


@pytest.mark.parametrize("key", ["kagent_adk_partial", "adk_partial"])
async def test_growing_texts_are_not_in_the_history_that_is_read_back(runtime: Runtime, user: str, key: str) -> None:
    """T5: kagent's store drops the ones it knows before it saves, the plane drops the others."""
    growing, whole = message("agent", "fou", **{key: True}), message("agent", "found", **{key: False})
    task = document(history=[message("user", "look"), growing, whole])
    await runtime.call("save_task", task=task, user=user)
    read = await runtime.call("get_task", task_id=task["id"], user=user)
    assert without_additions(read["history"]) == without_additions([task["history"][0], whole])


async def test_a_task_of_another_user_is_a_conflict_on_write_and_not_found_on_read(runtime: Runtime, user: str) -> None:
    """T3, S2: kagent's clients name the user of the call in X-User-Id."""
    task = document()
    await runtime.call("save_task", task=task, user=user)
    for call, arguments in (("save_task", {"task": task}), ("delete_task", {"task_id": task["id"]})):
        with pytest.raises(Refused) as refused:
            await runtime.call(call, user=f"not-{user}", **arguments)
        assert refused.value.status == (409 if call == "save_task" else 404)
    assert await runtime.call("get_task", task_id=task["id"], user=f"not-{user}") is None
    assert await saved(runtime, task, user) == without_additions(task)


async def test_a_call_outside_of_a_request_belongs_to_the_default_user_of_the_plane(runtime: Runtime) -> None:
    """S2: without a context kagent's clients name no user."""
    task = document()
    await runtime.call("save_task", task=task)
    assert await saved(runtime, task, "local") == without_additions(task)


async def test_a_task_that_the_plane_runs_is_a_conflict(runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
    """T4: and the task is unchanged."""
    run = (await send(http, "hello"))["task"]
    before = await data(http, f"/api/tasks/{run['id']}")
    with pytest.raises(Refused) as refused:
        await runtime.call("save_task", task=document(id=run["id"], contextId=run["contextId"]), user=user)
    assert refused.value.status == 409
    assert await data(http, f"/api/tasks/{run['id']}") == before


async def test_a_subscriber_receives_each_save(runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
    """T4: state, texts and artifacts, numbered, while kagent's store saves the task repeatedly."""
    task = document("submitted", history=[message("user", "look")], artifacts=[])
    await runtime.call("save_task", task=task, user=user)
    async with stream(http, "SubscribeToTask", {"id": task["id"]}) as events:
        told = aiter(events)
        first = await anext(told)
        assert (first.generation, state_of(first)) == (1, "TASK_STATE_SUBMITTED")
        said = message("agent", "found")
        task["status"] = {"state": "working", "message": said, "timestamp": "2026-01-02T03:04:06Z"}
        await runtime.call("save_task", task=task, user=user)
        working = await anext(told)
        assert (working.generation, state_of(working)) == (2, "TASK_STATE_WORKING")
        assert working.result["statusUpdate"]["status"]["message"]["messageId"] == said["messageId"]
        task["artifacts"] = [{"artifactId": "a", "parts": [{"kind": "text", "text": "all of it"}]}]
        task["status"] = {"state": "completed", "timestamp": "2026-01-02T03:04:07Z"}
        task["history"].append(said)
        await runtime.call("save_task", task=task, user=user)
        artifact, ended = [event async for event in told]
    assert artifact.result["artifactUpdate"]["artifact"]["parts"] == [{"text": "all of it"}]
    assert (ended.generation, state_of(ended)) == (3, "TASK_STATE_COMPLETED")


async def test_a_subscriber_receives_every_message(runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
    """T4: kagent saves the whole task with every message, the last one as its status, the earlier ones in its
    history."""
    task = document("submitted", history=[], artifacts=[])
    task["status"]["message"] = message("user", "look")
    await runtime.call("save_task", task=task, user=user)
    async with stream(http, "SubscribeToTask", {"id": task["id"]}) as events:
        told = aiter(events)
        await anext(told)
        for state in ["working"] * 20 + ["completed"]:
            task["history"].append(task["status"].get("message"))
            task["status"] = {"state": state} | ({"message": message("agent", "on")} if state == "working" else {})
            await runtime.call("save_task", task=task, user=user)
        updates = [event.result["statusUpdate"]["status"] async for event in told]
    seen = [update["message"]["messageId"] for update in updates if "message" in update]
    assert seen == [each["messageId"] for each in task["history"][1:]]
