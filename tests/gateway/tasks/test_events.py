"""The raw log of a task as server-sent events."""

import asyncio
from typing import Any

import pytest
from tests.gateway.plane import Event, Plane, events, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def log(plane: Plane, task_id: str, *, query: str = "", cursor: str = "") -> list[Event]:
    """Return all events of the log of an ended task."""
    headers = {"Last-Event-ID": cursor} if cursor else {}
    async with asyncio.timeout(10):
        async with plane.http.stream("GET", f"/api/tasks/{task_id}/events{query}", headers=headers) as reply:
            assert reply.status_code == 200
            return [event async for event in events(reply)]


async def test_the_log_begins_at_generation_1_and_has_actors_times_and_kinds(plane: Plane) -> None:
    """C1: generations are numbered from 1 without a gap."""
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


async def test_the_log_has_events_for_messages_that_streams_omit(plane: Plane) -> None:
    paused = await plane.send("ask")
    await plane.send("Ann", message={"taskId": paused["id"]})
    kinds = [event.data["kind"] for event in await log(plane, paused["id"])]
    assert kinds[0] == "created"
    assert "message" in kinds


async def test_the_log_continues_after_any_cursor_and_is_204_at_the_end(plane: Plane) -> None:
    """C3, C5, P12: browsers reconnect until they get 204."""
    task = await plane.send("chunks 3 4")
    found = await log(plane, task["id"])
    for index, event in enumerate(found[:-1]):
        assert await log(plane, task["id"], cursor=event.id) == found[index + 1 :]
        assert await log(plane, task["id"], query=f"?after={event.id}") == found[index + 1 :]
    over = await plane.http.get(f"/api/tasks/{task['id']}/events", headers={"Last-Event-ID": found[-1].id})
    assert (over.status_code, over.content) == (204, b"")


async def test_a_reader_at_the_end_of_the_log_does_not_wait_for_readers_from_the_start(plane: Plane) -> None:
    """C13: the next event is sent while another reader is paced."""
    paused = await plane.send("ask")
    path = f"/api/tasks/{paused['id']}/events"
    cursor = paused["metadata"]["taskplane.dev/cursor"]
    async with asyncio.timeout(20), plane.http.stream("GET", path, headers={"Last-Event-ID": cursor}) as end:
        new = events(end)
        async with plane.behind.services.pacer.piece():
            reading = asyncio.ensure_future(log(plane, paused["id"]))
            await plane.send("Ann", message={"taskId": paused["id"]})
            assert (await anext(new)).data["kind"] == "message"
            assert not reading.done()
        assert [event.data["generation"] for event in await reading][:2] == [1, 2]


async def test_a_foreign_cursor_gets_a_snapshot_with_the_reason(plane: Plane) -> None:
    """C4."""
    task = await plane.send("hello")
    (one,) = await log(plane, task["id"], cursor="aaaa-1")
    assert one.data["kind"] == "snapshot"
    assert one.data["event"]["task"]["metadata"] == {"taskplane.dev/resync": "CURSOR_FOREIGN"}
    assert one.data["generation"] == int(one.id.rpartition("-")[2])


@pytest.mark.parametrize(("path", "cursor", "status"), [("none", "", 404), ("", "bad", 400)])
async def test_an_unknown_task_is_404_and_a_malformed_cursor_400(
    plane: Plane, path: str, cursor: str, status: int
) -> None:
    task = await plane.send("hello")
    reply = await plane.http.get(f"/api/tasks/{path or task['id']}/events", headers={"Last-Event-ID": cursor})
    assert reply.status_code == status
    assert reply.json()["error"]


async def test_the_log_of_a_running_task_is_streamed_to_its_end(plane: Plane) -> None:
    task = await plane.send("slow 3", returnImmediately=True)
    found = await log(plane, task["id"])
    assert found[-1].data["event"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_log_of_a_document_has_its_content_in_the_last_event_only(plane: Plane) -> None:
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
