"""Agent cards: styles for different readers, addresses, and caching."""

from pathlib import Path
from typing import Any

import pytest
from a2a.compat.v0_3 import types as official_0_3
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import ParseDict
from tests.gateway.plane import Plane, open_behind, open_front

from taskplane.api.a2a.v1.a2a_pb2 import AgentCard, AgentSkill
from taskplane.gateway.translate.cards import completed

WELL_KNOWN = "/.well-known/agent-card.json"
NEW = {"A2A-Version": "1.0"}
OLD_KEYS = {"protocolVersion", "url", "preferredTransport", "additionalInterfaces", "security"}


async def card(plane: Plane, path: str = WELL_KNOWN, **headers: str) -> Any:
    reply = await plane.http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert reply.status_code == 200
    return reply.json()


async def test_each_card_style_is_parsed_by_its_clients(tmp_path: Path) -> None:
    """A client that requests 1.0 gets the pure 1.0 card with every style; other clients get the configured style."""
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
    async with open_behind(tmp_path) as behind, open_front(behind, public_url="https://plane.example/base/") as plane:
        bases = {"": "/", "/agents/demo": "/agents/demo", "/api/a2a/kagent/demo": "/api/a2a/kagent/demo"}
        for base, served in bases.items():
            found = await card(plane, base + WELL_KNOWN)
            assert found["url"] == "https://plane.example/base" + served
            assert found["supportedInterfaces"][0]["url"] == found["url"]
            assert await card(plane, base + "/.well-known/agent.json") == found
        assert (await plane.http.get("/agents/none" + WELL_KNOWN)).status_code == 404


async def test_a_card_names_the_grpc_address_and_the_tenant_that_selects_its_agent(tmp_path: Path) -> None:
    """Without a scheme; and none of this machine where clients are told another URL."""

    async def grpc_of(plane: Plane, base: str = "") -> list[Any]:
        found = await card(plane, base + WELL_KNOWN, a2a_version="1.0")
        return [one for one in found["supportedInterfaces"] if one["protocolBinding"] == "GRPC"]

    async with open_behind(tmp_path) as behind:
        async with open_front(behind) as plane:
            entry = {"url": plane.public.address, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
            assert await grpc_of(plane) == [entry]
            for base in ("/agents/demo", "/api/a2a/kagent/demo"):
                assert await grpc_of(plane, base) == [{**entry, "tenant": "demo"}]
        url = "https://plane.example"
        async with open_front(behind, public_url=url) as plane:
            assert await grpc_of(plane) == []
        async with open_front(behind, public_url=url, public_grpc="plane.example:443") as plane:
            assert await grpc_of(plane) == [{**entry, "url": "plane.example:443"}]


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
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        first = await plane.http.get(WELL_KNOWN)
        assert first.headers["vary"] == "A2A-Version"
        assert first.headers["cache-control"] == "public, max-age=60"
        assert first.headers["last-modified"].endswith("GMT")
        other = await plane.http.get(WELL_KNOWN, headers=NEW)
        assert other.headers["etag"] != first.headers["etag"]
        for tag in (first.headers["etag"], "W/" + first.headers["etag"], f'"x", {first.headers["etag"]}', "*"):
            again = await plane.http.get(WELL_KNOWN, headers={"If-None-Match": tag})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == first.headers["etag"]
        assert (await plane.http.get(WELL_KNOWN, headers={**NEW, "If-None-Match": first.headers["etag"]})).is_success


async def test_a_card_describes_the_required_credentials_in_both_versions(tmp_path: Path) -> None:
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
