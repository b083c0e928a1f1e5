"""The list of the tasks of a session, and statistics about them."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.executor.scripted import Stepped
from tests.gateway.conversing import Way, data, invocation, rewind, say
from tests.gateway.plane import Json, Plane, fresh, open_all, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEND = Way("1.0", False)


async def infos(plane: Plane, context: str, query: str = "") -> Any:
    return await data(plane, f"/api/sessions/{context}/task-infos{query}")


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


async def document(plane: Plane, context: str, **fields: Any) -> Json:
    body = {"contextId": context, "status": {"state": "completed"}, **fields}
    reply = await plane.http.post("/api/tasks", json=body)
    assert reply.status_code == 201, reply.text
    task: Json = reply.json()["data"]
    return task


async def test_every_task_of_a_session_is_listed_with_its_changes(plane: Plane) -> None:
    """M1, M9: two messages make two tasks, oldest first, with times and states."""
    context = fresh()
    first = await plane.send("A", message={"contextId": context})
    second = await plane.send("fail", message={"contextId": context})
    one, two = await infos(plane, context)
    assert set(one) == {"taskId", "state", "createdAt", "updatedAt", "completedAt", "agent", "changes"}
    assert set(two) == {*one, "error", "errorCode"}
    assert two["errorCode"] == second["status"]["message"]["metadata"]["reason"] == "AGENT_ERROR"
    assert (one["taskId"], two["taskId"]) == (first["id"], second["id"])
    assert (one["state"], two["state"], two["error"]) == ("completed", "failed", texts_of(second))
    assert one["agent"] == "demo"
    assert [change["state"] for change in one["changes"]] == ["pending", "working", "completed"]
    times = [moment(change["at"]) for change in one["changes"]]
    assert times == sorted(times)
    assert (one["createdAt"], one["completedAt"]) == (one["changes"][0]["at"], one["changes"][-1]["at"])


def texts_of(task: Json) -> str:
    text: str = task["status"]["message"]["parts"][0]["text"]
    return text


async def test_the_tasks_of_a_session_are_listed_in_pages(plane: Plane) -> None:
    """M1: the newest page first, each oldest to newest."""
    context = fresh()
    for text in "ABCDE":
        await say(plane, SEND, context, text)
    whole = await infos(plane, context)
    found: list[list[Json]] = []
    token = ""
    while True:
        query = f"?limit=2&page_token={token}" if token else "?limit=2"
        page = (await plane.http.get(f"/api/sessions/{context}/task-infos{query}")).json()
        found.append(page["data"])
        token = page.get("next_page_token", "")
        if not token:
            break
    assert found == [whole[3:], whole[1:3], whole[:1]]
    for query in ("limit=0", "limit=1001", "page_token=no"):
        assert (await plane.http.get(f"/api/sessions/{context}/task-infos?{query}")).status_code == 400


async def test_the_latest_incomplete_task_is_returned_or_null(plane: Plane) -> None:
    """M3, M4, M9: without one the answer is null, not an error. A paused task counts and is marked as paused. Ended
    tasks are unchanged."""
    context = fresh()
    await say(plane, SEND, context, "A")
    assert await infos(plane, context, "?latest=incomplete") is None
    asked = await plane.send("ask", message={"contextId": context})
    found = await infos(plane, context, "?latest=incomplete")
    assert (found["taskId"], found["state"], found["paused"]) == (asked["id"], "working", True)
    assert "completedAt" not in found
    assert found["changes"][-1]["paused"] is True
    running = await plane.send("slow 300", message={"contextId": context}, returnImmediately=True)
    found = await infos(plane, context, "?latest=incomplete")
    assert (found["taskId"], "paused" in found) == (running["id"], False)
    await plane.result("CancelTask", {"id": running["id"]})
    assert (await infos(plane, context, "?latest=incomplete"))["taskId"] == asked["id"]
    latest = await infos(plane, context, "?latest=any")
    assert (latest["taskId"], latest["state"]) == (running["id"], "cancelled")
    await plane.send("Ann", message={"taskId": asked["id"]})
    assert await infos(plane, context, "?latest=incomplete") is None
    assert [info["state"] for info in await infos(plane, context)] == ["completed", "completed", "cancelled"]


async def test_a_client_reconnects_to_the_latest_incomplete_task(tmp_path: Path) -> None:
    """M5, M9: the task has continued. The next message makes another task."""
    context, agent = fresh(), Stepped()
    async with open_all(tmp_path, ("a", agent)) as plane:
        task = await plane.send("go", message={"contextId": context}, returnImmediately=True)
        found = await infos(plane, context, "?latest=incomplete")
        assert found["taskId"] == task["id"]
        async with asyncio.timeout(20), plane.stream("SubscribeToTask", {"id": found["taskId"]}) as events:
            await anext(events)
            agent.end()
            rest = [event async for event in events]
        assert rest[-1].result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        await say(plane, SEND, context, "B")
        assert [info["state"] for info in await infos(plane, context)] == ["completed", "completed"]


async def test_a_late_state_does_not_reopen_an_ended_task(plane: Plane) -> None:
    """M4: a cancel and a document with a state are refused."""
    context = fresh()
    task = await plane.send("slow 300", message={"contextId": context}, returnImmediately=True)
    await plane.result("CancelTask", {"id": task["id"]})
    assert (await plane.error("CancelTask", {"id": task["id"]}))["code"] == -32002
    late = {"id": task["id"], "contextId": context, "status": {"state": "working"}}
    assert (await plane.http.post("/api/tasks", json=late)).status_code == 409
    (info,) = await infos(plane, context)
    assert [change["state"] for change in info["changes"]][-1] == info["state"] == "cancelled"


async def test_a_session_without_tasks_has_an_empty_list(plane: Plane) -> None:
    """M6, M3: for example one with events only."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "old"})).json()["data"]["id"]
    path = f"/api/sessions/{context}"
    events = ["not json", "[1, 2]", "{}", '{"content": {"parts": [{"text": "hi"}]}}', '{"actions": "none"}']
    for number, text in enumerate(events):
        reply = await plane.http.post(f"{path}/events", json={"id": f"{context}-{number}", "data": text})
        assert reply.status_code == 201
    body = (await plane.http.get(f"{path}/task-infos")).json()
    assert (body["error"], body["data"]) == (False, [])
    assert await infos(plane, context, "?latest=incomplete") is None
    assert await data(plane, f"{path}/tasks") is None
    assert await data(plane, f"{path}/messages") == {"messages": [], "before": None}
    history = await data(plane, f"{path}/effective_history")
    assert (history["messages"], [event["data"] for event in history["events"]]) == ([], events)
    assert (await data(plane, f"{path}/state"))["state"] == {}
    stats = await data(plane, f"{path}/stats")
    assert stats == {
        "total": 0,
        "byState": {},
        "errorRate": 0.0,
        "durationSeconds": None,
        "timeInStateSeconds": {},
    }
    listed = await data(plane, "/api/sessions?q=&limit=1000")
    (row,) = [one for one in listed if one["id"] == context]
    assert (row["lastState"], row["taskCounts"], row["taskCount"]) == (None, {}, 0)


async def test_tasks_with_missing_fields_are_listed(plane: Plane) -> None:
    """M6: without a history, without times, with messages without a turn or an id."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "old"})).json()["data"]["id"]
    bare = await document(plane, context)
    message = {"role": "agent", "parts": [{"kind": "text", "text": "hi"}]}
    await document(plane, context, history=[message, {**message, "messageId": "m"}], status={"state": "error"})
    first, second = await infos(plane, context)
    assert (first["taskId"], first["state"], second["state"]) == (bare["id"], "completed", "failed")
    assert [change["state"] for change in second["changes"]] == ["failed"]
    assert len((await data(plane, f"/api/sessions/{context}/messages"))["messages"]) == 2
    assert (await data(plane, f"/api/sessions/{context}/stats"))["byState"] == {"completed": 1, "failed": 1}
    await say(plane, SEND, context, "A")
    assert len(await infos(plane, context)) == 3


async def test_the_statistics_of_a_session_exclude_superseded_tasks(plane: Plane) -> None:
    """M7: number of tasks by state, error rate of the ended tasks, and durations."""
    context = fresh()
    for text in ("A", "fail", "B", "reject"):
        await plane.send(text, message={"contextId": context})
    await plane.send("ask", message={"contextId": context})
    stats = await data(plane, f"/api/sessions/{context}/stats")
    assert set(stats) == {"total", "byState", "errorRate", "durationSeconds", "timeInStateSeconds"}
    assert (stats["total"], stats["errorRate"]) == (5, 0.5)
    assert stats["byState"] == {"completed": 2, "failed": 2, "working": 1}
    durations = stats["durationSeconds"]
    assert 0 <= durations["min"] <= durations["median"] <= durations["p95"] <= durations["max"] < 60
    assert set(stats["timeInStateSeconds"]) <= {"pending", "working", "paused"}
    assert stats["timeInStateSeconds"]["working"] >= 0
    await rewind(plane, SEND, context, await invocation(plane, context, "fail"))
    stats = await data(plane, f"/api/sessions/{context}/stats")
    assert (stats["total"], stats["byState"], stats["errorRate"]) == (1, {"completed": 1}, 0.0)


async def test_an_unchanged_list_is_answered_with_304(plane: Plane) -> None:
    """M5: polling clients get an answer without a body."""
    context = fresh()
    await say(plane, SEND, context, "A")
    path = f"/api/sessions/{context}/task-infos"
    tag = (await plane.http.get(path)).headers["etag"]
    again = await plane.http.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    await say(plane, SEND, context, "B")
    again = await plane.http.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, len(again.json()["data"])) == (200, 2)


@pytest.mark.parametrize("query", ["latest=complete", "latest=1", "include=all", "limit=٣", "limit=1_0", "limit=+1"])
async def test_an_invalid_query_is_refused_with_400(plane: Plane, query: str) -> None:
    context = fresh()
    await say(plane, SEND, context, "A")
    reply = await plane.http.get(f"/api/sessions/{context}/task-infos?{query}")
    assert (reply.status_code, list(reply.json()["fields"])) == (400, [query.partition("=")[0]])


@pytest.mark.parametrize("route", ["task-infos", "stats", "watch", "effective_history", "state", "tasks", "messages"])
async def test_a_foreign_session_is_404_like_an_unknown_one(plane: Plane, route: str) -> None:
    """S6."""
    context = fresh()
    await plane.result("SendMessage", {"message": said("A", contextId=context)}, x_user_id="ann")
    mine = {"X-User-Id": "ann"}
    if route != "watch":
        assert (await plane.http.get(f"/api/sessions/{context}/{route}", headers=mine)).status_code == 200
    for path in (context, "none"):
        reply = await plane.http.get(f"/api/sessions/{path}/{route}")
        assert (reply.status_code, reply.json()["code"]) == (404, "SESSION_NOT_FOUND")
