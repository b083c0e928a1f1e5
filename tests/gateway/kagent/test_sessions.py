"""Sessions under /api, as kagent's clients use them."""

import json
from typing import Any

import pytest
from tests.gateway.plane import Plane, fresh, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def created(plane: Plane, user: str, **fields: Any) -> Any:
    reply = await plane.http.post("/api/sessions", json={"agent_ref": "kagent/my-agent", **fields}, headers=named(user))
    assert reply.status_code == 201, reply.text
    body = reply.json()
    assert (body["error"], body["message"]) == (False, "Successfully created session")
    return body["data"]


def named(user: str) -> dict[str, str]:
    return {"X-User-Id": user}


async def test_a_session_is_created_listed_read_renamed_and_deleted(plane: Plane) -> None:
    """S1, S3, S4: the answers have kagent's envelope, fields and agent id. The session changed last is listed first."""
    user = fresh()
    assert (await plane.http.get("/api/sessions", headers=named(user))).json() == {
        "error": False,
        "message": "Successfully listed sessions",
    }
    first = await created(plane, user, name="First", source="test")
    assert set(first) == {"id", "name", "user_id", "created_at", "updated_at", "agent_id", "source"}
    assert (first["name"], first["user_id"], first["source"]) == ("First", user, "test")
    assert first["agent_id"] == "kagent__NS__my_agent"
    assert first["created_at"].endswith("Z")
    second = await created(plane, user, id=fresh())
    listed = (await plane.http.get("/api/sessions", headers=named(user))).json()["data"]
    assert [one["id"] for one in listed] == [second["id"], first["id"]]
    path = f"/api/sessions/{first['id']}"
    for method in ("PUT", "PATCH"):
        reply = await plane.http.request(method, path, json={"name": method}, headers=named(user))
        assert reply.json()["data"]["name"] == method
    reply = await plane.http.put(path, json={"agent_ref": "other"}, headers=named(user))
    assert (reply.json()["data"]["agent_id"], reply.json()["data"]["name"]) == ("other", "PATCH")
    listed = (await plane.http.get(f"/api/sessions?user_id={user}")).json()["data"]
    assert [(one["id"], one["name"]) for one in listed] == [(first["id"], "PATCH"), (second["id"], "")]
    deleted = await plane.http.delete(path, headers=named(user))
    assert (deleted.status_code, deleted.json()["data"]) == (200, {})
    for method in ("GET", "DELETE"):
        assert (await plane.http.request(method, path, headers=named(user))).status_code == 404


async def test_two_users_may_use_the_same_session_id(plane: Plane) -> None:
    """S4: a second creation by the same user updates the session of that user only."""
    ann, bob = fresh(), fresh()
    one = await created(plane, ann, id=fresh(), name="Ann's")
    again = await created(plane, ann, id=one["id"], name="Renamed")
    assert (again["id"], again["name"], again["created_at"]) == (one["id"], "Renamed", one["created_at"])
    await created(plane, bob, id=one["id"], name="Bob's")
    read = await plane.http.get(f"/api/sessions/{one['id']}", headers=named(ann))
    assert read.json()["data"]["session"]["name"] == "Renamed"


@pytest.mark.parametrize(
    ("method", "body", "field"),
    [
        ("POST", {}, "agent_ref"),
        ("POST", {"agent_ref": 5}, "agent_ref"),
        ("POST", {"agent_ref": "a", "name": []}, "name"),
        ("PUT", {}, "name"),
        ("PUT", {"agent_ref": ""}, "agent_ref"),
    ],
)
async def test_a_missing_or_invalid_field_is_refused_with_400_and_its_name(
    plane: Plane, method: str, body: Any, field: str
) -> None:
    """S4: missing fields, wrong types, and an empty agent."""
    one = await created(plane, "local")
    path = "/api/sessions" if method == "POST" else f"/api/sessions/{one['id']}"
    reply = await plane.http.request(method, path, json=body)
    assert reply.status_code == 400
    assert list(reply.json()["fields"]) == [field]


async def test_events_of_a_runtime_are_stored_unchanged(plane: Plane) -> None:
    """S5: they are listed by order and limit. A second event with the same id is refused."""
    one = await created(plane, "local")
    path = f"/api/sessions/{one['id']}"
    for number in range(4):
        text = json.dumps({"invocationId": "i", "n": number}, indent=1)
        reply = await plane.http.post(f"{path}/events", json={"id": f"{one['id']}-{number}", "data": text})
        assert reply.status_code == 201
        event = reply.json()["data"]
        assert set(event) == {"id", "session_id", "user_id", "created_at", "updated_at", "data"}
        assert (event["session_id"], event["user_id"], event["data"]) == (one["id"], "local", text)

    async def numbers(query: str) -> list[int]:
        found = (await plane.http.get(f"{path}?{query}")).json()["data"]
        assert found["session"]["id"] == one["id"]
        return [json.loads(event["data"])["n"] for event in found["events"]]

    assert await numbers("order=asc") == [0, 1, 2, 3]
    assert await numbers("order=asc&limit=-1") == [0, 1, 2, 3]
    assert await numbers("order=desc&limit=3") == [3, 2, 1]
    assert await numbers("") == [3, 2, 1, 0]
    again = await plane.http.post(f"{path}/events", json={"id": f"{one['id']}-0", "data": "{}"})
    assert (again.status_code, again.json()["code"]) == (409, "EVENT_EXISTS")
    assert await numbers("order=asc&limit=1") == [0]
    stored = (await plane.http.get(f"{path}?order=asc")).json()["data"]["events"]
    assert await numbers(f"order=asc&after={stored[1]['created_at']}") == [2, 3]
    assert await numbers(f"after={stored[0]['created_at']}&limit=2") == [3, 2]
    for query in ("order=up", "limit=x", "after=yesterday"):
        assert (await plane.http.get(f"{path}?{query}")).status_code == 400


async def test_an_invalid_event_is_refused(plane: Plane) -> None:
    """S5, S2: `X-Agent-Name` names the calling runtime. Another agent gets 403, an unknown session 404."""
    one = await created(plane, "local")
    path = f"/api/sessions/{one['id']}/events"

    async def status(path: str, body: Any, agent: str = "") -> int:
        return (await plane.http.post(path, json=body, headers={"X-Agent-Name": agent})).status_code

    assert await status(path, {"id": fresh(), "data": "{}"}, "kagent/my-agent") == 201
    assert await status(path, {"id": fresh(), "data": "{}"}, "kagent__NS__my_agent") == 201
    assert await status(path, {"id": fresh(), "data": "{}"}, "kagent/other") == 403
    assert await status("/api/sessions/none/events", {"id": fresh(), "data": "{}"}) == 404
    assert await status(path, {"data": "{}"}) == 400
    assert await status(path, {"id": fresh()}) == 400


async def test_an_empty_session_has_an_empty_list_of_events(plane: Plane) -> None:
    one = await created(plane, "local")
    assert (await plane.http.get(f"/api/sessions/{one['id']}")).json()["data"]["events"] == []


@pytest.mark.parametrize("text", ["hello there, what can you do?", "message hello there"])
@pytest.mark.parametrize("named_context", [False, True])
async def test_a_first_message_creates_and_titles_its_session(plane: Plane, text: str, named_context: bool) -> None:
    """S7, S2: this holds with and without a contextId, and for direct answers and tasks."""
    user, given = fresh(), {"contextId": fresh()} if named_context else {}
    params = {"message": said(text, **given)}
    answer = await plane.result("SendMessage", params, x_user_id=user)
    context = (answer.get("task") or answer["message"])["contextId"]
    assert context == given.get("contextId", context)
    path = f"/api/sessions/{context}"
    found = (await plane.http.get(path, headers=named(user))).json()["data"]["session"]
    assert (found["id"], found["name"], found["user_id"], found["agent_id"]) == (context, text, user, "demo")
    assert (await plane.http.get(path)).status_code == 404
    # A further message changes nothing. The title of a long first message has its first words.
    await plane.result("SendMessage", {"message": said("and now?", contextId=context)}, x_user_id=user)
    listed = (await plane.http.get("/api/sessions", headers=named(user))).json()["data"]
    assert [(one["id"], one["name"]) for one in listed] == [(context, text)]
    long = await plane.result("message/send", {"message": said_0_3(f"{text} " * 20)}, x_user_id=user)
    newest = (await plane.http.get("/api/sessions", headers=named(user))).json()["data"][0]
    assert newest["id"] == long["contextId"]
    assert f"{text} {text} {text}".startswith(newest["name"])
    assert 40 < len(newest["name"]) <= 60


async def test_deleting_a_session_deletes_its_tasks_and_ends_their_streams(plane: Plane) -> None:
    task = await plane.send("slow 200", returnImmediately=True)
    path, log = f"/api/sessions/{task['contextId']}", f"/api/tasks/{task['id']}/events"
    async with (
        plane.stream("SubscribeToTask", {"id": task["id"]}) as events,
        plane.stream("tasks/resubscribe", {"id": task["id"]}, A2A_Version="0.3") as older,
        plane.http.stream("GET", log) as raw,
    ):
        for stream in (events, older):
            await anext(stream)
        lines = raw.aiter_lines()
        await anext(lines)
        assert (await plane.http.delete(path)).status_code == 200
        last = [[event async for event in stream][-1].result for stream in (events, older)]
        rest = [line async for line in lines]
    assert last[0]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert (last[1]["status"]["state"], last[1]["final"]) == ("canceled", True)
    assert "event: error" not in rest
    assert (await plane.http.get(f"/api/tasks/{task['id']}")).status_code == 404
    assert (await plane.http.get(path)).status_code == 404
