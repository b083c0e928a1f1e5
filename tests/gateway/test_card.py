"""Agent cards: styles for different readers, addresses, and caching."""

from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.compat.v0_3 import types as official_0_3
from a2a.types import Message, Part, Role, SendMessageRequest
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import ParseDict
from tests.gateway.plane import Plane, fresh, open_behind, open_front

from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1.a2a_pb2 import AgentCard, AgentSkill
from taskplane.gateway.translate.cards import completed

WELL_KNOWN = "/.well-known/agent-card.json"
NEW = {"A2A-Version": "1.0"}
BASES = ("", "/agents/demo", "/api/a2a/kagent/demo")
OLD_KEYS = {"protocolVersion", "url", "preferredTransport", "additionalInterfaces", "security"}


async def card(plane: Plane, path: str = WELL_KNOWN, **headers: str) -> Any:
    reply = await plane.http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert reply.status_code == 200
    return reply.json()


async def test_each_card_style_is_parsed_by_its_clients(tmp_path: Path) -> None:
    """a2a G14, a2a G15: a client that names 1.0 gets the pure 1.0 card with every style, any other the configured
    style."""
    async with open_behind(tmp_path) as behind:
        for style in ("1.0", "0.3", "hybrid"):
            async with open_front(behind, card_style=style) as plane:
                pure = await card(plane, a2a_version="1.0.1")
                assert ParseDict(pure, official.AgentCard()).name == "demo"
                assert not OLD_KEYS & pure.keys()
                assert {one["protocolVersion"] for one in pure["supportedInterfaces"]} == {"1.0"}
                for version in ("", "0.3", "7.7"):
                    found = await card(plane, a2a_version=version)
                    if style == "1.0":
                        assert found == pure
                        continue
                    old = official_0_3.AgentCard.model_validate(found)
                    assert (old.protocol_version, old.preferred_transport) == ("0.3.0", "JSONRPC")
                    assert ("supportedInterfaces" in found) == (style == "hybrid")
                    if style == "hybrid":
                        new = ParseDict(found, official.AgentCard(), ignore_unknown_fields=True)
                        versions = [one.protocol_version for one in new.supported_interfaces]
                        assert versions == sorted(versions, reverse=True) and set(versions) == {"1.0", "0.3"}


async def test_every_agent_has_its_card_at_its_own_address_under_both_file_names(tmp_path: Path) -> None:
    """a2a G1, A2, a2a G9: the same path in both versions, and the alias of older clients."""
    async with open_behind(tmp_path) as behind, open_front(behind, public_url="https://plane.example/base/") as plane:
        for base in BASES:
            found = await card(plane, base + WELL_KNOWN)
            assert found["url"] == f"https://plane.example/base{base}/jsonrpc"
            assert found["supportedInterfaces"][0]["url"] == found["url"]
            assert await card(plane, base + "/.well-known/agent.json") == found
        assert (await plane.http.get("/agents/none" + WELL_KNOWN)).status_code == 404


async def test_a_card_names_every_binding_in_both_versions_the_newer_one_first(tmp_path: Path) -> None:
    """a2a G3, a2a G4, a2a G10: gRPC is a bare address in 1.0, where a tenant selects the agent, and a URL in 0.3."""
    async with open_behind(tmp_path, ("demo", Demo()), ("other", Demo())) as behind, open_front(behind) as plane:
        url, address = plane.gateway.public_url, plane.public.address
        for base in (*BASES, "/agents/other", "/api/a2a/kagent/other"):
            tenant = {"tenant": base.rpartition("/")[2]} if base else {}
            # gRPC of 0.3 has no tenants: it leads to the default agent.
            old: list[tuple[str, str, str, dict[str, str]]] = []
            if "other" not in base:
                old.append(("GRPC", "0.3", f"http://{address}", {}))
            expected: list[tuple[str, str, str, dict[str, str]]] = [
                ("JSONRPC", "1.0", f"{url}{base}/jsonrpc", {}),
                ("HTTP+JSON", "1.0", url + base, {}),
                ("GRPC", "1.0", address, tenant),
                ("JSONRPC", "0.3", f"{url}{base}/jsonrpc", {}),
                ("HTTP+JSON", "0.3", url + base, {}),
                *old,
            ]
            found = await card(plane, base + WELL_KNOWN)
            assert found["supportedInterfaces"] == [
                {"url": place, "protocolBinding": binding, "protocolVersion": version, **more}
                for binding, version, place, more in expected
            ]
            assert found["additionalInterfaces"] == [
                {"url": place, "transport": binding} for binding, version, place, _ in expected if version == "0.3"
            ]


async def test_no_url_of_a_card_is_claimed_by_two_transports(tmp_path: Path) -> None:
    """a2a G10."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        for base in BASES:
            found = await card(plane, base + WELL_KNOWN)
            by_url: dict[str, set[str]] = {}
            for one in found["supportedInterfaces"]:
                by_url.setdefault(one["url"].rstrip("/"), set()).add(one["protocolBinding"])
            assert [url for url, transports in by_url.items() if len(transports) > 1] == []


async def test_the_official_client_reaches_the_agent_by_each_interface_of_its_card(tmp_path: Path) -> None:
    """a2a G3, a2a G10, a2a G13: with each binding, in 1.0 and by a card of 0.3."""
    async with open_behind(tmp_path) as behind, open_front(behind, card_style="0.3") as plane:
        for base, version, binding in product(BASES, ("1.0", "0.3"), ("JSONRPC", "HTTP+JSON", "GRPC")):
            resolver = A2ACardResolver(plane.http, plane.gateway.url, agent_card_path=base + WELL_KNOWN)
            found = await resolver.get_agent_card(http_kwargs={"headers": {"A2A-Version": version}})
            assert {one.protocol_version[:3] for one in found.supported_interfaces} == {version}
            client = ClientFactory(config_for(plane, binding)).create(found)
            message = Message(message_id=fresh(), role=Role.ROLE_USER, parts=[Part(text="message hello")])
            (answer,) = [one async for one in client.send_message(SendMessageRequest(message=message))]
            if binding == "GRPC":
                await client.close()
            assert answer.message.parts[0].text == "hello", (base, version, binding)


def config_for(plane: Plane, binding: str) -> ClientConfig:
    """Return the configuration of a client over one binding, which does not stream."""

    def channel(address: str) -> grpc.aio.Channel:
        # The client hands on the URL of 0.3 as it stands in the card.
        return grpc.aio.insecure_channel(address.removeprefix("http://"))

    return ClientConfig(
        httpx_client=plane.http,
        supported_protocol_bindings=[binding],
        grpc_channel_factory=channel,
        streaming=False,
    )


async def test_a_card_has_no_grpc_of_this_machine_if_clients_are_told_another_url(tmp_path: Path) -> None:
    async def grpc_of(plane: Plane) -> list[Any]:
        found = await card(plane)
        return [one["url"] for one in found["supportedInterfaces"] if one["protocolBinding"] == "GRPC"]

    url = "https://plane.example"
    async with open_behind(tmp_path) as behind:
        async with open_front(behind, public_url=url) as plane:
            assert await grpc_of(plane) == []
        async with open_front(behind, public_url=url, public_grpc="plane.example:443") as plane:
            assert await grpc_of(plane) == ["plane.example:443", "https://plane.example:443"]


def test_a_card_without_skills_gets_a_generated_one() -> None:
    """A2A requires a skill. Its description differs from that of the card."""
    greeter = AgentCard(name="Greeter", description="Greets whoever writes.", version="1")
    card = completed(greeter, "greeter")
    (skill,) = card.skills
    assert (skill.id, skill.name, list(skill.tags)) == ("greeter", "Chat", ["greeter"])
    assert skill.description == "Takes messages of text/plain and answers with text/plain."
    greeter.default_input_modes.extend(["text/plain", "image/png"])
    assert "of text/plain, image/png and" in completed(greeter, "greeter").skills[0].description
    named = AgentCard(name="Greeter", skills=[AgentSkill(id="greet", name="Greet", description="Greets.")])
    assert [one.name for one in completed(named, "greeter").skills] == ["Greet"]


async def test_a_card_is_cached_by_its_tag_and_varies_by_version(tmp_path: Path) -> None:
    """a2a G7: each form has a strong tag of its own."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        first = await plane.http.get(WELL_KNOWN)
        assert first.headers["vary"] == "A2A-Version"
        assert first.headers["cache-control"] == "public, max-age=60"
        assert first.headers["last-modified"].endswith("GMT")
        assert first.headers["etag"].startswith('"')
        assert (await plane.http.get(WELL_KNOWN)).headers["etag"] == first.headers["etag"]
        other = await plane.http.get(WELL_KNOWN, headers=NEW)
        assert other.headers["etag"] != first.headers["etag"]
        for tag in (first.headers["etag"], "W/" + first.headers["etag"], f'"x", {first.headers["etag"]}', "*"):
            again = await plane.http.get(WELL_KNOWN, headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            for name in ("etag", "vary", "cache-control", "last-modified"):
                assert again.headers[name] == first.headers[name]
        assert (await plane.http.get(WELL_KNOWN, headers={**NEW, "If-None-Match": first.headers["etag"]})).is_success


async def test_a_tag_has_precedence_over_the_time_of_change_which_must_be_equal(tmp_path: Path) -> None:
    """a2a G7, RFC 9110 section 13.2.2. A later time is that of another gateway, which may have seen an older card."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        first = await plane.http.get(WELL_KNOWN)
        tag, changed = first.headers["etag"], first.headers["last-modified"]
        later, earlier = "Fri, 01 Jan 2100 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"
        for given, status in (
            ({"If-Modified-Since": changed}, 304),
            ({"If-Modified-Since": later}, 200),
            ({"If-Modified-Since": earlier}, 200),
            ({"If-Modified-Since": "yesterday"}, 200),
            ({"If-None-Match": '"other"', "If-Modified-Since": later}, 200),
            ({"If-None-Match": tag, "If-Modified-Since": earlier}, 304),
        ):
            for method in ("GET", "HEAD"):
                reply = await plane.http.request(method, WELL_KNOWN, headers=given)
                assert (reply.status_code, reply.headers["etag"]) == (status, tag), given


async def test_the_head_of_a_card_has_the_headers_of_the_card_and_no_body(tmp_path: Path) -> None:
    """a2a G7."""
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        for headers in ({}, NEW):
            whole = await plane.http.get(WELL_KNOWN, headers=headers)
            head = await plane.http.head(WELL_KNOWN, headers=headers)
            assert (head.status_code, head.content) == (200, b"")
            assert {**whole.headers, "date": ""} == {**head.headers, "date": ""}


async def test_a_card_describes_the_required_credentials_in_both_versions(tmp_path: Path) -> None:
    """a2a G6, a2a G9, a2a G15."""
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[keys]]\nid = "k"\nsha256 = "{"0" * 64}"\nowner = "ann"\n')
    async with open_behind(tmp_path) as behind, open_front(behind, api_keys=str(keys)) as plane:
        found = await card(plane)
        assert found["securitySchemes"]["bearer"]["httpAuthSecurityScheme"] == {"scheme": "Bearer"}
        assert found["securitySchemes"]["bearer"]["type"] == "http"
        assert found["security"] == [{"bearer": []}, {"apiKey": []}]
        old = official_0_3.AgentCard.model_validate(found)
        assert set(old.security_schemes or {}) == {"bearer", "apiKey"}
        pure = await card(plane, a2a_version="1.0")
        assert ParseDict(pure, official.AgentCard()).security_requirements[1].schemes.keys() == {"apiKey"}


@pytest.mark.parametrize("path", ["/.well-known/agent.json/", WELL_KNOWN + "/"])
async def test_a_card_is_also_served_with_a_trailing_slash(tmp_path: Path, path: str) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        assert await card(plane, path) == await card(plane)
