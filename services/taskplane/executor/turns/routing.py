"""Routing of a turn: an agent that is a Router is asked for a direct answer. The caller waits a limited time for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from taskplane.agents.agent import Message, Router, Turn
from taskplane.agents.changes import MessageFactory
from taskplane.agents.hosted import Hosted
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.runs.ports import Ports
from taskplane.executor.runs.router_call import RouterCall, no_messages
from taskplane.executor.runs.turn_calls import Calls
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.principal import Principal

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """A turn of which it is not decided yet whether it gets a task."""

    ports: Ports
    invocation_id: str
    task_id: str
    message: a2a.Message
    options: tasks.TurnOptions
    caller: Principal
    waits: bool = False

    def as_turn(
        self,
        history: Sequence[a2a.Message] = (),
        *,
        cancelled: asyncio.Event | None = None,
        read: Callable[[], Awaitable[list[Message]]] = no_messages,
    ) -> Turn:
        """Return the turn for `Router.route`. `read` implements `Turn.incoming`."""
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
            cancelled=cancelled or asyncio.Event(),
            calls=Calls(
                ports=self.ports,
                caller=self.caller,
                context_id=self.message.context_id,
                invocation_id=self.invocation_id,
                references=self.message.reference_task_ids,
                read=read,
            ),
            metadata=to_dict(self.options.metadata),
            output_modes=tuple(self.options.accepted_output_modes),
            extensions=tuple(self.options.extensions),
            cancel_grace=self.ports.cancel_grace,
            waits=self.waits,
        )


class Routing:
    """One call of a Router for a turn."""

    def __init__(self, turn: NewTurn, hosted: Hosted, router: Router, background: BackgroundTasks) -> None:
        self._turn = turn
        self._router = router
        self._background = background
        self._agent = hosted.name
        self._routes_at_sight = hosted.routes_at_sight
        self._call: RouterCall | None = None

    async def is_decided_early(self) -> bool:
        """Return whether the router decided in its first step. Only for agents whose router needs the message alone
        (`routes_at_sight`)."""
        if not self._routes_at_sight:
            return False
        if self._call is None:
            self._call = self._ask(())
            # One cycle of the event loop runs the first step of the router.
            await asyncio.sleep(0)
        return self._call.is_decided

    async def wait(self, timeout: float, history: Sequence[a2a.Message]) -> None:
        """Wait for the router for at most `timeout` seconds; it continues after that."""
        if self._call is None:
            self._call = self._ask(history)
        await self._call.wait(timeout)

    def answer(self) -> a2a.Message | None:
        """Return the direct answer; None if the router has not given one, or if it cannot be sent."""
        found = self._call.now() if self._call is not None else None
        if not isinstance(found, (str, Message)):
            return None
        turn = self._turn
        factory = MessageFactory(
            task_id="", context_id=turn.message.context_id, invocation_id=turn.invocation_id, fence=0
        )
        try:
            return factory.message(found)
        except (ValueError, TypeError):
            log.warning("the answer of a router cannot be sent", exc_info=True)
            return None

    def call_for_run(self) -> RouterCall | None:
        """Return the call if the run must continue it: it is undecided, failed, answered, or returned an iterator."""
        return self._call if self._call is not None and self._call.goes_on else None

    def drop(self) -> None:
        """Stop the router, and close its iterator."""
        if self._call is not None:
            self._call.cancelled.set()
            self._call.stop()

    def _ask(self, history: Sequence[a2a.Message]) -> RouterCall:
        async def route(call: RouterCall) -> object:
            return await self._router.route(self._turn.as_turn(history, cancelled=call.cancelled, read=call.incoming))

        return RouterCall(route, self._agent, self._turn.task_id, self._background)
