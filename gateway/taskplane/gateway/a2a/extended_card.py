"""The extended card of an agent, for authenticated callers (A2A 1.0 section 3.1.11)."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.card import base_of, signed, whole
from taskplane.gateway.a2a.lookup import find
from taskplane.gateway.translate.dialect import CardAnswer
from taskplane.runtime.errors import Refused

_DEADLINE = 10.0


async def get(call: Call, _request: a2a.GetExtendedAgentCardRequest) -> CardAnswer:
    """Return the extended card of the agent for the caller.

    Raise Refused, with the reason of the call's version if the agent announces no extended card, and
    `EXTENDED_AGENT_CARD_NOT_CONFIGURED` if it has none all the same; NotFound `AGENT_NOT_FOUND`; Unavailable.
    """
    # Other operations may take an older card.
    agent = await find(call.plane, call.path)
    if not agent.card.capabilities.extended_agent_card:
        raise Refused("this agent has no extended card", reason=call.rules.no_extended_card)
    request = xb.GetExtendedAgentCardRequest(agent=agent.name)
    card = (await call.plane.executor.GetExtendedAgentCard(request, timeout=_DEADLINE)).card
    card.capabilities.extended_agent_card = True
    found = whole(call.plane, agent, card, base_of(call.path))
    return CardAnswer(await signed(call.plane, found, call.version))
