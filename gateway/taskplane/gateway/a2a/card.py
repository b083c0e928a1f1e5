"""The public card of an agent: its interfaces, its requirements to sign in, and the form of each A2A version."""

from typing import Final

from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.cards import Card, Interface, completed, to_0_3, to_1_0, to_hybrid

_STYLES: Final = {"1.0": to_1_0, "0.3": to_0_3, "hybrid": to_hybrid}
# Bindings below an agent's base URL, with their versions.
_BINDINGS: Final = (("JSONRPC", ("1.0", "0.3")),)


def public(plane: Plane, agent: Agent, path: str, style: str = "1.0") -> Card:
    """Return the card of an agent that is called at this path, as everybody reads it."""
    card = completed(agent.card, agent.name)
    plane.authenticator.describe(card)
    return _STYLES[style](card, _interfaces(plane, path, agent.name if path else ""))


def _interfaces(plane: Plane, path: str, agent: str) -> list[Interface]:
    url = plane.public_url + (path or "/")
    found = [Interface(url, binding, version) for binding, versions in _BINDINGS for version in versions]
    if plane.public_grpc:
        # gRPC has no paths: a tenant selects the agent.
        found.append(Interface(plane.public_grpc, "GRPC", "1.0", agent))
        if not agent:
            # A2A 0.3 has no tenants, and its clients expect a URL.
            scheme = plane.public_url.partition(":")[0]
            found.append(Interface(f"{scheme}://{plane.public_grpc}", "GRPC", "0.3"))
    return found
