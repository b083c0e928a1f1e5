"""An agent with its name and its optional methods, which are looked up once."""

import inspect
import logging
from dataclasses import dataclass
from typing import Final, cast

from taskplane.agents.agent import (
    Agent,
    AgentCard,
    ArtifactMaker,
    Closing,
    Extended,
    Policied,
    Policy,
    Router,
    StatusWriter,
    Turn,
)
from taskplane.agents.card_rules import broken_rules
from taskplane.agents.elsewhere import Elsewhere
from taskplane.runtime.principal import Principal

log = logging.getLogger(__name__)

_DEFAULT: Final = Policy()


NO_THREAD: Final = "it keeps its connections to the provider of the model, which a thread of its own cannot use"


class PolicyFailed(Exception):
    """The policy of an agent raised, or returned anything but a Policy; the cause says which."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Hosted:
    """An agent with its name and its optional methods. Made by `of`."""

    name: str
    agent: Agent
    router: Router | None
    routes_at_sight: bool
    status_writer: StatusWriter | None
    artifact_maker: ArtifactMaker | None
    _policied: Policied | None
    # The isolation that the operator has set; empty: that of the policy.
    isolation: str
    # The spec by which a process of its own loads the agent; empty: the agent was made in code.
    source: str
    # True if workers elsewhere run the agent.
    elsewhere: bool

    @classmethod
    def of(cls, name: str, agent: Agent, isolation: str = "", source: str = "") -> "Hosted":
        """Look up the agent's optional methods; `isinstance` with a protocol is too slow for every turn."""
        router = agent if isinstance(agent, Router) else None
        if isolation in ("thread", "process") and getattr(agent, "routes_by_running", False):
            # `route` would do the work of the run in the event loop of the executor.
            router = None
        early = router is not None and bool(getattr(agent, "routes_at_sight", False))
        return cls(
            name=name,
            agent=agent,
            router=router,
            routes_at_sight=early,
            status_writer=agent if isinstance(agent, StatusWriter) else None,
            artifact_maker=agent if isinstance(agent, ArtifactMaker) else None,
            _policied=agent if isinstance(agent, Policied) else None,
            isolation=isolation,
            source=source,
            elsewhere=isinstance(agent, Elsewhere),
        )

    def policy(self, turn: Turn) -> Policy:
        """Return the policy of the agent for a turn; the default policy without the method `policy`. PolicyFailed."""
        if self._policied is None:
            return _DEFAULT
        try:
            # Agents are not all typed.
            found = cast("object", self._policied.policy(turn))
            if isinstance(found, Policy):
                if found.isolation == "thread" and not self.isolation and self.one_event_loop:
                    raise ValueError(f"isolation 'thread': {NO_THREAD}; leave it out, or use a process: @process")
                return found
            if inspect.iscoroutine(found):
                found.close()
            raise TypeError(f"policy must return a Policy, not {type(found).__name__}")
        except BaseException as error:
            raise PolicyFailed(f"the policy of agent {self.name} could not be read") from error

    @property
    def card(self) -> AgentCard:
        """Return the public card, which says whether the agent has an extended one."""
        if not isinstance(self.agent, Extended) or self.agent.card.capabilities.extended_agent_card:
            return self.agent.card
        found = AgentCard()
        found.CopyFrom(self.agent.card)
        found.capabilities.extended_agent_card = True
        return found

    async def extended_card(self, caller: Principal) -> AgentCard | None:
        """Return the extended card for a caller, None without one. TypeError, ValueError: it is no card that clients
        can read. Exceptions of the agent are passed on."""
        if not isinstance(self.agent, Extended):
            return None
        given: object = self.agent.extended_card(caller)
        found = cast("object", await given if inspect.isawaitable(given) else given)
        if found is None:
            return None
        if not isinstance(found, AgentCard):
            raise TypeError(f"extended_card must return an AgentCard or None, not {type(found).__name__}")
        if broken := broken_rules(found):
            raise ValueError(f"the extended card breaks rules of A2A: {'; '.join(map(str, broken))}")
        return found

    @property
    def one_event_loop(self) -> bool:
        """Return whether the agent belongs to one event loop, so that it cannot run in a thread of its own."""
        return bool(getattr(self.agent, "one_event_loop", False))

    async def close(self) -> None:
        """Close resources of the agent; exceptions go to the log."""
        if not isinstance(self.agent, Closing):
            return
        try:
            await self.agent.aclose()
        except Exception:
            log.exception("agent %s could not be closed", self.name)
