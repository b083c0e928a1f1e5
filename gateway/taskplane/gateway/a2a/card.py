"""The agent card routes (A2A 1.0 section 8.2): lookup of the agent, choice of the card's version, and caching."""

from email.utils import formatdate
from typing import Final

from taskplane.gateway.a2a.call import version_of
from taskplane.gateway.a2a.lookup import find
from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.cards import Card, Interface, completed, to_0_3, to_1_0, to_hybrid
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Headers, Reply, Request, bytes_reply
from taskplane.runtime import json_lines

_STYLES: Final = {"1.0": to_1_0, "0.3": to_0_3, "hybrid": to_hybrid}
# Bindings below an agent's base URL, with their versions.
_BINDINGS: Final = (("JSONRPC", ("1.0", "0.3")),)


async def well_known(plane: Plane, request: Request) -> Reply:
    """Return the card of the agent in the path, or of the default agent. Raise NotFound `AGENT_NOT_FOUND`."""
    name = agent_name(request)
    agent = await find(plane, name)
    asked = request.header(b"a2a-version") or request.query.get("A2A-Version", "")
    style = "1.0" if version_of(asked) == "1.0" else plane.settings.card_style
    path = str(request.scope["path"]).partition("/.well-known/")[0]
    body = json_lines.encode(public(plane, agent, path, style))
    caching: Headers = [
        (b"vary", b"A2A-Version"),
        (b"cache-control", b"public, max-age=%d" % plane.settings.card_age),
        (b"last-modified", formatdate(agent.seen_at, usegmt=True).encode()),
    ]
    return if_changed(request, bytes_reply(200, body), caching=caching)


def public(plane: Plane, agent: Agent, path: str, style: str = "1.0") -> Card:
    """Return the card of an agent that is called at this path, as everybody reads it."""
    card = completed(agent.card, agent.name)
    plane.authenticator.describe(card)
    return _STYLES[style](card, _interfaces(plane, path))


def agent_name(request: Request) -> str:
    """Return the name of the agent in the path; empty for the default one."""
    arguments = request.arguments
    if "namespace" in arguments:
        return f"{arguments['namespace']}/{arguments['agent']}"
    return arguments.get("agent", "")


def _interfaces(plane: Plane, path: str) -> list[Interface]:
    url = plane.public_url + (path or "/")
    return [Interface(url, binding, version) for binding, versions in _BINDINGS for version in versions]
