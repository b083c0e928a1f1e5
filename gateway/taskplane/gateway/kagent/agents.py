"""The agents under /api: a card as people read it."""

from taskplane.gateway.a2a.card import base_of, public
from taskplane.gateway.a2a.card_warnings import security, warnings
from taskplane.gateway.a2a.lookup import find
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.etags import if_changed
from taskplane.gateway.web.http import Reply, Request


async def get(plane: Plane, request: Request) -> Reply:
    """Return the 1.0 card of an agent, its requirements to sign in, and the warnings about it for a client at
    the address of the request. Raise NotFound `AGENT_NOT_FOUND`."""
    agent = await find(plane, request.arguments["agent"])
    card = await public(plane, agent, base_of(agent.name))
    found = {
        "name": agent.name,
        "isDefault": agent.is_default,
        "card": card,
        "security": security(card),
        "warnings": [
            {"code": one.code, "detail": one.detail, "message": one.message}
            for one in warnings(card, str(request.scope["scheme"]), request.header(b"host"))
        ],
    }
    return if_changed(request, data_reply(found, "Agent described"))
