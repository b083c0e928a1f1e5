"""The card of an agent on any A2A server, brought to the form of 1.0 as far as its meaning is clear."""

from collections.abc import Mapping
from typing import Any, Final, cast

from taskplane.gateway.translate.cards import PROTOCOL_0_3, Card

_OLD_BINDING: Final = "JSONRPC"


def as_1_0(found: Mapping[str, Any]) -> Card:
    """Return a card of 1.0, of 0.3 or of both as JSON of 1.0. Members that are null or of another type are left out.

    The interfaces of a 0.3 card are `url` with `preferredTransport`, then `additionalInterfaces` (A2A 0.3.0 section
    5.5).
    """
    card: Card = {name: value for name, value in found.items() if value is not None}
    for name in ("skills", "supportedInterfaces"):
        card[name] = _objects(card.get(name))
    for name in ("capabilities", "securitySchemes"):
        if not isinstance(card.get(name), dict):
            card.pop(name, None)
    if not card["supportedInterfaces"]:
        card["supportedInterfaces"] = _old_interfaces(card)
    return card


def _old_interfaces(card: Card) -> list[dict[str, Any]]:
    version = str(card.get("protocolVersion") or PROTOCOL_0_3)
    places = [(card.get("url"), card.get("preferredTransport"))]
    places += [(one.get("url"), one.get("transport")) for one in _objects(card.get("additionalInterfaces"))]
    return [
        {"url": url, "protocolBinding": str(binding or _OLD_BINDING), "protocolVersion": version}
        for url, binding in dict.fromkeys(places)
        if isinstance(url, str)
    ]


def _objects(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, without members that are null; empty for anything else."""
    if not isinstance(value, list):
        return []
    found = (cast("dict[str, Any]", one) for one in cast("list[object]", value) if isinstance(one, dict))
    return [{name: inner for name, inner in one.items() if inner is not None} for one in found]
