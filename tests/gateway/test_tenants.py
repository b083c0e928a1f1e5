"""Tenants that requests of A2A 1.0 name: an agent, or the caller's own, in every place that a binding has for them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import grpc
import pytest
import pytest_asyncio
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from tests.executor.scripted import Scripted
from tests.gateway.bindings import Client, Framed, Grpc, HttpBinding, JsonRpc, Rest
from tests.gateway.plane import Json, Plane, fresh, open_all, open_behind, open_front, said

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.agents.demo import Demo

NO_TASK: Final = -32001
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Below(Rest):
    """REST with the tenant in the path, below the base of an agent or none. Query or body name another tenant."""

    name: str = "rest-path"
    base: str = ""

    def frame(self, operation: str, params: Json) -> Framed:
        tenant = params.get("tenant", "")
        if not tenant:
            return super().frame(operation, params)
        found = super().frame(operation, {**params, "tenant": "somebody"})
        return replace(found, path=f"{self.base}/{quote(tenant, safe='')}{found.path}")


@dataclass(frozen=True)
class InQuery(Rest):
    """REST with the tenant in the query, whatever the method."""

    name: str = "rest-query"

    def frame(self, operation: str, params: Json) -> Framed:
        found = super().frame(operation, {name: value for name, value in params.items() if name != "tenant"})
        tenant = urlencode(of(params.get("tenant", "")))
        return replace(found, path=f"{found.path}{'&' if '?' in found.path else '?'}{tenant}")


@dataclass(frozen=True)
class AtAgent(JsonRpc):
    """JSON-RPC at the path of an agent."""

    base: str = ""

    def frame(self, operation: str, params: Json) -> Framed:
        return replace(super().frame(operation, params), path=self.base)


PLACES: Final[tuple[HttpBinding | Grpc, ...]] = (JsonRpc(), Rest(), Below(), InQuery(), Grpc())


async def other(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("I am the other one.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """A plane with two agents, the demo and another one."""
    folder = tmp_path_factory.mktemp("both")
    async with open_all(folder, ("demo", Demo()), ("other", Scripted(other))) as plane:
        yield plane


def of(tenant: str) -> Json:
    return {"tenant": tenant} if tenant else {}


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
@pytest.mark.parametrize(
    ("tenant", "text"), [("", "hello"), ("default", "hello"), ("other", "I am the other one."), ("demo", "hello")]
)
async def test_a_tenant_selects_an_agent_or_is_that_of_the_caller(
    both: Plane, place: HttpBinding | Grpc, tenant: str, text: str
) -> None:
    """a2a H14."""
    client = Client(both, place)
    sent = await client.result("SendMessage", {"message": said("hello"), **of(tenant)})
    task = sent["task"]
    assert task["status"]["message"]["parts"] == [{"text": text}]
    assert (await client.result("GetTask", {"id": task["id"], **of(tenant)}))["id"] == task["id"]
    listed = await client.result("ListTasks", {"contextId": task["contextId"], **of(tenant)})
    assert [one["id"] for one in listed["tasks"]] == [task["id"]]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_a_tenant_of_somebody_else_looks_like_a_task_that_does_not_exist(
    both: Plane, place: HttpBinding | Grpc
) -> None:
    """a2a H14, H15: on every operation, after the version."""
    client = Client(both, place)
    task = await both.send("hello")
    for operation in ("SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"):
        sends = operation.startswith("Send")
        params = {"tenant": "elsewhere", **({"message": said("hello")} if sends else {"id": task["id"]})}
        assert (await client.error(operation, params)).code == NO_TASK, operation
        refused = await client.error(operation, params, A2A_Version="9.9")
        assert (refused.code, refused.reason) == (-32009, "VERSION_NOT_SUPPORTED"), operation


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_a_namespace_before_the_name_of_an_agent_makes_another_tenant(
    both: Plane, place: HttpBinding | Grpc
) -> None:
    """a2a H14: only a path of kagent has namespaces."""
    client = Client(both, place)
    task = await both.send("hello")
    for tenant in ("x/demo", "elsewhere/other", "default/demo"):
        for operation, params in (("GetTask", {"id": task["id"]}), ("SendMessage", {"message": said("hello")})):
            assert (await client.error(operation, {**params, "tenant": tenant})).code == NO_TASK, (operation, tenant)


@pytest.mark.parametrize("make", [Below, AtAgent])
async def test_at_the_path_of_an_agent_a_tenant_is_that_agent_or_the_callers_own(
    both: Plane, make: type[Below] | type[AtAgent]
) -> None:
    """a2a A1: the path selects the agent."""
    client = Client(both, make(base="/agents/other"))
    for tenant in ("other", "default"):
        sent = await client.result("SendMessage", {"message": said("hello"), "tenant": tenant})
        assert sent["task"]["status"]["message"]["parts"] == [{"text": "I am the other one."}]
    for tenant in ("demo", "elsewhere"):
        refused = await client.error("SendMessage", {"message": said("hello"), "tenant": tenant})
        assert refused.code == NO_TASK


async def test_kagents_path_selects_the_agent_as_well(both: Plane) -> None:
    client = Client(both, AtAgent(base="/api/a2a/ns/other"))
    for tenant in ("other", "ns/other", "default"):
        sent = await client.result("SendMessage", {"message": said("hello"), "tenant": tenant})
        assert sent["task"]["status"]["message"]["parts"] == [{"text": "I am the other one."}]


async def test_a_tenant_in_a_body_has_priority_over_one_in_the_query(both: Plane) -> None:
    """a2a H14."""
    body: Json = {"message": said("hello"), "tenant": "other"}
    for tenant, text in (("other", "I am the other one."), ("", "hello"), (None, "hello")):
        reply = await both.http.post("/message:send?tenant=demo", json={**body, "tenant": tenant})
        assert reply.json()["task"]["status"]["message"]["parts"] == [{"text": text}]
    refused = await both.http.post("/message:send?tenant=demo", json={**body, "tenant": 0})
    assert (refused.status_code, "tenant must be a string" in refused.text) == (400, True)


async def test_a_tenant_that_is_no_text_is_refused_and_0_3_has_none(both: Plane) -> None:
    """a2a H14, B5."""
    for place in (JsonRpc(), Rest()):
        refused = await Client(both, place).error("SendMessage", {"message": said("hello"), "tenant": 5})
        assert (refused.code, list(refused.fields)) == (-32602, ["tenant"])
    task = await both.send_0_3("hello")
    assert (await both.result("tasks/get", {"id": task["id"], "tenant": "elsewhere"}))["id"] == task["id"]
    body = {"message": {"messageId": "m", "role": "user", "content": [{"text": "message hi"}]}, "tenant": "elsewhere"}
    assert (await both.http.post("/v1/message:send", json=body)).status_code == 200


@pytest.mark.parametrize("transport", ["HTTP+JSON", "JSONRPC"])
async def test_the_official_client_copies_the_tenant_of_an_interface_into_its_requests(
    both: Plane, transport: str
) -> None:
    """a2a A1, K8, K17: over REST into the path and into the body, over JSON-RPC into the params."""
    url = both.gateway.url
    card = AgentCard(name="other", version="1", capabilities={"streaming": True})
    interface = AgentInterface(url=url, protocol_binding=transport, protocol_version="1.0", tenant="other")
    card.supported_interfaces.append(interface)
    client = ClientFactory(ClientConfig(httpx_client=both.http, supported_protocol_bindings=[transport])).create(card)
    message = Message(message_id=fresh(), role=Role.ROLE_USER, parts=[Part(text="hello")])
    async with asyncio.timeout(20):
        found = [one async for one in client.send_message(SendMessageRequest(message=message))]
    assert found[-1].status_update.status.message.parts[0].text == "I am the other one."
    task = found[0].task
    assert (await client.get_task(GetTaskRequest(id=task.id))).id == task.id
    assert [one.id for one in (await client.list_tasks(ListTasksRequest(context_id=task.context_id))).tasks] == [
        task.id
    ]
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task.id))
    with pytest.raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id=task.id, tenant="elsewhere"))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_a_read_with_the_callers_own_tenant_needs_no_executor(tmp_path: Path, place: HttpBinding | Grpc) -> None:
    """a2a H14: a gateway that has never reached an executor knows no agent."""
    async with open_behind(tmp_path) as behind, grpc.aio.insecure_channel("127.0.0.1:1") as nowhere:
        async with open_front(behind) as plane:
            task = await plane.send("hello")
        async with open_front(behind, runs=nowhere) as plane:
            client = Client(plane, place)
            assert (await client.result("GetTask", {"id": task["id"], "tenant": "default"}))["id"] == task["id"]
            listed = await client.result("ListTasks", {"contextId": task["contextId"], "tenant": "default"})
            assert [one["id"] for one in listed["tasks"]] == [task["id"]]
