"""Ids of tasks in paths, and paths that are none."""

from collections.abc import AsyncGenerator
from urllib.parse import quote

import pytest
import pytest_asyncio
from tests.gateway.bindings import Client
from tests.gateway.plane import Plane, fresh, open_all, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

IDS = ["a:cancel", "a:subscribe", "a/b c", "\u00e9\u4e2d", "100%25", "a?b#c&d=e", "/tasks"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """A gateway whose clients choose the ids of their tasks."""
    async with open_all(tmp_path_factory.mktemp("plane"), client_task_ids="create") as plane:
        yield plane


@pytest.mark.parametrize("name", IDS)
async def test_an_id_may_look_like_a_part_of_a_path(client: Client, name: str) -> None:
    """a2a D2, K5: over REST it is percent-encoded."""
    task_id = f"{fresh()}{name}"
    task = await client.plane.send_0_3("ask", message={"taskId": task_id}, blocking=True)
    assert task["id"] == task_id
    assert (await client.result("GetTask", {"id": task_id}))["id"] == task_id
    async with client.stream("SubscribeToTask", {"id": task_id}) as events:
        assert (await anext(events)).result["task"]["id"] == task_id
        canceled = await client.result("CancelTask", {"id": task_id})
    assert (canceled["id"], canceled["status"]["state"]) == (task_id, "TASK_STATE_CANCELED")
    assert (await client.error("CancelTask", {"id": f"{task_id}:cancel"})).code == -32001


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE"])
async def test_the_path_that_the_proto_of_0_3_misspells_is_not_served(plane: Plane, verb: str) -> None:
    """a2a A8."""
    task = await plane.result("message/send", {"message": said_0_3("ask")})
    for path in (f"/v1/task/{quote(task['id'])}/pushNotificationConfigs", f"/v1/task/{quote(task['id'])}"):
        assert (await plane.http.request(verb, path)).status_code == 404
