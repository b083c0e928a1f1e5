"""The agent's side of one turn: its changes, its required artifact, and the end of the turn."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from taskplane.agents import agent as port
from taskplane.agents.changes import Ending
from taskplane.agents.faults import failed, shut, thrown
from taskplane.agents.hosted import Hosted
from taskplane.agents.processes.isolation import changes_of
from taskplane.agents.sources import standing_at
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.runs.agent_task import AgentTask, End
from taskplane.executor.runs.change_buffer import ChangeBuffer
from taskplane.executor.runs.inputs import Input, Inputs
from taskplane.executor.runs.outbox import Outbox
from taskplane.executor.runs.ports import Ports
from taskplane.executor.runs.router_call import RouterCall
from taskplane.runtime.retry import retry_until_reachable

log = logging.getLogger(__name__)

_NO_REASON: Final = "The agent failed and gave no reason."
_REJECTED: Final = "The agent rejected the task and gave no reason."
_FINAL: Final = (port.AskInput, port.AskAuth, port.Complete, port.Fail, port.Reject)
# The changes that an ArtifactMaker may yield.
_OF_ARTIFACT: Final = (port.ArtifactChunk, port.Working, port.Usage, port.Fail)

# Number of changes without a pause after which other tasks of the event loop run.
_AT_ONCE: Final = 64


class AgentTurn:
    """An agent at work on one turn. `act` is called in the task of the agent."""

    def __init__(
        self,
        ports: Ports,
        hosted: Hosted,
        policy: port.Policy,
        given: Input,
        turn: port.Turn,
        *,
        outbox: Outbox,
        buffer: ChangeBuffer,
        inputs: Inputs,
        begun: RouterCall | None = None,
    ) -> None:
        """`begun`: the call of a router that made the iterator to go on with."""
        self.agent = hosted.name
        self.task_id = turn.task_id
        self._ports = ports
        self._hosted = hosted
        self._policy = policy
        self._given = given
        self._turn = turn
        self._outbox = outbox
        self._buffer = buffer
        self._inputs = inputs
        self._begun = begun

    def so_far(self) -> port.Turn:
        """Return the turn with its messages."""
        turn = self._turn
        return replace(turn, history=[*turn.history, turn.message, *self._buffer.said])

    async def act(self, acting: AgentTask) -> None:
        """Have the agent work on the turn to its end."""
        changes = self._begun or self._changes(self._turn, "run")
        try:
            final = await self._drive(changes, acting)
            # At once, so that the final message is sent along with the changes just before.
            end = self.end_of(final if final is not None else port.Complete())
            if end[0] == a2a.TASK_STATE_COMPLETED and await self._lacks_artifact():
                if final is None:
                    # So that its process, for instance, is free for the maker.
                    await shut(changes)
                failure = await self._make_artifact(acting)
                end = self.end_of(failure) if failure is not None else end
            self._buffer.end_turn()
            if await acting.ends_with(end) and final is not None:
                await self._expect_no_more(changes, acting)
        finally:
            await shut(changes)

    def end_of(self, final: port.Final) -> End:
        """Return the state and the message with which a turn ends; begin to say the message. AgentFailed."""
        buffer = self._buffer
        try:
            buffer.end_artifacts()
            match final:
                case port.Complete(given):
                    return a2a.TASK_STATE_COMPLETED, self._last_message(given, a2a.TASK_STATE_COMPLETED)
                case port.Fail(reason):
                    # A text that is still open is whole: the agent chose to end here.
                    return a2a.TASK_STATE_FAILED, buffer.message(_or(reason, _NO_REASON), grows=False)[0]
                case port.Reject(reason):
                    return a2a.TASK_STATE_REJECTED, buffer.message(_or(reason, _REJECTED), grows=False)[0]
                case port.AskInput(given) | port.AskAuth(given):
                    auth = isinstance(final, port.AskAuth)
                    state = a2a.TASK_STATE_AUTH_REQUIRED if auth else a2a.TASK_STATE_INPUT_REQUIRED
                    return state, self._last_message(given, state)
        except Exception as error:
            raise failed(error, self.task_id) from error

    def _last_message(self, given: str | a2a.Message | None, state: "a2a.TaskState.ValueType") -> a2a.Message | None:
        # An artifact that is made afterwards may fail.
        certain = state != a2a.TASK_STATE_COMPLETED or self._hosted.artifact_maker is None
        return self._buffer.last_message(given, Ending(state, self._inputs.consumed) if certain else Ending())

    async def _lacks_artifact(self) -> bool:
        """Return whether the agent is to make an artifact before the task completes."""
        if self._hosted.artifact_maker is None or self._buffer.made_artifact or self._inputs.unread:
            return False
        if self._policy.on_orphan == "resume":
            # A run before may have made one, which is still there.
            request = pb.ListEventsRequest(
                task_id=self.task_id,
                kinds=[pb.EVENT_KIND_ARTIFACT],
                after_generation=self._given.generation,
                limit=1,
            )
            return not (await retry_until_reachable(lambda: self._ports.store.ListEvents(request))).events
        return True

    async def _make_artifact(self, acting: AgentTask) -> port.Fail | None:
        """Let the agent make an artifact; return the failure that it yields, if any."""
        changes = self._changes(self.so_far(), "make_artifact")
        try:
            final = await self._drive(changes, acting, _OF_ARTIFACT)
            self._buffer.end_artifacts()
        finally:
            await shut(changes)
        return final if isinstance(final, port.Fail) else None

    def _changes(self, turn: port.Turn, method: str) -> AsyncIterator[port.Change]:
        try:
            return changes_of(
                self._hosted, turn, self._policy, self._ports.processes, lambda: self._outbox.until, method
            )
        except BaseException as error:
            raise failed(error, turn.task_id) from error

    async def _drive(
        self, changes: AsyncIterator[port.Change], acting: AgentTask, allowed: tuple[type, ...] = ()
    ) -> port.Final | None:
        """Take the changes of the agent; return the final change, or None without a final change. `allowed`: the types
        of change that it may yield; empty: all."""
        outbox = self._outbox
        # A cancellation by the agent itself that came while it did not run.
        canceled: asyncio.CancelledError | None = None
        taken = 0
        while True:
            taken += 1
            try:
                change = await (anext(changes) if canceled is None else thrown(changes, canceled))
            except StopAsyncIteration:
                acting.check()
                return None
            except BaseException as error:
                if acting.is_ours(error):
                    raise
                raise failed(error, self.task_id) from error
            acting.check()
            canceled = None
            try:
                if allowed and not isinstance(change, allowed):
                    raise TypeError(f"make_artifact must not yield {type(change).__name__}")
                if isinstance(change, _FINAL):
                    return change
                self._buffer.take(change)
            except Exception as error:
                raise failed(error, self.task_id, standing_at(changes)) from error
            if outbox.blocked or taken % _AT_ONCE == 0:
                try:
                    await (outbox.space() if outbox.blocked else asyncio.sleep(0))
                except asyncio.CancelledError as error:
                    if acting.stopped:
                        raise
                    canceled = error

    async def _expect_no_more(self, changes: AsyncIterator[port.Change], acting: AgentTask) -> None:
        """Let the agent finish after its final change; a further change is its bug."""
        try:
            extra = await anext(changes)
        except StopAsyncIteration:
            return
        except BaseException as error:
            if acting.is_ours(error):
                raise
            log.exception("the agent of task %s raised after its final change", self.task_id)
            return
        at = standing_at(changes)
        place = f" at {at}" if at else ""
        text = (
            f"the agent of task {self.task_id} yielded {_shown(extra)}{place} after its final change; it is discarded"
        )
        log.critical(text)
        if self._ports.strict:
            raise RuntimeError(text)


def _or(reason: str | a2a.Message, plain: str) -> str | a2a.Message:
    """Return the reason, or the plain sentence where it is blank."""
    blank = not reason.strip() if isinstance(reason, str) else not reason.parts
    return plain if blank else reason


def _shown(change: object) -> str:
    try:
        return repr(change)
    except BaseException:  # noqa: BLE001 - code of the author, which may raise anything
        return f"one of {type(change).__name__}"
