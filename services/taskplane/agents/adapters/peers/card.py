"""The card of a remote agent: limited in size, and mended so that the SDK can read it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from taskplane.agents.adapters.peers.members import listed, members
from taskplane.agents.adapters.peers.refused import too_large

LONGEST_CARD: Final = 2**20
"""The largest card in bytes."""
_TEXTS: Final = ("name", "description", "version", "protocolVersion", "url", "preferredTransport")
_LISTS: Final = ("skills", "supportedInterfaces", "additionalInterfaces")


def read_card(url: str, headers: Mapping[str, str], timeout: float) -> dict[str, Any]:
    """Return the card at a URL. `timeout`: seconds for each step. httpx.HTTPError: the request failed, or the card is
    too large. ValueError: it is not a JSON object."""
    asked = {"A2A-Version": "1.0", "Accept-Encoding": "identity", **headers}
    pieces: list[bytes] = []
    size = 0
    with httpx.stream("GET", url, headers=asked, timeout=timeout) as response:
        response.raise_for_status()
        for piece in response.iter_bytes():
            size += len(piece)
            if size > LONGEST_CARD:
                raise too_large("a card", LONGEST_CARD)
            pieces.append(piece)
    return mended_card(json.loads(b"".join(pieces)), url)


def mended_card(value: Any, url: str) -> dict[str, Any]:
    """Return a card without null members and with absolute URLs. Numbers become texts in members that must be texts.

    Items of `skills` and of the lists of interfaces are dropped if they are not objects. `capabilities` is added if it
    is missing. `url`: the URL of the card, to which relative URLs in it are resolved. ValueError: the card is not an
    object.
    """
    if not isinstance(value, dict):
        raise ValueError("the agent card must be a JSON object")
    card: dict[str, Any] = _without_nulls(value)
    for name in _TEXTS:
        if isinstance(card.get(name), int | float):
            card[name] = str(card[name])
    for name in _LISTS:
        if name in card:
            card[name] = [members(one) for one in listed(card[name]) if isinstance(one, dict)]
    if not card.get("supportedInterfaces"):
        # The SDK reads the 0.3 members only if `supportedInterfaces` is missing.
        card.pop("supportedInterfaces", None)
    for place in (card, *card.get("supportedInterfaces", []), *card.get("additionalInterfaces", [])):
        if isinstance(given := place.get("url"), str):
            place["url"] = str(httpx.URL(url).join(given))
    if not isinstance(card.get("capabilities"), dict):
        card["capabilities"] = {}
    return card


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]  # pyright: ignore[reportUnknownVariableType]
    return value
