"""Routing of a turn: an agent that is a Router is asked for a direct answer, within the time a caller waits."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.executor import agent as port
from taskplane.executor.agent import Message, Router, Turn
from taskplane.executor.changes import MessageFactory
from taskplane.runtime.principal import Principal

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A turn that has no task yet."""

    invocation_id: str
    task_id: str
    message: a2a.Message
    caller: Principal
    calls: port.TurnCalls

    def turn(self, history: Sequence[a2a.Message] = ()) -> Turn:
        """Return the turn that a Router is given."""
        return Turn(
            task_id=self.task_id,
            context_id=self.message.context_id,
            invocation_id=self.invocation_id,
            message=self.message,
            history=history,
            task=None,
            attempt=0,
            fence=0,
            caller=self.caller,
            cancelled=asyncio.Event(),
            calls=self.calls,
        )


class Routing:
    """A call of a Router, in an asyncio task of its own, so that it can outlast the request."""

    def __init__(self, proposal: Proposal, router: Router, *, at_sight: bool) -> None:
        self._proposal = proposal
        self._router = router
        self._at_sight = at_sight
        self._asked: asyncio.Task[Message | str | None] | None = None

    async def at_sight(self) -> bool:
        """Return whether the answer is there without waiting. Only agents that route at sight are asked."""
        if not self._at_sight:
            return False
        if self._asked is None:
            self._asked = self._ask(())
            # One turn of the loop takes the router through its first step.
            await asyncio.sleep(0)
        return self._asked.done()

    async def wait(self, timeout: float, history: Sequence[a2a.Message]) -> None:
        """Wait for the router for at most `timeout` seconds; it continues after that."""
        if self._asked is None:
            self._asked = self._ask(history)
        await asyncio.wait((self._asked,), timeout=timeout)

    def answer(self) -> a2a.Message | None:
        """Return the direct answer; None if there is none yet, or none that can be sent."""
        given = self.unfinished()
        if given is None or not given.done() or given.cancelled() or given.exception() is not None:
            return None
        result = given.result()
        proposal = self._proposal
        factory = MessageFactory(
            task_id="", context_id=proposal.message.context_id, invocation_id=proposal.invocation_id, fence=0
        )
        try:
            return factory.message(result) if result is not None else None
        except (ValueError, TypeError):
            log.warning("a router gave an answer that cannot be sent", exc_info=True)
            return None

    def unfinished(self) -> "asyncio.Task[Message | str | None] | None":
        """Return the call of the router; None if it was never made or returned None."""
        asked = self._asked
        if asked is None or not asked.done() or asked.cancelled() or asked.exception() is not None:
            return asked
        return asked if asked.result() is not None else None

    def drop(self) -> None:
        """Cancel the call of the router."""
        if self._asked is not None:
            self._asked.cancel()

    def _ask(self, history: Sequence[a2a.Message]) -> "asyncio.Task[Message | str | None]":
        asked = asyncio.create_task(self._route(self._proposal.turn(history)), name="routing")
        asked.add_done_callback(_seen)
        return asked

    async def _route(self, turn: Turn) -> Message | str | None:
        try:
            return cast("Message | str | None", await self._router.route(turn))
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            # Left as it is, it would end the whole process, or not reach whoever waits for the router.
            raise RuntimeError(f"route raised {error!r}") from error


def _seen(asked: "asyncio.Task[Message | str | None]") -> None:
    """Log the failure of a router that no run waits for."""
    if not asked.cancelled() and asked.exception() is not None:
        log.warning("a router failed", exc_info=asked.exception())
