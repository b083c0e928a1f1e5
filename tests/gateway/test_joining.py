"""A page that joins a running task: it loads the tasks of the session, subscribes later, and misses nothing."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from tests.executor.scripted import Stepped
from tests.gateway.plane import Event, Plane, events, fresh, open_all, said
from tests.gateway.sessions.test_watch import ended, named, watching

pytestmark = pytest.mark.asyncio(loop_scope="module")

CURSOR = "taskplane.dev/cursor"


def generation(cursor: str) -> int:
    return int(cursor.rpartition("-")[2])


async def log(plane: Plane, task_id: str, cursor: str = "") -> list[Event]:
    """Return the log of a task up to its end."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    async with plane.http.stream("GET", f"/api/tasks/{task_id}/events", headers=headers) as reply:
        return [event async for event in events(reply)] if reply.status_code == 200 else []


async def loaded(plane: Plane, how: str, context_id: str, task_id: str) -> dict[str, Any]:
    """Return the task as a page loads it, by one of the routes."""
    if how == "session":
        (task,) = (await plane.http.get(f"/api/sessions/{context_id}/tasks")).json()["data"]
    elif how == "task":
        reply = await plane.http.get(f"/api/tasks/{task_id}")
        task = reply.json()["data"]
        assert reply.headers["taskplane-cursor"] == task["metadata"][CURSOR]
    elif how == "ListTasks":
        (task,) = (await plane.result(how, {"contextId": context_id}))["tasks"]
    else:
        task = await plane.result(how, {"id": task_id})
    return dict(task)


async def join(plane: Plane, how: str, method: str) -> None:
    """Load a running task, subscribe later, and compare the events with the log."""
    context_id = fresh()
    sent = await plane.send("slow 3", message={"contextId": context_id}, returnImmediately=True)
    await asyncio.sleep(random.uniform(0, 0.6))
    task = await loaded(plane, how, context_id, sent["id"])
    cursor = task["metadata"][CURSOR]
    await asyncio.sleep(random.uniform(0, 0.6))
    if method == "events":
        seen = [event.data["generation"] for event in await log(plane, sent["id"], cursor)]
        logged = await log(plane, sent["id"])
    else:
        followed = await plane.streamed(method, {"id": sent["id"]}, last_event_id=cursor)
        seen = [generation(event.id) for event in followed]
        logged = [event for event in await log(plane, sent["id"]) if event.data["event"] is not None]
    numbers = [event.data["generation"] for event in logged]
    assert seen == [number for number in numbers if number > generation(cursor)]


@pytest.mark.parametrize("method", ["tasks/resubscribe", "SubscribeToTask", "events"])
async def test_a_client_that_loads_a_task_and_subscribes_later_gets_each_event_once(plane: Plane, method: str) -> None:
    """T10, a2a C12: every subscription accepts the cursor of the loaded task, for each route of loading it."""
    hows = ["session", "task", "tasks/get", "GetTask", "ListTasks"] * 3
    await asyncio.gather(*(join(plane, how, method) for how in hows))


async def test_the_first_task_of_a_stream_has_its_cursor(plane: Plane) -> None:
    """T10."""
    for method, key in (("SendStreamingMessage", "task"), ("message/stream", "")):
        message = {"messageId": fresh(), "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
        if key:
            message = {"messageId": fresh(), "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        first = (await plane.streamed(method, {"message": message}))[0]
        task = first.result[key] if key else first.result
        assert task["metadata"][CURSOR] == first.id


async def test_metadata_of_the_server_is_not_stored_by_a_save(plane: Plane) -> None:
    """A runtime that reads a task and saves it again stores only its own metadata."""
    task_id, context_id = fresh(), fresh()
    given = {"id": task_id, "contextId": context_id, "status": {"state": "working"}, "metadata": {"own": 1}}
    first = (await plane.http.post("/api/tasks", json=given)).json()["data"]
    assert generation(first["metadata"][CURSOR]) == 1
    second = (await plane.http.post("/api/tasks", json=first)).json()["data"]
    assert second["metadata"] == {"own": 1, CURSOR: second["metadata"][CURSOR]}
    (shown,) = (await plane.result("ListTasks", {"contextId": context_id}))["tasks"]
    assert shown["metadata"] == second["metadata"]


@pytest.mark.parametrize("method", ["tasks/resubscribe", "SubscribeToTask"])
async def test_a_second_client_gets_the_message_and_the_answer(tmp_path: Path, method: str) -> None:
    """T10: of a message to a running task, in the stream of another client and in a watch."""
    context_id, stepped = fresh(), Stepped()
    async with open_all(tmp_path, ("a", stepped)) as plane:
        sent = await plane.send("go", message={"contextId": context_id}, returnImmediately=True)
        async with watching(plane, context_id) as watch, plane.stream(method, {"id": sent["id"]}) as second:
            await anext(second)
            message = said("and this", contextId=context_id, taskId=sent["id"])
            await plane.result("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})
            stepped.end()
            updates = [event.result.get("statusUpdate", event.result) async for event in second]
            watched = await ended(watch, sent["id"], messages=2)
    statuses = [update["status"] for update in updates if "status" in update]
    messages = {status["message"]["messageId"]: status["message"] for status in statuses if "message" in status}
    texts = [(each["role"], each["parts"][0]["text"]) for each in messages.values()]
    user, agent = ("user", "agent") if method == "tasks/resubscribe" else ("ROLE_USER", "ROLE_AGENT")
    assert texts == [(user, "and this"), (agent, 'You said: "and this"')]
    (of_user,) = [status for status in statuses if status.get("message", {}).get("role") == user]
    assert of_user["state"] in ("working", "TASK_STATE_WORKING") and of_user["timestamp"].endswith("Z")
    assert of_user["message"]["messageId"] == message["messageId"]
    entries = [entry["message"]["parts"][0]["text"] for entry in named(watched, "entry-added") if "message" in entry]
    assert entries[-2:] == ["and this", 'You said: "and this"']
