"""The extended card of an agent, over each binding of each version."""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncGenerator
from itertools import product
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio
from a2a.client import A2ACardResolver, ClientFactory
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.gateway.bindings import BINDINGS, HTTP_BINDINGS, Client
from tests.gateway.card_schemas import closed_0_3, closed_1_0, mistakes
from tests.gateway.plane import JSON_TYPE, Behind, Json, Plane, open_all, open_behind, open_front
from tests.gateway.test_card import config_for
from tests.gateway.test_card_schemas import RICH, agent

from taskplane.agents.agent import Agent, AgentCard
from taskplane.agents.demo import Demo
from taskplane.runtime.principal import Principal
from taskplane.testing.recording import Recorder, recorded

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SECRET: Final = "s3cret"
_FAULTS: Final = ("carl", "dora", "eve", "fred")
_OWNERS: Final = ("ann", "bob", *_FAULTS)


class Extending(Demo):
    """An agent with a further card for ann, none for bob, and a fault for each other caller."""

    async def extended_card(self, caller: Principal) -> AgentCard | None:
        if caller.owner == "bob":
            return None
        if caller.owner == "carl":
            raise RuntimeError("no database")
        if caller.owner == "eve":
            sys.exit("no database")
        if caller.owner == "fred":
            raise asyncio.CancelledError
        card = AgentCard()
        card.CopyFrom(RICH)
        card.description = f"For {caller.owner} in {caller.tenant}."
        if caller.owner == "dora":
            card.provider.url = "nowhere"
        return card


class Plain(Demo):
    """An agent with the same card for everybody."""

    def extended_card(self, caller: Principal) -> AgentCard:
        return AgentCard(name="More", version="2")


def announcing() -> Agent:
    """Return an agent whose card announces a further card that it does not have."""
    card = AgentCard(name="announcing", version="1")
    card.capabilities.extended_agent_card = True
    return agent(card)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Behind, None]:
    agents = (("extending", Extending()), ("plain", Plain()), ("announcing", announcing()), ("demo", Demo()))
    async with open_behind(tmp_path_factory.mktemp("plane"), *agents) as behind:
        yield behind


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(behind: Behind, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """Open a gateway with a key for each owner."""
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    digest = hashlib.sha256(_SECRET.encode()).hexdigest()
    keys.write_text("".join(f'[[keys]]\nid = "{owner}"\nsha256 = "{digest}"\nowner = "{owner}"\n' for owner in _OWNERS))
    async with open_front(behind, api_keys=str(keys)) as plane:
        yield plane


def key(owner: str) -> dict[str, str]:
    return {"authorization": f"Bearer {owner}.{_SECRET}"}


async def by_jsonrpc(plane: Plane, method: str, base: str = "", **more: Any) -> Json:
    body = {"jsonrpc": "2.0", "id": "r", "method": method, **more}
    reply = await plane.http.post(base or "/", content=json.dumps(body), headers={**JSON_TYPE, **key("ann")})
    found: Json = reply.json()["result"]
    return found


async def by_get(plane: Plane, path: str) -> Json:
    reply = await plane.http.get(path, headers=key("ann"))
    assert reply.status_code == 200, reply.text
    found: Json = reply.json()
    return found


async def test_the_extended_card_of_1_0_is_the_same_pure_card_over_each_binding(plane: Plane) -> None:
    """a2a G11, a2a B7: the params may be missing; tenants and paths select the agent."""
    card = await by_get(plane, "/extendedAgentCard")
    assert mistakes(card, closed_1_0()) == []
    assert (card["name"], card["description"]) == ("Rich", "For ann in default.")
    assert card["capabilities"]["extendedAgentCard"] is True
    assert {one["protocolVersion"] for one in card["supportedInterfaces"]} == {"1.0"}
    assert {"bearer", "key"} <= card["securitySchemes"].keys()
    bodies: tuple[Json, ...] = ({}, {"params": {}}, {"params": {"tenant": ""}})
    for more in bodies:
        assert await by_jsonrpc(plane, "GetExtendedAgentCard", **more) == card
    stub: Any = A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
    metadata = tuple(key("ann").items())
    found = await stub.GetExtendedAgentCard(sdk.GetExtendedAgentCardRequest(), metadata=metadata)
    assert found == ParseDict(card, sdk.AgentCard())

    public = await by_get(plane, "/agents/plain/.well-known/agent-card.json")
    below = await by_get(plane, "/agents/plain/extendedAgentCard")
    assert below["name"] == "More"
    assert below["supportedInterfaces"] == [
        one for one in public["supportedInterfaces"] if one["protocolVersion"] == "1.0"
    ]
    assert await by_get(plane, "/plain/extendedAgentCard") == below
    assert await by_jsonrpc(plane, "GetExtendedAgentCard", params={"tenant": "plain"}) == below
    asked = sdk.GetExtendedAgentCardRequest(tenant="plain")
    assert MessageToDict(await stub.GetExtendedAgentCard(asked, metadata=metadata)) == below
    (first, *_) = (await by_get(plane, "/api/a2a/ns%20a/plain/extendedAgentCard"))["supportedInterfaces"]
    assert first["url"] == f"{plane.gateway.public_url}/api/a2a/ns%20a/plain/jsonrpc"


async def test_the_extended_card_of_0_3_is_its_json_and_over_grpc_its_protobuf(plane: Plane) -> None:
    """a2a G12, a2a G13: `/v1/card` is at the host root and below the base of each agent."""
    card = await by_get(plane, "/v1/card")
    assert mistakes(card, closed_0_3()) == []
    assert (card["name"], card["description"]) == ("Rich", "For ann in default.")
    assert card["supportsAuthenticatedExtendedCard"] is True
    assert await by_jsonrpc(plane, "agent/getAuthenticatedExtendedCard") == card
    assert (await by_get(plane, "/agents/plain/v1/card"))["name"] == "More"
    stub: Any = a2a_v0_3_pb2_grpc.A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
    found = await stub.GetAgentCard(a2a_v0_3_pb2.GetAgentCardRequest(), metadata=tuple(key("ann").items()))
    written = MessageToDict(found)
    for name in ("name", "description", "url", "preferredTransport", "additionalInterfaces", "protocolVersion"):
        assert written[name] == card[name]
    assert found.supports_authenticated_extended_card
    assert set(found.security_schemes) == card["securitySchemes"].keys()


async def test_the_public_card_announces_the_extended_one(plane: Plane) -> None:
    """a2a G5, a2a G12."""
    for name, announced in (("extending", True), ("plain", True), ("announcing", True), ("demo", False)):
        found = await by_get(plane, f"/agents/{name}/.well-known/agent-card.json")
        assert found["supportsAuthenticatedExtendedCard"] is announced
        assert found["capabilities"].get("extendedAgentCard", False) is announced


async def test_an_agent_without_an_extended_card_has_the_error_of_each_version(plane: Plane, tmp_path: Path) -> None:
    """a2a G11, a2a G12: not announced, it is an unsupported operation in 1.0; announced without one, -32007."""
    for binding in BINDINGS:
        client = Client(plane, binding)
        found = await client.error("GetExtendedAgentCard", {}, **key("bob"))
        assert found.code == -32007, binding.name
        for owner in _FAULTS:
            found = await client.error("GetExtendedAgentCard", {}, **key(owner))
            assert found.reason == "INVALID_AGENT_RESPONSE", (binding.name, owner)
    for name, made, in_1_0 in (("demo", Demo(), -32004), ("announcing", announcing(), -32007)):
        folder = tmp_path / name
        folder.mkdir()
        async with open_all(folder, (name, made)) as other:
            for binding in BINDINGS:
                found = await Client(other, binding).error("GetExtendedAgentCard", {})
                assert found.code == (in_1_0 if binding.version == "1.0" else -32007), (binding.name, name)


async def test_the_extended_card_needs_a_key(plane: Plane) -> None:
    """a2a G11, a2a H15."""
    for binding in HTTP_BINDINGS:
        framed = binding.frame("GetExtendedAgentCard", {})
        reply = await plane.http.request(framed.verb, framed.path, json=framed.body)
        assert (reply.status_code, "www-authenticate" in reply.headers) == (401, True), binding.name
    for stub, request in (
        (A2AServiceStub, sdk.GetExtendedAgentCardRequest()),
        (a2a_v0_3_pb2_grpc.A2AServiceStub, a2a_v0_3_pb2.GetAgentCardRequest()),
    ):
        named: Any = stub(plane.channel)
        method = named.GetExtendedAgentCard if stub is A2AServiceStub else named.GetAgentCard
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await method(request)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_official_client_reads_the_extended_card_over_each_binding(behind: Behind) -> None:
    """a2a G11, a2a G12, a2a G13, a2a K16."""
    async with open_front(behind, card_style="0.3") as plane:
        for version, binding in product(("1.0", "0.3"), ("JSONRPC", "HTTP+JSON", "GRPC")):
            resolver = A2ACardResolver(plane.http, plane.gateway.url)
            card = await resolver.get_agent_card(http_kwargs={"headers": {"A2A-Version": version}})
            client = ClientFactory(config_for(plane, binding)).create(card)
            found = await client.get_extended_agent_card(sdk.GetExtendedAgentCardRequest())
            assert found.name == "Rich", (version, binding)
            if binding == "GRPC":
                await client.close()


async def test_the_testing_kit_keeps_the_extended_card() -> None:
    made: Any = recorded(Plain(), Recorder())
    assert made.extended_card(Principal("t", "ann", "ann")).name == "More"


async def test_an_extended_card_of_another_type_is_an_error_of_the_agent(tmp_path: Path) -> None:
    class Mistaken(Demo):
        def extended_card(self, caller: Principal) -> Any:
            return {"name": "More"}

    async with open_all(tmp_path, ("mistaken", Mistaken())) as plane:
        error = await plane.error("GetExtendedAgentCard", {})
        assert (error["code"], error["data"][0]["reason"]) == (-32006, "INVALID_AGENT_RESPONSE")


async def test_a_new_extended_card_is_served_though_an_older_public_card_is_cached(tmp_path: Path) -> None:
    """a2a G11: once the public card is older than `card_age`."""
    agent: Any = Demo()
    async with open_all(tmp_path, ("demo", agent), card_age=0.0) as plane:
        assert (await plane.error("GetExtendedAgentCard", {}))["code"] == -32004
        agent.extended_card = Plain().extended_card
        assert (await plane.result("GetExtendedAgentCard", {}))["name"] == "More"
        del agent.extended_card
        assert (await plane.error("GetExtendedAgentCard", {}))["code"] == -32004
