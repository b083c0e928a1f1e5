"""The card of an agent: its interfaces, its requirements to sign in, and the form of each A2A version."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.agents import Agent
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.cards import Card, completed, to_0_3, to_1_0, to_hybrid

STYLES: Final[Mapping[str, Callable[[a2a.AgentCard], Card]]] = {"1.0": to_1_0, "0.3": to_0_3, "hybrid": to_hybrid}
"""The forms of a card as JSON, by the values of the setting `card_style`."""
# The path of JSON-RPC below the base of an agent. REST has the base itself: A2A 0.3 forbids two transports at one URL.
JSONRPC_PATH: Final = "/jsonrpc"
_VERSIONS: Final = ("1.0", "0.3")


async def public(plane: Plane, agent: Agent, base: str, style: str = "1.0") -> Card:
    """Return the card of an agent that is called below the path `base`, as everybody reads it."""
    found = whole(plane, agent, agent.card, base)
    return STYLES[style](await signed(plane, found, style, keep=base in ("", base_of(agent.name))))


def base_of(name: str) -> str:
    """Return the base path of the agent with a name, which may have a namespace; empty for the default agent."""
    if not name:
        return ""
    return ("/api/a2a/" if "/" in name else "/agents/") + "/".join(quote(part, safe="") for part in name.split("/"))


def whole(plane: Plane, agent: Agent, card: a2a.AgentCard, base: str) -> a2a.AgentCard:
    """Return a card of an agent with what the gateway adds: the requirements to sign in, and the interfaces of both
    versions, the preferred ones first."""
    found = completed(card, agent.name)
    plane.authenticator.describe(found)
    found.supported_interfaces.extend(_interfaces(plane, agent, base))
    return found


async def signed(plane: Plane, card: a2a.AgentCard, style: str, *, keep: bool = False) -> a2a.AgentCard:
    """Return the card with the signature of one of its forms, if cards are signed. The signature covers no other
    form. `keep`: it is a public card at an address of its agent."""
    if plane.signer is not None:
        card.signatures.append(await plane.signer.sign(STYLES[style](card), style, plane.worker, keep=keep))
    return card


def _interfaces(plane: Plane, agent: Agent, base: str) -> Iterator[a2a.AgentInterface]:
    url = plane.public_url + base
    for version in _VERSIONS:
        for binding, place in (("JSONRPC", url + JSONRPC_PATH), ("HTTP+JSON", url)):
            yield a2a.AgentInterface(url=place, protocol_binding=binding, protocol_version=version)
        if plane.public_grpc:
            yield from _over_grpc(plane, agent, base, version)


def _over_grpc(plane: Plane, agent: Agent, base: str, version: str) -> Iterator[a2a.AgentInterface]:
    """Yield the interface over gRPC, which has no paths: in 1.0 a tenant selects the agent, 0.3 has the default one."""
    if version == "1.0":
        tenant, url = agent.name if base else "", plane.public_grpc
    elif agent.is_default:
        # Clients of 0.3 expect a URL.
        tenant, url = "", f"{plane.public_url.partition(':')[0]}://{plane.public_grpc}"
    else:
        return
    yield a2a.AgentInterface(url=url, protocol_binding="GRPC", protocol_version=version, tenant=tenant)
