"""The raw log of a task as server-sent events."""

import asyncio
from typing import Any

import pytest
from tests.gateway.plane import Event, Plane, events, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def log(plane: Plane, task_id: str, *, query: str = "", cursor: str = "") -> list[Event]:
    """All events of a log whose task has ended."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    async with asyncio.timeout(10):
        async with plane.http.stream("GET", f"/api/tasks/{task_id}/events{query}", headers=headers) as reply:
            assert reply.status_code == 200
            return [event async for event in events(reply)]


async def test_the_log_is_told_from_the_first_event_with_who_when_and_what(plane: Plane) -> None:
    """C1: numbered from 1 without a gap."""
    task = await plane.send("chunks 3 4")
    found = await log(plane, task["id"])
    assert [event.data["generation"] for event in found] == list(range(1, len(found) + 1))
    assert set(found[0].data) == {"generation", "time", "attempt", "actor", "kind", "event"}
    kinds = [event.data["kind"] for event in found]
    assert (kinds[0], kinds.count("artifact"), kinds[-1]) == ("created", 3, "status")
    assert found[0].data["actor"] == "local"
    assert found[-1].data["actor"].startswith("executor:")
    assert list(found[0].data["event"]) == ["task"]
    assert list(found[kinds.index("artifact")].data["event"]) == ["artifactUpdate"]
    assert found[0].data["time"].endswith("Z")


async def test_a_messages_event_is_in_the_log_even_where_streams_show_nothing(plane: Plane) -> None:
    asked = await plane.send("ask")
    await plane.send("Ann", message={"taskId": asked["id"]})
    kinds = [event.data["kind"] for event in await log(plane, asked["id"])]
    assert kinds[0] == "created"
    assert "message" in kinds


async def test_the_log_goes_on_after_any_place_and_is_over_at_the_end(plane: Plane) -> None:
    """C3, C5, P12: browsers reconnect for ever unless they are told by 204 that there is no more."""
    task = await plane.send("chunks 3 4")
    found = await log(plane, task["id"])
    for index, event in enumerate(found[:-1]):
        assert await log(plane, task["id"], cursor=event.id) == found[index + 1 :]
        assert await log(plane, task["id"], query=f"?after={event.id}") == found[index + 1 :]
    over = await plane.http.get(f"/api/tasks/{task['id']}/events", headers={"Last-Event-ID": found[-1].id})
    assert (over.status_code, over.content) == (204, b"")


async def test_what_is_new_waits_for_nobody_who_reads_from_the_beginning(plane: Plane) -> None:
    """C13: a stream that is at the end of the log is sent the next event in the midst of all other readers' turns."""
    asked = await plane.send("ask")
    path = f"/api/tasks/{asked['id']}/events"
    cursor = asked["metadata"]["taskplane.dev/cursor"]
    async with asyncio.timeout(20), plane.http.stream("GET", path, headers={"Last-Event-ID": cursor}) as end:
        new = events(end)
        async with plane.behind.services.pacer.piece():
            reading = asyncio.ensure_future(log(plane, asked["id"]))
            await plane.send("Ann", message={"taskId": asked["id"]})
            assert (await anext(new)).data["kind"] == "message"
            assert not reading.done()
        assert [event.data["generation"] for event in await reading][:2] == [1, 2]


async def test_a_place_that_cannot_be_honoured_is_a_marked_snapshot(plane: Plane) -> None:
    """C4."""
    task = await plane.send("hello")
    (one,) = await log(plane, task["id"], cursor="aaaa-1")
    assert one.data["kind"] == "snapshot"
    assert one.data["event"]["task"]["metadata"] == {"taskplane.dev/resync": "CURSOR_FOREIGN"}
    assert one.data["generation"] == int(one.id.rpartition("-")[2])


@pytest.mark.parametrize(("path", "cursor", "status"), [("none", "", 404), ("", "bad", 400)])
async def test_a_wrong_task_or_place_is_an_ordinary_error(plane: Plane, path: str, cursor: str, status: int) -> None:
    task = await plane.send("hello")
    reply = await plane.http.get(f"/api/tasks/{path or task['id']}/events", headers={"Last-Event-ID": cursor})
    assert reply.status_code == status
    assert reply.json()["error"]


async def test_a_running_task_is_followed_live(plane: Plane) -> None:
    task = await plane.send("slow 3", returnImmediately=True)
    found = await log(plane, task["id"])
    assert found[-1].data["event"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_versions_of_a_document_are_counters_and_then_the_document(plane: Plane) -> None:
    task_id, context = fresh(), fresh()

    async def put(state: str) -> Any:
        body = {"id": task_id, "contextId": context, "status": {"state": state}}
        assert (await plane.http.post("/api/tasks", json=body)).status_code == 201

    await put("working")
    await put("completed")
    found = await log(plane, task_id)
    assert [(event.data["kind"], event.data["event"] is None) for event in found] == [
        ("replaced", True),
        ("replaced", True),
        ("replaced", False),
    ]
    assert found[-1].data["event"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
