"""The extended card of an agent: made by its author, checked as the public one is."""

import logging

from taskplane.agents.agent import AgentCard
from taskplane.agents.faults import is_ours
from taskplane.agents.hosted import Hosted
from taskplane.runtime.errors import Refused
from taskplane.runtime.principal import Principal

_log = logging.getLogger(__name__)


async def extended_card(hosted: Hosted, caller: Principal) -> AgentCard:
    """Return the extended card of an agent for a caller.

    Raise Refused `EXTENDED_AGENT_CARD_NOT_CONFIGURED` if there is none; `INVALID_AGENT_RESPONSE` if the agent raises
    or exits, or returns a card that clients cannot read. The log then has the exception.
    """
    try:
        card = await hosted.extended_card(caller)
    except BaseException as error:
        if is_ours(error):
            raise
        _log.exception("the extended card of agent %s could not be made", hosted.name)
        raise Refused("the agent could not make its extended card", reason="INVALID_AGENT_RESPONSE") from error
    if card is None:
        raise Refused("this agent has no extended card", reason="EXTENDED_AGENT_CARD_NOT_CONFIGURED")
    return card
