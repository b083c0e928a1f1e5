"""The rules for the card of an agent, and names that agents cannot have."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.json_format import ParseDict

from taskplane.agents.adapters.detection import adapt
from taskplane.agents.agent import AgentCard, Change, Complete, Turn
from taskplane.agents.card_rules import broken_rules
from taskplane.agents.loading import Agents, load_agents
from taskplane.api.reserved_names import RESERVED
from taskplane.runtime.errors import Invalid

_EMPTY: Final[dict[str, Any]] = {}
_URL: Final = "https://a.example/x"
_SKILL: Final = {"id": "s", "name": "S", "description": "Does it.", "tags": ["t"]}
_FLOW: Final = {"tokenUrl": _URL, "scopes": {"read": "Reads."}}


class Carded:
    def __init__(self, **card: Any) -> None:
        self.card = ParseDict({"name": "carded", **card}, AgentCard())

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Complete("done")


def scheme(**one: Any) -> Any:
    return {"securitySchemes": {"mine": one}}


def oauth(**flow: Any) -> Any:
    return scheme(oauth2SecurityScheme={"flows": flow})


@pytest.mark.parametrize(
    ("card", "field", "rule"),
    [
        ({"skills": [{**_SKILL, "id": ""}]}, "skills[0].id", "is required"),
        ({"skills": [_SKILL, {**_SKILL, "id": "b", "name": ""}]}, "skills[1].name", "is required"),
        ({"skills": [{**_SKILL, "description": ""}]}, "skills[0].description", "is required"),
        ({"skills": [{**_SKILL, "tags": [" "]}]}, "skills[0].tags[0]", "is blank"),
        ({"skills": [{**_SKILL, "inputModes": [""]}]}, "skills[0].input_modes[0]", "is blank"),
        ({"skills": [_SKILL, _SKILL]}, "skills[1].id", "is 's', as another one is"),
        ({"defaultInputModes": ["text/plain", ""]}, "default_input_modes[1]", "is blank"),
        ({"defaultOutputModes": [""]}, "default_output_modes[0]", "is blank"),
        ({"provider": {"organization": "A"}}, "provider.url", "is required"),
        ({"provider": {"url": _URL}}, "provider.organization", "is required"),
        ({"provider": {"organization": "A", "url": "a.example"}}, "provider.url", "no URL of http or https"),
        ({"documentationUrl": "docs"}, "documentation_url", "no URL of http or https"),
        ({"iconUrl": "ftp://a.example/i.png"}, "icon_url", "no URL of http or https"),
        ({"iconUrl": "https://[::1"}, "icon_url", "no URL of http or https"),
        ({"iconUrl": "data:image/png;base64,AA AA"}, "icon_url", "no URL of http or https"),
        ({"iconUrl": "data:text/html,<p>"}, "icon_url", "no URL of http or https"),
        ({"documentationUrl": "data:image/png;base64,AAAA"}, "documentation_url", "no URL of http or https"),
        ({"capabilities": {"extensions": [{"required": True}]}}, "capabilities.extensions[0].uri", "is required"),
        ({"capabilities": {"extensions": [{"uri": "resume"}]}}, "capabilities.extensions[0].uri", "no URI"),
        (
            {"capabilities": {"extensions": [{"uri": "urn:a:b"}, {"uri": "urn:a:b"}]}},
            "capabilities.extensions[1].uri",
            "as another one is",
        ),
        (scheme(), "security_schemes[mine]", "is empty"),
        (
            scheme(apiKeySecurityScheme={"name": "X-Key"}),
            "security_schemes[mine].api_key_security_scheme.location",
            "is required",
        ),
        (
            scheme(apiKeySecurityScheme={"name": "X-Key", "location": "body"}),
            "security_schemes[mine].api_key_security_scheme.location",
            "is 'body'",
        ),
        (
            scheme(httpAuthSecurityScheme={"bearerFormat": "JWT"}),
            "security_schemes[mine].http_auth_security_scheme.scheme",
            "is required",
        ),
        (
            scheme(openIdConnectSecurityScheme={}),
            "security_schemes[mine].open_id_connect_security_scheme.open_id_connect_url",
            "is required",
        ),
        (scheme(oauth2SecurityScheme={}), "security_schemes[mine].oauth2_security_scheme.flows", "is required"),
        (oauth(), "security_schemes[mine].oauth2_security_scheme.flows", "is empty"),
        (
            oauth(authorizationCode=_FLOW),
            "security_schemes[mine].oauth2_security_scheme.flows.authorization_code.authorization_url",
            "is required",
        ),
        (
            oauth(clientCredentials={"scopes": {"read": ""}}),
            "security_schemes[mine].oauth2_security_scheme.flows.client_credentials.token_url",
            "is required",
        ),
        (
            oauth(deviceCode=_FLOW),
            "security_schemes[mine].oauth2_security_scheme.flows.device_code.device_authorization_url",
            "is required",
        ),
        (
            oauth(password={"tokenUrl": "here"}),
            "security_schemes[mine].oauth2_security_scheme.flows.password.token_url",
            "no URL of http or https",
        ),
        (
            {"securityRequirements": [{"schemes": {"other": _EMPTY}}]},
            "security_requirements[0].schemes[other]",
            "is no scheme of the card (the card has no security_schemes)",
        ),
        (
            {
                **scheme(mtlsSecurityScheme={}),
                "skills": [
                    {**_SKILL, "securityRequirements": [{"schemes": {"mine": _EMPTY}}, {"schemes": {"b": _EMPTY}}]}
                ],
            },
            "skills[0].security_requirements[1].schemes[b]",
            "is no scheme of the card (the card has mine)",
        ),
    ],
)
def test_a_card_that_breaks_a_rule_is_refused_with_its_field_rule_and_remedy(card: Any, field: str, rule: str) -> None:
    """a2a B5, a2a G1, a2a G2, a2a G5, a2a G6."""
    with pytest.raises(Invalid) as refused:
        adapt(Carded(**card), "mine")
    error = refused.value
    assert error.reason == "BAD_AGENT" and error.suggestion
    assert "agent 'mine'" in error.message and "test_card_rules.py" in error.message
    (broken,) = broken_rules(Carded(**card).card)
    assert (broken.field, rule in broken.rule) == (field, True)
    assert f"{field} " in error.message and rule in error.message and broken.remedy in error.suggestion


@pytest.mark.parametrize(
    "card",
    [
        _EMPTY,
        {"skills": [{**_SKILL, "tags": list[str]()}], "defaultInputModes": ["text"]},
        {"iconUrl": "http://localhost:8080/i.png", "provider": {"organization": "A", "url": "HTTPS://a.example"}},
        {"capabilities": {"extensions": [{"uri": "urn:a:b", "params": {"uri": "", "list": [""]}}]}},
        {**oauth(authorizationCode={**_FLOW, "authorizationUrl": _URL}), "securityRequirements": [_EMPTY]},
        {"iconUrl": "data:image/png;base64,iVBORw0KGgo="},
        oauth(clientCredentials={"tokenUrl": _URL}),
        oauth(deviceCode={"tokenUrl": _URL, "deviceAuthorizationUrl": _URL, "scopes": {}}),
        {**scheme(mtlsSecurityScheme={}), "securityRequirements": [{"schemes": {"mine": _EMPTY}}]},
        {"supportedInterfaces": [{"url": "elsewhere"}], "signatures": [{"protected": ""}]},
    ],
)
def test_a_card_that_the_gateway_can_complete_is_accepted(card: Any) -> None:
    """a2a G1: what it leaves out as a whole is added, and its interfaces are replaced."""
    assert adapt(Carded(**card), "mine").card.name == "carded"


def test_an_error_names_five_fields_and_counts_the_others() -> None:
    with pytest.raises(Invalid) as refused:
        adapt(Carded(defaultInputModes=[""] * 7), "mine")
    assert "default_input_modes[4]" in refused.value.message and "and 2 more" in refused.value.message
    assert "default_input_modes[5]" not in refused.value.message


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        (
            {"name": "Far", "skills": [{"id": "s"}]},
            "breaks rules of A2A: skills[0].name is required; skills[0].description is required ",
        ),
        ({"name": " "}, "has no name "),
    ],
)
def test_the_card_file_of_a_worker_is_checked_and_named(tmp_path: Path, card: Any, problem: str) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(card))
    with pytest.raises(Invalid) as refused:
        load_agents([f"far=worker:{path}"])
    assert refused.value.message.endswith(f"its card {problem}({path})")


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_an_agent_with_the_name_of_a_path_is_refused(name: str) -> None:
    """a2a H14: a tenant selects an agent by its name, and a path begins with the tenant."""
    with pytest.raises(Invalid) as refused:
        Agents({name: Carded()})
    assert (refused.value.reason, f"the name {name!r} is reserved" in refused.value.message) == ("BAD_AGENT", True)
    assert "give the agent another name" in refused.value.suggestion


def test_an_agent_is_loaded_under_no_reserved_name() -> None:
    """a2a H14."""
    with pytest.raises(Invalid, match="agent 'tasks=demo': the name 'tasks' is reserved"):
        load_agents(["tasks=demo"])
