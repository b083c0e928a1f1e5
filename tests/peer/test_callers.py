"""Callers and extensions, which the SDK's server confuses or ignores."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from a2a.server.events import InMemoryQueueManager
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCard
from bench.peer import Workloads
from tests.gateway.auth.badge import Badges
from tests.gateway.plane import open_all, open_behind, open_front
from tests.peer.peers import Asking
from tests.support.sdk_server import sdk_server
from tests.system.wire import Json, call, client, result, send, text_message

from taskplane.gateway.auth.authenticator import SCHEMES

SECRET = "s3cret"
TENANTS = ("here", "elsewhere")


def keys(folder: Path) -> Path:
    """A file with a key of ann for each tenant."""
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    lines = [f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\nowner = "ann"\ntenant = "{name}"\n' for name in TENANTS]
    path = folder / "keys.toml"
    path.write_text("".join(lines))
    return path


def operations(task_id: str) -> list[tuple[str, Json]]:
    """Every operation on a task by its id."""
    message = {"message": text_message("blue", taskId=task_id)}
    return [
        ("GetTask", {"id": task_id}),
        ("CancelTask", {"id": task_id}),
        ("SubscribeToTask", {"id": task_id}),
        ("SendMessage", message),
        ("SendStreamingMessage", message),
    ]


async def answers(http: Any, task_id: str) -> list[tuple[int, str]]:
    """The errors of all operations on a task, without its id."""
    found: list[tuple[int, str]] = []
    for method, params in operations(task_id):
        error = (await call(http, method, params))["error"]
        found.append((error["code"], str(error["message"]).replace(task_id, "ID")))
    return found


async def test_w18_equal_names_in_two_tenants_are_two_users_and_nobody_is_refused(tmp_path: Path) -> None:
    """W18: a task of the other tenant is as one that does not exist, and callers without a key get nothing. There
    whoever is not signed in is one user, whatever tenant a request names."""
    async with open_all(tmp_path, api_keys=str(keys(tmp_path))) as plane:
        here, there = (client(plane.gateway.url, Authorization=f"Bearer {name}.{SECRET}") for name in TENANTS)
        async with here, there, client(plane.gateway.url) as nobody:
            task = (await send(here, "ask"))["task"]
            found = await answers(there, task["id"])
            assert found == await answers(there, "unknown") and {code for code, _ in found} == {-32001}
            assert (await result(there, "ListTasks", {}))["tasks"] == []
            assert (await result(here, "GetTask", {"id": task["id"]}))["status"] == task["status"]
            for method, params in operations(task["id"]):
                assert (
                    "error"
                    in (
                        await nobody.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                    ).json()
                )
    async with sdk_server(Asking()) as peer, client(peer.url) as one, client(peer.url) as other:
        task = (await result(one, "SendMessage", {"message": text_message("ask"), "tenant": "here"}))["task"]
        found_there = await result(other, "GetTask", {"id": task["id"], "tenant": "elsewhere"})
        assert found_there["id"] == task["id"]


async def test_w15_a_configured_extension_is_used(tmp_path: Path) -> None:
    """W15: a scheme of an operator decides who calls. There a queue manager is taken, and only a warning says that it
    is never used."""
    badges = Badges({"b1": "carl"})
    async with open_behind(tmp_path) as behind, open_front(behind, schemes=(*SCHEMES, badges.configured)) as plane:
        found = [await plane.http.get("/api/sessions", headers={"X-Badge": badge}) for badge in ("b1", "b2")]
        assert [reply.status_code for reply in found] == [200, 401]
    used: list[str] = []

    class Recording(InMemoryQueueManager):
        def __getattribute__(self, name: str) -> Any:
            used.append(name)
            return super().__getattribute__(name)

    with pytest.warns(DeprecationWarning, match="it is not used"):
        DefaultRequestHandler(
            agent_executor=Workloads(),
            task_store=InMemoryTaskStore(),
            agent_card=AgentCard(name="far", description="Far.", version="1"),
            queue_manager=Recording(),
        )
    assert used == []
