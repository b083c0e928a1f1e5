"""Whether a turn is answered directly: asking an agent that is a Router, within the time a caller waits."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
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

    def turn(self, history: Sequence[a2a.Message] = ()) -> Turn:
        """As a Router sees it."""
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
            read_incoming=_nothing,
        )


class Routing:
    """One question to a Router, asked in a task of its own, so that it can outlast the call."""

    def __init__(self, proposal: Proposal, router: Router, *, at_sight: bool) -> None:
        self._proposal = proposal
        self._router = router
        self._at_sight = at_sight
        self._asked: asyncio.Task[Message | str | None] | None = None

    async def at_sight(self) -> bool:
        """Whether the answer is there already, without waiting for anything: only of agents that route at sight."""
        if not self._at_sight:
            return False
        if self._asked is None:
            self._asked = self._ask(())
            # One turn of the loop takes the router through its first step.
            await asyncio.sleep(0)
        return self._asked.done()

    async def wait(self, timeout: float, history: Sequence[a2a.Message]) -> None:
        """Gives the router at most `timeout` seconds; it goes on if that is too short."""
        if self._asked is None:
            self._asked = self._ask(history)
        await asyncio.wait((self._asked,), timeout=timeout)

    def answer(self) -> a2a.Message | None:
        """The direct answer, if there is one by now that can be sent."""
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
        """The question, unless it was answered with "make a task" or never asked."""
        asked = self._asked
        if asked is None or not asked.done() or asked.cancelled() or asked.exception() is not None:
            return asked
        return asked if asked.result() is not None else None

    def drop(self) -> None:
        """Nobody waits for the answer any more."""
        if self._asked is not None:
            self._asked.cancel()

    def _ask(self, history: Sequence[a2a.Message]) -> "asyncio.Task[Message | str | None]":
        asked = asyncio.create_task(self._router.route(self._proposal.turn(history)), name="routing")
        asked.add_done_callback(_seen)
        return asked


def _seen(asked: "asyncio.Task[Message | str | None]") -> None:
    """A failure that no run takes up is logged here, by the loop of the task otherwise."""
    if not asked.cancelled() and asked.exception() is not None:
        log.warning("a router failed", exc_info=asked.exception())


async def _nothing() -> list[a2a.Message]:
    return []
