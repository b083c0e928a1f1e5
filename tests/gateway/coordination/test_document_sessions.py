"""Sessions of documents: the first document of an unknown session creates it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from tests.gateway.plane import Json, Plane, fresh, open_behind
from tests.support.ports import free_port

from taskplane.gateway.server import open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime import failpoints
from taskplane.runtime.inprocess.channel import InProcessChannel

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def _no_failpoints() -> Any:
    yield
    failpoints.configure("")


def document(context: str, *texts: str, **fields: Any) -> Json:
    history = [
        {
            "kind": "message",
            "messageId": fresh(),
            "role": "agent" if at % 2 else "user",
            "parts": [{"kind": "text", "text": text}],
        }
        for at, text in enumerate(texts)
    ]
    return {"id": fresh(), "contextId": context, "status": {"state": "completed"}, "history": history, **fields}


async def post(plane: Plane, task: Json, status: int = 201, **headers: str) -> Json:
    reply = await plane.http.post("/api/tasks", json=task, headers={k.replace("_", "-"): v for k, v in headers.items()})
    assert reply.status_code == status, reply.text
    found: Json = reply.json()
    return found


async def listed(plane: Plane, context: str, **headers: str) -> list[str]:
    reply = await plane.http.get(f"/api/sessions/{context}/tasks", headers=headers)
    assert reply.status_code == 200, reply.text
    tasks: list[Json] = reply.json().get("data") or []
    return [task["id"] for task in tasks]


async def session(plane: Plane, context: str) -> Json:
    reply = await plane.http.get(f"/api/sessions/{context}")
    assert reply.status_code == 200, reply.text
    found: Json = reply.json()["data"]["session"]
    return found


async def test_a_document_creates_its_session(plane: Plane) -> None:
    """T3, S7: the session has the agent of `X-Agent-Name` and a title from the first words of the user. A repeat and a
    further document change neither."""
    context = fresh()
    task = document(context, "What is  the answer?", "42")
    for _ in range(2):
        await post(plane, task, X_Agent_Name="kagent/deep-thought")
    assert await listed(plane, context) == [task["id"]]
    found = await session(plane, context)
    assert (found["title"], found["agent"], found["agent_id"]) == (
        "What is the answer?",
        "kagent/deep-thought",
        "kagent__NS__deep_thought",
    )
    other = document(context, "And the question?")
    await post(plane, other, X_Agent_Name="another")
    assert await session(plane, context) == {**await session(plane, context), "title": found["title"]}
    assert (await session(plane, context))["agent"] == "kagent/deep-thought"
    assert await listed(plane, context) == [task["id"], other["id"]]
    every = (await plane.http.get("/api/sessions")).json()["data"]
    assert [one["taskCount"] for one in every if one["id"] == context] == [2]


async def test_a_document_moved_to_an_unknown_session_creates_it(plane: Plane) -> None:
    """T3, S7: the document is then in the new session only."""
    context, other = fresh(), fresh()
    task = document(context, "hi")
    await post(plane, task)
    await post(plane, {**task, "contextId": other})
    assert (await listed(plane, context), await listed(plane, other)) == ([], [task["id"]])


async def test_documents_of_two_owners_with_one_context_id_are_in_two_sessions(plane: Plane) -> None:
    """S6, S7: neither owner sees the tasks of the other."""
    context = fresh()
    mine, theirs = document(context, "mine"), document(context, "theirs")
    await post(plane, mine)
    await post(plane, theirs, X_User_Id="mallory")
    assert await listed(plane, context) == [mine["id"]]
    assert await listed(plane, context, **{"X-User-Id": "mallory"}) == [theirs["id"]]


async def test_a_refused_document_creates_no_session(plane: Plane) -> None:
    """T3, T4: an id of another owner, an id of a managed task, a wrong generation, an invalid document."""
    taken, run = document(fresh(), "taken"), await plane.send("hello")
    await post(plane, taken, X_User_Id="mallory")
    context = fresh()
    for task, status, headers in (
        (document(context, id=taken["id"]), 409, {}),
        (document(context, id=run["id"]), 409, {}),
        (document(context), 409, {"If_Match": '"3"'}),
        (document(context, status={"state": "no such state"}), 400, {}),
    ):
        await post(plane, task, status, **headers)
        assert (await plane.http.get(f"/api/sessions/{context}")).status_code == 404


@pytest.mark.parametrize("place", ["document.after_session", "document.after_put"])
async def test_a_crash_while_a_document_is_stored_leaves_no_unlisted_document(plane: Plane, place: str) -> None:
    """T3, S7: the session is created before its document is stored. A repeat completes the save."""
    context = fresh()
    task = document(context, "hi", metadata={"kagent_invocation_id": f"{context}-1"})
    failpoints.configure(f"{place}=raise(INTERNAL)")
    assert (await plane.http.post("/api/tasks", json=task)).status_code == 500
    failpoints.configure("")
    stored = (await plane.http.get(f"/api/tasks/{task['id']}")).status_code == 200
    assert await listed(plane, context) == ([task["id"]] if stored else [])
    await post(plane, task)
    assert await listed(plane, context) == [task["id"]]
    rewound = await plane.http.post(f"/api/sessions/{context}/rewind", json={"before": f"{context}-1"})
    assert rewound.status_code == 200
    assert task["id"] not in await listed(plane, context)


async def test_the_next_document_creates_a_deleted_session_again(plane: Plane) -> None:
    """T3, S7: as the next message does."""
    context = fresh()
    task = document(context, "hi")
    await post(plane, task)
    assert (await plane.http.delete(f"/api/sessions/{context}")).status_code == 200
    await post(plane, task)
    assert await listed(plane, context) == [task["id"]]


@pytest_asyncio.fixture(loop_scope="module")
async def without_executor(tmp_path: Path) -> AsyncGenerator[Plane]:
    """A gateway with an unreachable executor."""
    async with open_behind(tmp_path) as behind:
        channel = InProcessChannel(behind.stores.services)

        async def ready() -> bool:
            return True

        probes = {"tasks": ready, "sessions": ready, "executor": ready}
        async with (
            grpc.aio.insecure_channel(f"127.0.0.1:{free_port()}") as unreachable,
            open_gateway(
                GatewaySettings(port=0, drain_delay=0.0, shutdown_timeout=2),
                tasks=channel,
                sessions=channel,
                executor=unreachable,
                ready=probes,
                pacer=behind.services.pacer,
            ) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=20.0, verify=False) as http,
        ):
            yield Plane(gateway, http, behind)
        await channel.close()


async def test_documents_are_stored_without_an_executor(without_executor: Plane) -> None:
    """T3, S7: nothing of it needs one."""
    plane, context = without_executor, fresh()
    for task in (document(context, "one"), document(context, "two", metadata={"kagent_invocation_id": context})):
        await post(plane, task)
        assert task["id"] in await listed(plane, context)
