"""Log lines about the tasks of a session."""

import asyncio
import logging

import pytest
from tests.gateway.plane import Plane, fresh
from tests.gateway.sessions.test_watch import ended, watching

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_log_lines_name_the_action_the_session_and_the_task(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """M8: created, resubscribed to, and the changes that watchers get."""
    caplog.set_level(logging.DEBUG, "taskplane.gateway")
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    async with watching(plane, context) as stream:
        await anext(stream)
        task = await plane.send("ask", message={"contextId": context})
        async with asyncio.timeout(20), plane.stream("SubscribeToTask", {"id": task["id"]}) as events:
            first = await anext(events)
            await plane.send("Ann", message={"taskId": task["id"]})
            async for _ in events:
                pass
        await plane.streamed("SubscribeToTask", {"id": task["id"]}, last_event_id=first.id)
        await ended(stream, task["id"])
    lines = [record.getMessage() for record in caplog.records if task["id"] in record.getMessage()]
    where = f"task {task['id']} of session {context}"
    assert f"created {where}" in lines
    assert f"resubscribed to {where}" in lines
    assert f"resubscribed to {where} after {first.id}" in lines
    assert any(line.startswith(f"added {where}: state ") for line in lines)
    assert f"updated {where}: state completed" in lines


async def test_a_lookup_without_a_result_is_not_logged_at_info(plane: Plane, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "taskplane.gateway")
    for path in (
        f"/api/tasks/{fresh()}",
        f"/api/sessions/{fresh()}",
        "/agents/none/.well-known/agent-card.json",
        "/none",
    ):
        assert (await plane.http.get(path)).status_code == 404
    assert (await plane.rpc("GetTask", {"id": fresh()}))["error"]["code"] == -32001
    assert [record.getMessage() for record in caplog.records if record.name.startswith("taskplane.gateway")] == []
