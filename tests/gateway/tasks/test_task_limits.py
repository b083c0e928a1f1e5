"""A task at its size limit, over HTTP: it ends with the reason, and every route with it works."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.plane import Json, Plane, fresh, open_all

pytestmark = pytest.mark.asyncio(loop_scope="module")

MEGABYTE = 1024 * 1024


async def sizes(plane: Plane, *paths: str) -> list[tuple[int, int]]:
    """Return the status and the size of each answer."""
    found: list[tuple[int, int]] = []
    for path in paths:
        size = 0
        async with plane.http.stream("GET", path) as reply:
            async for part in reply.aiter_bytes():
                size += len(part)
        found.append((reply.status_code, size))
    return found


@pytest.mark.more
async def test_a_task_at_its_size_limit_fails_with_the_reason_and_can_be_read(tmp_path: Path) -> None:
    """L1: on every route."""
    async with open_all(tmp_path) as plane:
        context = fresh()
        parts = [{"kind": "text", "text": f"chunks 66 {MEGABYTE}"}]
        message: Json = {"kind": "message", "messageId": fresh(), "role": "user", "contextId": context, "parts": parts}
        params: Json = {"message": message, "configuration": {"blocking": True, "historyLength": 0}}
        task: dict[str, Any] = await plane.result("message/send", params)
        said = task["status"]["message"]
        assert (task["status"]["state"], said["metadata"]["reason"]) == ("failed", "TASK_TOO_LARGE")
        assert "the limit of 64 MiB" in said["parts"][0]["text"]
        (info,) = (await plane.http.get(f"/api/sessions/{context}/task-infos")).json()["data"]
        assert (info["taskId"], info["error"]) == (task["id"], said["parts"][0]["text"])
        path, session = f"/api/tasks/{task['id']}", f"/api/sessions/{context}"
        whole = [path, f"{path}/artifacts", f"{path}/artifacts/chunks", f"{path}/events", f"{session}/tasks"]
        whole += [f"{session}/export"]
        for status, size in await sizes(plane, *whole):
            assert status == 200 and size > 60 * MEGABYTE
        short = [f"{path}/messages", f"{session}/messages", f"{session}/effective_history"]
        assert [status for status, _ in await sizes(plane, *short)] == [200] * 3
        for method in ("tasks/get", "GetTask"):
            assert (await plane.result(method, {"id": task["id"]}))["id"] == task["id"]
        listed = await plane.result("ListTasks", {"contextId": context, "includeArtifacts": True})
        assert [one["id"] for one in listed["tasks"]] == [task["id"]]
