"""Agents of the A2A SDK (a2a-sdk 1.x): an `AgentExecutor` runs unchanged."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, TypeVar, cast

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as sdk
from a2a.utils.errors import A2AError
from google.protobuf.message import Message as ProtoMessage

from taskplane.agents.adapters.a2a_artifacts import chunks
from taskplane.agents.adapters.a2a_messages import Spoken
from taskplane.agents.adapters.cards import card, first_paragraph
from taskplane.agents.adapters.detection import OLD_SDK
from taskplane.agents.agent import (
    Agent,
    AgentCard,
    AgentError,
    AskAuth,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Fail,
    Policied,
    Reject,
    Turn,
)
from taskplane.agents.deep_messages import read_as
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION
from taskplane.runtime.json_values import text_in
from taskplane.runtime.principal import Principal

log = logging.getLogger(__name__)

T = TypeVar("T", bound=ProtoMessage)

Event = a2a.Message | a2a.Task | a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent

_EVENTS: Final[dict[type[Any], type[Event]]] = {
    sdk.Message: a2a.Message,
    sdk.Task: a2a.Task,
    sdk.TaskStatusUpdateEvent: a2a.TaskStatusUpdateEvent,
    sdk.TaskArtifactUpdateEvent: a2a.TaskArtifactUpdateEvent,
}
_FINAL: Final = (AskInput, AskAuth, Complete, Fail, Reject)


def adapt(found: AgentExecutor, name: str) -> Agent:
    """Return the agent that runs an executor.

    The card is the executor's attribute `agent_card` or `card`, if this is a card of the SDK or of `taskplane.agents`.
    Otherwise the card is made of the name and the docstring of the executor's class.
    """
    return ExecutorAgent(found, _card(found, name))


class ExecutorAgent:
    """An executor of the SDK as an agent. `execute` begins while the turn is routed, so that an answer with a Message
    needs no task."""

    # `route` runs the executor, so it is not called if the executor must run in a thread or process.
    routes_by_running = True

    def __init__(self, executor: AgentExecutor, card: AgentCard) -> None:
        self.card = card
        self._executor = executor

    async def route(self, turn: Turn) -> a2a.Message | AsyncIterator[Change] | None:
        """Return the Message of an executor that sends nothing else, or else the execution for the run to continue.
        None if the policy requires a thread or process."""
        if isinstance(self, Policied) and self.policy(turn).isolation != "none":
            return None
        execution = Execution(self._executor, turn)
        try:
            answer = await execution.direct_answer()
        except BaseException:
            await execution.aclose()
            raise
        return execution if answer is None else answer

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Run the executor on a turn."""
        return Execution(self._executor, turn)


class Execution(AsyncIterator[Change]):
    """One call of `execute` in an asyncio task, and its events as changes."""

    def __init__(self, executor: AgentExecutor, turn: Turn) -> None:
        self._executor = executor
        self._turn = turn
        self._events = Events()
        self._spoken = Spoken(turn.task.history if turn.task is not None else ())
        self._changes: deque[Change] = deque()
        self._context: RequestContext | None = None
        self._work: asyncio.Task[None] | None = None
        # `_answered`: the executor sent an event. `_has_task`: the event was of a task, not a Message.
        self._answered = False
        self._has_task = False
        # True if the final change was yielded, or waits in `_changes`.
        self._ended = False

    async def direct_answer(self) -> a2a.Message | None:
        """Return the Message if the executor sends nothing else. Otherwise return None; the changes then begin with the
        first event."""
        first = await self._next()
        if not isinstance(first, a2a.Message):
            self._take(first)
            return None
        second = await self._next()
        if second is None:
            return first
        self._take(first)
        self._discard(second)
        return None

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._ended:
                # The task has ended; it may still clean up.
                while (event := await self._next()) is not None:
                    self._discard(event)
                raise StopAsyncIteration
            self._take(await self._next())
        return self._changes.popleft()

    async def aclose(self) -> None:
        """Stop `execute` if it is still at work: call `cancel` of the executor, then cancel the asyncio task. Both have
        the turn's `cancel_grace` seconds."""
        self._events.close()
        if self._work is None:
            return
        grace = self._turn.cancel_grace
        until = asyncio.get_running_loop().time() + grace
        try:
            if not self._work.done():
                if self._ended:
                    await asyncio.wait((self._work,), timeout=grace)
                else:
                    await self._cancel(grace)
        finally:
            self._work.cancel()
            left = max(0.0, until - asyncio.get_running_loop().time())
            _, at_work = await asyncio.wait((self._work,), timeout=max(left, 0.1))
        if at_work:
            log.error("execute of task %s did not end after its cancellation", self._turn.task_id)
        elif not self._work.cancelled() and (error := self._work.exception()) is not None:
            log.debug("execute of task %s raised while stopping: %r", self._turn.task_id, error)

    async def _next(self) -> Event | None:
        """Return the next event, or None at the end. Raises the exceptions of `execute`."""
        if self._work is None:
            self._context = await _context(self._turn)
            self._work = asyncio.create_task(self._executor.execute(self._context, self._events), name="execute")
            self._work.add_done_callback(lambda _: self._events.end())
        event = await self._events.next()
        if event is not None:
            return event
        try:
            self._work.result()
        except A2AError as error:
            raise AgentError(error.message) from error
        return None

    def _take(self, event: Event | None) -> None:
        """Add the changes of an event, or of the end."""
        changes = self._at_end() if event is None else self._of(event)
        for change in changes:
            if self._ended:
                break
            self._changes.append(change)
            self._ended = isinstance(change, _FINAL)
        self._ended = self._ended or event is None

    def _at_end(self) -> Iterator[Change]:
        pause = self._spoken.pause
        if pause is not None:
            yield Checkpoint(_paused(pause, self._turn))
            yield pause
        elif not self._answered:
            yield Fail("The agent gave no answer.")
        else:
            yield from self._spoken.flush()

    def _of(self, event: Event) -> Iterator[Change]:
        self._answered = True
        if isinstance(event, a2a.Message):
            if self._has_task:
                raise ValueError(
                    "the executor sent a Message after the beginning of a task; it is stored as a status message"
                )
            yield from self._spoken.status(a2a.TaskStatus(state=a2a.TASK_STATE_COMPLETED, message=event))
            return
        first, self._has_task = not self._has_task, True
        task_id = event.id if isinstance(event, a2a.Task) else event.task_id
        if (task_id, event.context_id) != (self._turn.task_id, self._turn.context_id):
            raise ValueError(
                f"the executor sent an event of task {task_id!r} in context {event.context_id!r}, and works on task"
                f" {self._turn.task_id!r} in context {self._turn.context_id!r}"
            )
        if isinstance(event, a2a.TaskArtifactUpdateEvent):
            yield from self._spoken.flush()
            yield from chunks(event.artifact, append=event.append, last=event.last_chunk)
        elif isinstance(event, a2a.TaskStatusUpdateEvent):
            yield from self._spoken.status(event.status)
        elif first and _current_task(self._turn) is None:
            yield from self._spoken.snapshot(event)
            for artifact in event.artifacts:
                yield from chunks(artifact, append=False, last=True)
            yield from self._spoken.status(event.status)
        else:
            log.debug("task %s exists already; the Task from its executor is ignored", self._turn.task_id)

    def _discard(self, event: Event) -> None:
        log.warning("task %s has ended; a %s from its executor is ignored", self._turn.task_id, type(event).__name__)

    async def _cancel(self, grace: float) -> None:
        turn = self._turn
        current = _snapshot(turn.task, sdk.Task()) if turn.task is not None else None
        context = RequestContext(_call_context(turn), task_id=turn.task_id, context_id=turn.context_id, task=current)
        try:
            async with asyncio.timeout(grace):
                await self._executor.cancel(context, self._events)
        except TimeoutError:
            log.warning("cancel of task %s took longer than %g s; cancelling its execute", turn.task_id, grace)
        except Exception as error:  # noqa: BLE001 - many executors cannot cancel and say so
            log.info("the executor could not cancel task %s; cancelling its execute: %r", turn.task_id, error)


class Events(EventQueue):
    """The events of one execution, one at a time: `enqueue_event` returns when the event has been passed on."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[Event, asyncio.Future[None]] | None] = asyncio.Queue()
        self._passed: asyncio.Future[None] | None = None
        self._is_open = True
        # The loop of `execute`; None before its start.
        self._loop: asyncio.AbstractEventLoop | None = None

    async def enqueue_event(self, event: Any) -> None:
        """Send an event, and wait until it is passed on. Events after the end are discarded. TypeError: it is
        none of this version of the SDK. RuntimeError: this is not the event loop of `execute`."""
        given: object = event
        kind = _EVENTS.get(type(given))
        if kind is None:
            raise TypeError(f"an executor sends a Message, a Task or an update of one, not {type(given)}; {OLD_SDK}")
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError(
                "an executor sends its events in the event loop of `execute`; from another thread,"
                " asyncio.run_coroutine_threadsafe(event_queue.enqueue_event(event), loop) does"
            )
        if not self._is_open:
            return
        passed = loop.create_future()
        # A copy: the executor may change the event after it sent it.
        self._waiting.put_nowait((read_as(kind, event), passed))
        await passed

    async def next(self) -> Event | None:
        """Return the next event, or None at the end. The previous event then counts as passed on."""
        self._loop = asyncio.get_running_loop()
        _pass(self._passed)
        self._passed = None
        if not self._is_open and self._waiting.empty():
            return None
        item = await self._waiting.get()
        if item is None:
            return None
        event, self._passed = item
        return event

    def end(self) -> None:
        """Take no more events; waiting events can still be read."""
        self._is_open = False
        self._waiting.put_nowait(None)

    def close(self) -> None:
        """Take no more events, and discard waiting events."""
        self._is_open = False
        _pass(self._passed)
        while not self._waiting.empty():
            item = self._waiting.get_nowait()
            if item is not None:
                _pass(item[1])


class _Caller(User):
    """The caller of a turn as the SDK knows users."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self._principal.owner


def _pass(passed: "asyncio.Future[None] | None") -> None:
    if passed is not None and not passed.done():
        passed.set_result(None)


async def _context(turn: Turn) -> RequestContext:
    request = sdk.SendMessageRequest(
        tenant=turn.caller.tenant,
        message=_snapshot(turn.message, sdk.Message()),
        configuration=sdk.SendMessageConfiguration(accepted_output_modes=turn.output_modes),
    )
    request.metadata.update(dict(turn.metadata))
    related = await turn.referenced() if turn.message.reference_task_ids else []
    return RequestContext(
        _call_context(turn),
        request,
        task_id=turn.task_id,
        context_id=turn.context_id,
        task=_current_task(turn),
        related_tasks=[_snapshot(task, sdk.Task()) for task in related],
    )


def _call_context(turn: Turn) -> ServerCallContext:
    return ServerCallContext(
        user=_Caller(turn.caller), tenant=turn.caller.tenant, requested_extensions=set(turn.extensions)
    )


def _current_task(turn: Turn) -> sdk.Task | None:
    """Return the task as on the SDK's server: None for its first message, and later without the message of the turn.

    If the message answers a question, the task is paused, with the question as its status.
    """
    if turn.task is None or not turn.task.history or turn.task.history[0].message_id == turn.message.message_id:
        return None
    task = _snapshot(turn.task, sdk.Task())
    before = [message for message in task.history if message.message_id != turn.message.message_id]
    del task.history[:]
    paused = cast("dict[str, Any]", turn.checkpoint or {})
    if before and paused and text_in(before[-1].metadata, INVOCATION) == paused.get("invocation"):
        task.status.state = sdk.TaskState.Value(paused["state"])  # type: ignore[assignment]
        task.status.message.CopyFrom(before.pop())
    task.history.extend(before)
    return task


def _paused(pause: AskInput | AskAuth, turn: Turn) -> dict[str, Any]:
    state = "TASK_STATE_AUTH_REQUIRED" if isinstance(pause, AskAuth) else "TASK_STATE_INPUT_REQUIRED"
    return {"state": state, "invocation": turn.invocation_id}


def _snapshot(ours: ProtoMessage, theirs: T) -> T:
    """Fill an empty message of the SDK with the content of ours."""
    theirs.ParseFromString(ours.SerializeToString())
    return theirs


def _card(found: AgentExecutor, name: str) -> AgentCard:
    for attribute in ("agent_card", "card"):
        given: Any = getattr(found, attribute, None)
        if getattr(getattr(given, "DESCRIPTOR", None), "name", "") == "AgentCard":
            made = AgentCard.FromString(given.SerializeToString())
            del made.supported_interfaces[:], made.signatures[:]
            return made
    return card(name, first_paragraph(type(found)) or f"Answers with {type(found).__name__}.")
