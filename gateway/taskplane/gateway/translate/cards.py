"""Agent cards as JSON: 1.0, 0.3, and the union of both."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.extensions import DECLARED

Card = dict[str, Any]

PROTOCOL_0_3: Final = "0.3.0"
_TEXT: Final = "text/plain"


def completed(card: a2a.AgentCard, name: str) -> a2a.AgentCard:
    """Return the card with the gateway's capabilities, without interfaces and signatures, and with defaults for empty
    required members (A2A 1.0 section 4.4.1). A signature of the agent does not cover what the gateway adds."""
    whole = a2a.AgentCard()
    whole.CopyFrom(card)
    whole.ClearField("supported_interfaces")
    whole.ClearField("signatures")
    whole.name = whole.name or name
    whole.description = whole.description or whole.name
    whole.version = whole.version or "0"
    if not whole.default_input_modes:
        whole.default_input_modes.append(_TEXT)
    if not whole.default_output_modes:
        whole.default_output_modes.append(_TEXT)
    if not whole.skills:
        whole.skills.add(id=name, name="Chat", description=_taken(whole))
    for index, skill in enumerate(whole.skills, 1):
        skill.id = skill.id or f"{name}-{index}"
        skill.name = skill.name or skill.id
        skill.description = skill.description or skill.name
        if not skill.tags:
            skill.tags.append(name)
    if not whole.capabilities.HasField("streaming"):
        whole.capabilities.streaming = True
    extensions = whole.capabilities.extensions
    described = {one.uri for one in extensions}
    for uri, description in DECLARED.items():
        if uri not in described:
            extensions.add(uri=uri, description=description)
    whole.capabilities.push_notifications = False
    whole.capabilities.extended_agent_card = card.capabilities.extended_agent_card
    return whole


def input_modes(card: a2a.AgentCard) -> frozenset[str]:
    """Return the input modes of a card and of its skills, without parameters and in lower case."""
    found = list(card.default_input_modes) or [_TEXT]
    for skill in card.skills:
        found += skill.input_modes
    return frozenset(mode.partition(";")[0].strip().lower() for mode in found)


def _taken(card: a2a.AgentCard) -> str:
    """Return the default capabilities of an agent with a card that states no others."""
    taken, made = ", ".join(card.default_input_modes), ", ".join(card.default_output_modes)
    return f"Takes messages of {taken} and answers with {made}."


def pure_1_0(card: a2a.AgentCard) -> a2a.AgentCard:
    """Return a card with its 1.0 interfaces alone."""
    pure = a2a.AgentCard()
    pure.CopyFrom(card)
    pure.ClearField("supported_interfaces")
    pure.supported_interfaces.extend(_of_version(card, "1.0"))
    return pure


def to_1_0(card: a2a.AgentCard) -> Card:
    """Return a completed card as ProtoJSON with its 1.0 interfaces."""
    return _with_scopes(MessageToDict(pure_1_0(card)))


def to_0_3(card: a2a.AgentCard) -> Card:
    """Return a completed card in the form of 0.3; its first 0.3 interface is the preferred one (A2A 0.3.0 section
    5.5)."""
    found: Card = MessageToDict(card)
    for gone in ("supportedInterfaces", "securityRequirements", "securitySchemes"):
        found.pop(gone, None)
    found["capabilities"] = {
        "streaming": card.capabilities.streaming,
        "pushNotifications": card.capabilities.push_notifications,
        "stateTransitionHistory": False,
        **({"extensions": found["capabilities"]["extensions"]} if card.capabilities.extensions else {}),
    }
    for skill in found["skills"]:
        _old_requirements(skill)
    found.update(_old_keys(card))
    return found


def to_hybrid(card: a2a.AgentCard) -> Card:
    """Return the union of both forms: the members of 1.0 with every interface, newest version first, and those of
    0.3."""
    found = _with_scopes(MessageToDict(card))
    interfaces: list[Card] = found["supportedInterfaces"]
    interfaces.sort(key=lambda one: one["protocolVersion"], reverse=True)
    found["capabilities"]["stateTransitionHistory"] = False
    for skill in found["skills"]:
        if "securityRequirements" in skill:
            skill["security"] = _requirements(skill["securityRequirements"])
    old = _old_keys(card)
    for name, scheme in old.pop("securitySchemes", {}).items():
        found["securitySchemes"][name].update(scheme)
    found.update(old)
    return found


def _with_scopes(found: Card) -> Card:
    """Return a card whose OAuth flows all have the member `scopes`: it is required, and ProtoJSON leaves it out if it
    is empty."""
    for scheme in found.get("securitySchemes", {}).values():
        for flow in scheme.get("oauth2SecurityScheme", {}).get("flows", {}).values():
            flow.setdefault("scopes", {})
    return found


def _of_version(card: a2a.AgentCard, version: str) -> list[a2a.AgentInterface]:
    return [one for one in card.supported_interfaces if one.protocol_version == version]


def _old_keys(card: a2a.AgentCard) -> Card:
    interfaces = _of_version(card, "0.3")
    found: Card = {
        "protocolVersion": PROTOCOL_0_3,
        "url": interfaces[0].url,
        "preferredTransport": interfaces[0].protocol_binding,
        "additionalInterfaces": [{"url": one.url, "transport": one.protocol_binding} for one in interfaces],
        "supportsAuthenticatedExtendedCard": card.capabilities.extended_agent_card,
    }
    if card.security_schemes:
        found["securitySchemes"] = {name: _old_scheme(scheme) for name, scheme in card.security_schemes.items()}
    if card.security_requirements:
        found["security"] = _requirements([MessageToDict(one) for one in card.security_requirements])
    return found


def _old_requirements(skill: Card) -> None:
    requirements = skill.pop("securityRequirements", None)
    if requirements is not None:
        skill["security"] = _requirements(requirements)


def _requirements(requirements: Sequence[Card]) -> list[dict[str, list[str]]]:
    return [{name: scopes.get("list", []) for name, scopes in one.get("schemes", {}).items()} for one in requirements]


def _old_scheme(scheme: a2a.SecurityScheme) -> Card:
    """Return the OpenAPI 3.0 form of a security scheme (A2A 0.3.0 section 5.5.3)."""
    which = scheme.WhichOneof("scheme") or ""
    fields: Card = MessageToDict(scheme).get(_camel(which), {})
    if which == "api_key_security_scheme":
        fields["in"] = fields.pop("location", "header")
        return {"type": "apiKey", **fields}
    if which == "http_auth_security_scheme":
        return {"type": "http", **fields, "scheme": fields.get("scheme", "").lower()}
    if which == "oauth2_security_scheme":
        return {"type": "oauth2", **fields, "flows": _old_flows(fields.get("flows", {}))}
    if which == "open_id_connect_security_scheme":
        return {"type": "openIdConnect", **fields}
    return {"type": "mutualTLS", **fields}


def _old_flows(flows: Card) -> Card:
    """Return OAuth flows with the members of 0.3, which knows neither the device flow nor `pkceRequired`."""
    return {
        name: {"scopes": {}, **{key: value for key, value in flow.items() if key != "pkceRequired"}}
        for name, flow in flows.items()
        if name != "deviceCode"
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
