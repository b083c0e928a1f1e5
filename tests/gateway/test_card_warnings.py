"""Warnings about cards, and the route that returns a card with them."""

from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import ParseDict
from tests.gateway.plane import Json, open_behind, open_front

from taskplane.agents.demo import Demo
from taskplane.gateway.a2a.card_warnings import security, warnings

SKILL = {"id": "echo", "name": "Echo", "description": "Says it again.", "tags": ["demo"], "examples": ["echo hello"]}
COMPLETE: Json = {
    "name": "demo",
    "description": "A demo.",
    "version": "1.0.0",
    "capabilities": {"streaming": True, "pushNotifications": False},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [SKILL],
    "supportedInterfaces": [
        {"url": "https://plane.example/agents/demo", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
}


def codes(card: Json, scheme: str = "https", host: str = "plane.example") -> list[str]:
    return [f"{one.code} {one.detail}".strip() for one in warnings(card, scheme, host)]


def at(url: str, version: str = "1.0", binding: str = "JSONRPC") -> Json:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version}


def with_interfaces(*interfaces: Json) -> Json:
    return {**COMPLETE, "supportedInterfaces": list(interfaces)}


def test_a_complete_card_has_no_warnings() -> None:
    assert codes(COMPLETE) == []
    assert codes(COMPLETE, host="Plane.Example") == []


def test_missing_required_fields_of_a_card_and_its_skills_are_named() -> None:
    assert codes({}) == [
        "MISSING name",
        "MISSING description",
        "MISSING version",
        "MISSING capabilities",
        "MISSING defaultInputModes",
        "MISSING defaultOutputModes",
        "MISSING supportedInterfaces",
        "NO_SKILLS",
        "NO_STREAMING",
    ]
    without_tags = {name: value for name, value in SKILL.items() if name != "tags"}
    assert codes({**COMPLETE, "skills": [{**without_tags, "description": ""}]}) == [
        "MISSING skills[echo].description",
        "MISSING skills[echo].tags",
    ]


def test_an_agent_without_streaming_or_skills_has_a_warning() -> None:
    assert codes({**COMPLETE, "capabilities": {}}) == ["NO_STREAMING"]
    assert codes({**COMPLETE, "skills": []}) == ["NO_SKILLS"]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("plane.example:50050", ""),
        ("other.example:50050", "OTHER_HOST"),
        ("plane.example", "BAD_URL"),
        ("https://plane.example:8080/", ""),
        ("https://plane.example:50050", ""),
        ("https://other.example:50050", "OTHER_HOST"),
        ("[::1", "BAD_URL"),
    ],
)
def test_the_address_of_grpc_is_a_host_and_a_port(url: str, code: str) -> None:
    """Of its own: only the host must be that of the card. In 0.3 it is a URL."""
    card = with_interfaces(at(url, binding="GRPC"))
    assert codes(card, host="plane.example:8080") == ([f"{code} {url}"] if code else [])


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://other.example/a", "OTHER_HOST"),
        ("http://plane.example/a", "PLAIN_HTTP"),
        ("not an address", "BAD_URL"),
        ("http://[", "BAD_URL"),
    ],
)
def test_an_unusable_address_of_an_interface_has_a_warning(url: str, code: str) -> None:
    """The message contains the address."""
    (found,) = warnings(with_interfaces(at(url)), "https", "plane.example")
    assert (found.code, found.detail) == (code, url)
    assert url in found.message


def test_plain_http_on_the_same_machine_has_no_warning() -> None:
    card = with_interfaces(at("http://127.0.0.1:8080/"))
    assert codes(card, "http", "127.0.0.1:8080") == []
    assert codes(card, "https", "127.0.0.1:8080") == ["PLAIN_HTTP http://127.0.0.1:8080/"]


def test_unknown_versions_and_bindings_have_one_warning_each() -> None:
    url = "https://plane.example/"
    card = with_interfaces(at(url, "2.0", "SOAP"), at(url, "2.0"), at(url, "0.3.0"), at(url, "1.0", "GRPC"))
    assert codes(card) == ["UNKNOWN_VERSION 2.0", "UNKNOWN_BINDING SOAP"]


def test_security_schemes_are_one_line_each() -> None:
    schemes: Json = {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key", "description": "Ask us."}},
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "mutual": {"mtlsSecurityScheme": {}},
    }
    assert security({**COMPLETE, "securitySchemes": schemes}) == [
        "bearer: httpAuth, Bearer",
        "key: apiKey, header X-API-Key, Ask us.",
        "mutual: mtls",
    ]
    assert security(COMPLETE) == []


def mute() -> Demo:
    """Return the demo agent with a card that announces no streaming."""
    agent = Demo()
    agent.card.capabilities.streaming = False
    return agent


async def test_the_agent_route_returns_the_public_card_with_its_warnings(tmp_path: Path) -> None:
    """It needs no key. The warnings depend on the called address."""
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[keys]]\nid = "k"\nsha256 = "{"0" * 64}"\nowner = "ann"\n')

    async def described(plane: Any, path: str, **headers: str) -> Any:
        reply = await plane.http.get(f"/api/agents/{path}", headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    async with open_behind(tmp_path, ("demo", Demo()), ("mute one", mute())) as behind:
        async with open_front(behind, api_keys=str(keys)) as plane:
            found = await described(plane, "demo")
            assert (found["name"], found["isDefault"], found["warnings"]) == ("demo", True, [])
            card = await plane.http.get("/agents/demo/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})
            assert found["card"] == card.json()
            assert ParseDict(found["card"], official.AgentCard()).name == "demo"
            assert found["security"] == ["apiKey: apiKey, header X-API-Key", "bearer: httpAuth, Bearer"]
            other = await described(plane, "mute%20one")
            assert (other["name"], other["isDefault"]) == ("mute one", False)
            assert [one["code"] for one in other["warnings"]] == ["NO_STREAMING"]
            assert (await plane.http.get(other["card"]["supportedInterfaces"][0]["url"])).status_code == 405
            none = await plane.http.get("/api/agents/none")
            assert (none.status_code, none.json()["code"]) == (404, "AGENT_NOT_FOUND")
        async with open_front(behind, public_url="http://plane.example") as plane:
            found = await described(plane, "demo")
            assert [one["code"] for one in found["warnings"]] == ["OTHER_HOST", "PLAIN_HTTP"]
            assert {one["detail"] for one in found["warnings"]} == {"http://plane.example/agents/demo/jsonrpc"}
            assert all("http://plane.example/agents/demo/jsonrpc" in one["message"] for one in found["warnings"])
            seen = await described(plane, "demo", host="plane.example")
            assert [one["code"] for one in seen["warnings"]] == ["PLAIN_HTTP"]
            assert seen["security"] == []


def test_interfaces_that_differ_in_their_paths_have_one_warning() -> None:
    one, other = at("https://other.example/a"), at("https://other.example/b", binding="HTTP+JSON")
    assert codes(with_interfaces(one, other)) == ["OTHER_HOST https://other.example/a"]
    assert codes(with_interfaces(at("bad"), at("worse"))) == ["BAD_URL bad", "BAD_URL worse"]
    own = at("https://plane.example:50050", binding="GRPC")
    assert codes(with_interfaces(own, at("https://plane.example:50050"))) == ["OTHER_HOST https://plane.example:50050"]
