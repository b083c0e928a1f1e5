"""Cards in the form of each version, against closed schemas of the official messages."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.json_format import ParseDict
from tests.executor.scripted import Scripted
from tests.gateway.card_schemas import closed_0_3, closed_1_0, keys, mistakes
from tests.gateway.plane import Json, open_behind, open_front

from taskplane.agents.agent import Agent, AgentCard, Change, Complete, Turn
from taskplane.agents.demo import Demo

BASES: Final = ("", "/agents/{name}", "/api/a2a/kagent/{name}")
_URL: Final = "https://sign-in.example/"
_FLOW: Final = {"tokenUrl": _URL, "scopes": {"read": "Reads."}}
_RICH: Final[Json] = {
    "name": "Rich",
    "description": "Has every member.",
    "version": "1.2.3",
    "documentationUrl": "https://rich.example/docs",
    "iconUrl": "https://rich.example/icon.png",
    "provider": {"organization": "Rich", "url": "https://rich.example"},
    "capabilities": {
        "streaming": True,
        "pushNotifications": True,
        "extensions": [{"uri": "https://rich.example/ext/v1", "description": "More.", "params": {"level": 1}}],
    },
    "securitySchemes": {
        "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "Ask us."}},
        "token": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
        "code": {
            "oauth2SecurityScheme": {
                "flows": {"authorizationCode": {**_FLOW, "authorizationUrl": _URL, "pkceRequired": True}},
                "oauth2MetadataUrl": _URL,
            }
        },
        "device": {"oauth2SecurityScheme": {"flows": {"deviceCode": {**_FLOW, "deviceAuthorizationUrl": _URL}}}},
        "unscoped": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": _URL}}}},
        "open": {"openIdConnectSecurityScheme": {"openIdConnectUrl": _URL}},
        "mutual": {"mtlsSecurityScheme": {}},
    },
    "securityRequirements": [{"schemes": {"code": {"list": ["read"]}, "key": {}}}, {"schemes": {"mutual": {}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain", "image/png"],
    "skills": [
        {
            "id": "draw",
            "name": "Draw",
            "description": "Draws.",
            "tags": ["pictures"],
            "examples": ["a house"],
            "inputModes": ["text/plain"],
            "outputModes": ["image/png"],
            "securityRequirements": [{"schemes": {"open": {"list": ["draw"]}}}],
        }
    ],
}
RICH: Final = ParseDict(_RICH, AgentCard())
# Members of one version alone.
_NEW_KEYS: Final = {"supportedInterfaces", "protocolBinding", "securityRequirements", "schemes", "extendedAgentCard"}
_OLD_KEYS: Final = {
    *("protocolVersion", "preferredTransport", "additionalInterfaces", "transport", "security", "type", "in"),
    *("supportsAuthenticatedExtendedCard", "stateTransitionHistory"),
}


async def ended(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("done")


def agent(card: AgentCard) -> Scripted:
    made = Scripted(ended)
    made.card = card
    return made


@pytest.fixture(scope="module")
def schemas() -> Mapping[str, Json]:
    return {"1.0": closed_1_0(), "0.3": closed_0_3()}


def test_the_closed_schemas_refuse_the_members_of_the_other_version(schemas: Mapping[str, Json]) -> None:
    for version, members in (("1.0", {"url": "https://a.example", "kind": "card"}), ("0.3", {"iconURL": ""})):
        found = mistakes(members, schemas[version])
        assert any("Additional properties are not allowed" in one for one in found)
        assert any("required" in one for one in found)


@pytest.mark.parametrize("keyed", [False, True])
async def test_each_pure_card_fits_the_closed_schema_of_its_version(
    tmp_path: Path, schemas: Mapping[str, Json], keyed: bool
) -> None:
    """a2a B1, a2a B5, a2a B7, a2a G1, a2a G2, a2a G5, a2a G6, a2a G9: at each base, with and without keys of the
    gateway, for a card with every member and for one with none but a name."""
    keys_file = tmp_path / "keys.toml"
    keys_file.write_text(f'[[keys]]\nid = "k"\nsha256 = "{"0" * 64}"\nowner = "ann"\n')
    settings: Json = {"api_keys": str(keys_file)} if keyed else {}
    agents: dict[str, Agent] = {"demo": Demo(), "rich": agent(RICH), "bare": agent(AgentCard(name="bare"))}
    async with open_behind(tmp_path, *agents.items()) as behind:
        for style in ("1.0", "0.3", "hybrid"):
            async with open_front(behind, card_style=style, **settings) as plane:
                for path in (base.format(name=name) for base in BASES for name in agents):
                    pure = await served(plane, path, "1.0")
                    assert mistakes(pure, schemas["1.0"]) == []
                    assert keys(pure) & _OLD_KEYS == {"protocolVersion"} and "protocolVersion" not in pure
                    styled = await served(plane, path)
                    if style == "0.3":
                        assert mistakes(styled, schemas["0.3"]) == []
                        assert keys(styled) & _NEW_KEYS == set()
                    assert [key for key in keys(pure) | keys(styled) if re.search("[a-z]_[a-z]", key)] == []


async def test_a_card_of_another_server_is_completed(tmp_path: Path) -> None:
    """a2a G1, a2a G2: it is not checked at start, since its author is not here."""

    class Far(Scripted):
        card_of_another_server = True

    far = Far(ended)
    far.card = ParseDict({"name": "Far", "skills": [{"tags": ["t"]}, {"id": "b", "examples": ["x"]}]}, AgentCard())
    async with open_behind(tmp_path, ("far", far)) as behind, open_front(behind) as plane:
        found = await served(plane, version="1.0")
    assert mistakes(found, closed_1_0()) == []
    assert [(one["id"], one["name"], one["description"]) for one in found["skills"]] == [
        ("far-1", "far-1", "far-1"),
        ("b", "b", "b"),
    ]


async def test_a_card_denies_push_notifications_that_its_agent_announces(tmp_path: Path) -> None:
    """a2a F1, a2a G5: the operations are refused."""
    assert RICH.capabilities.push_notifications
    async with open_behind(tmp_path, ("rich", agent(RICH))) as behind:
        for style in ("1.0", "0.3", "hybrid"):
            async with open_front(behind, card_style=style) as plane:
                assert (await served(plane))["capabilities"]["pushNotifications"] is False


async def test_a_hybrid_card_is_the_union_of_both_pure_cards(tmp_path: Path) -> None:
    """a2a G15, a2a G16: its security schemes have the members of both forms; so it fits no closed schema."""
    async with open_behind(tmp_path, ("rich", agent(RICH))) as behind:
        async with open_front(behind) as plane:
            hybrid, new = await served(plane), await served(plane, version="1.0")
        async with open_front(behind, card_style="0.3") as plane:
            old = await served(plane)
    assert hybrid.keys() == new.keys() | old.keys()
    for name, scheme in new["securitySchemes"].items():
        assert hybrid["securitySchemes"][name] == {**scheme, **old["securitySchemes"][name]}
        assert "type" not in scheme
    assert hybrid["security"] == old["security"] == [{"code": ["read"], "key": []}, {"mutual": []}]
    assert mistakes(hybrid, closed_1_0()) != [] != mistakes(hybrid, closed_0_3())


async def served(plane: Any, base: str = "", version: str = "") -> Json:
    """Return the card at a base; `version`: that which the client names."""
    reply = await plane.http.get(
        f"{base}/.well-known/agent-card.json", headers={"A2A-Version": version} if version else {}
    )
    assert reply.status_code == 200
    found: Json = reply.json()
    return found
