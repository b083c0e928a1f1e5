"""One run: an agent at work on one task under one lease. One loop: agent -> outbox -> log. A run owns no durable data.

Over 300 lines: start, end and stop of a run must be read together.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.trace import INVALID_SPAN, Span

from taskplane.agents import agent as port
from taskplane.agents.changes import MessageFactory, Status
from taskplane.agents.faults import AGENT_ERROR, AgentFailed, failed, is_ours, unexpected
from taskplane.agents.hosted import Hosted, PolicyFailed
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.runs import metrics
from taskplane.executor.runs.agent_task import AgentTask, End
from taskplane.executor.runs.agent_turn import AgentTurn
from taskplane.executor.runs.change_buffer import ChangeBuffer
from taskplane.executor.runs.copy_buffer import CopyBuffer
from taskplane.executor.runs.given_ids import GivenIds, said_before
from taskplane.executor.runs.inputs import Input, Inputs
from taskplane.executor.runs.outbox import CommittedItem, ItemRefused, Outbox, Stopped
from taskplane.executor.runs.ports import Ports
from taskplane.executor.runs.router_call import RouterCall
from taskplane.executor.runs.session import RunSession, SessionGone, TurnCut
from taskplane.executor.runs.status_texts import StatusTexts
from taskplane.executor.runs.turn_calls import Calls
from taskplane.executor.session_entries import TASK_DELETED
from taskplane.executor.sweeps.copying import Source
from taskplane.runtime import logs, tracing
from taskplane.runtime.errors import Internal, NotFound, PlaneError, Refused
from taskplane.runtime.failpoints import afp
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.principal import Principal
from taskplane.runtime.retry import retry_briefly, retry_until_reachable

log = logging.getLogger(__name__)

# Refusals of valid changes, since the task has no room for them.
_LIMITS: Final = frozenset({"TASK_TOO_LARGE", "TOO_MANY_EVENTS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """The data of a task that this process has just created. The run need not read the task."""

    message: a2a.Message
    options: pb.TurnOptions
    task: a2a.Task
    policy: port.Policy | PolicyFailed
    # The generation of its newest event.
    head: int
    # The session has tasks with uncopied messages.
    uncopied: bool
    # The user's message is in the session.
    saved: bool
    # The session was empty before this turn.
    begins_session: bool
    # A router call for the run to continue: the router was too slow for the caller, failed, or began work.
    routing: RouterCall | None = None


class Run:
    """The run of a task under one fence. A process has at most one run for each task and fence."""

    def __init__(
        self,
        ports: Ports,
        hosted: Hosted,
        record: pb.TaskRecord,
        fence: int,
        *,
        until: float,
        caller: Principal,
        fresh: Fresh | None = None,
    ) -> None:
        """`until`: monotonic time up to which the lease is certain. `fresh`: None for a task from the queue."""
        self.uid = record.uid
        self.task_id = record.id
        self.agent = record.agent
        self.owner = record.tenant, record.owner
        self.fence = fence
        self._routing = fresh.routing if fresh is not None else None
        self.cancelled = self._routing.cancelled if self._routing is not None else asyncio.Event()
        self.worker: asyncio.Task[None] | None = None
        self._stopped = False
        self._ports = ports
        self._hosted = hosted
        self._record = record
        self._caller = caller
        self._fresh = fresh
        self._task = fresh.task if fresh is not None else a2a.Task()
        self._source = Source.of(record)
        self.outbox = Outbox(
            record.uid,
            fence,
            until=until,
            ring=ports.appender.ring,
            committed=self._committed,
            lost=self.stop,
        )
        self.outbox.mark_copied(record.copied_generation)
        self._session = self._session_of(record)
        used = ports.at_work.used_in(caller, record.context_id)
        self._inputs = Inputs(ports.store, record, self.outbox, used)
        remembers = hosted.status_writer is not None or hosted.artifact_maker is not None
        self._change_buffer = ChangeBuffer(
            self.outbox, self._speak(record.invocation_id), GivenIds(used), remembers=remembers
        )
        self._status_texts = StatusTexts(ports, hosted, record.id, self.outbox, self._change_buffer)
        self._limit = asyncio.timeout(None)
        # The agent at work on the newest turn.
        self._acting: AgentTask | None = None
        self._policy = port.Policy()
        self._span: Span = INVALID_SPAN

    def _committed(self, item: CommittedItem) -> None:
        self._session.committed(item)

    def stop(self) -> bool:
        """Stop a run after the loss of its lease or the end of its task. Store nothing more, and notify the agent.

        Return False, and do nothing, after an earlier stop: the clean-up of the agent is not cancelled.
        """
        if self._stopped:
            return False
        self._stopped = True
        if not self.cancelled.is_set():
            metrics.STOPPED.labels(self.agent).inc()
        self.cancelled.set()
        self.outbox.close()
        if self.worker is not None and not self.outbox.at_rest:
            self.worker.cancel()
        self._await_end()
        return True

    def _await_end(self) -> None:
        """Log an error if the agent still runs after `cancel_grace`."""
        grace = self._ports.cancel_grace

        def complain() -> None:
            if self.worker is not None and not self.worker.done():
                log.error("the agent of task %s did not stop within %g s", self.task_id, grace)

        asyncio.get_running_loop().call_later(grace, complain)

    @property
    def unchecked(self) -> bool:
        """Return whether a rewind before the creation of the task is possible and not checked yet."""
        return self._session.unchecked

    async def work(self) -> None:
        """Run the agent to the end or pause of the task. Raises only bugs."""
        logs.task_id.set(self.task_id)
        logs.agent.set(self.agent)
        attributes: dict[str, str | int] = {
            "taskplane.task.id": self.task_id,
            "taskplane.invocation.id": self._record.invocation_id,
            "taskplane.agent": self._record.agent,
            "taskplane.attempt": self._record.attempt,
            "taskplane.fence": self.fence,
        }
        # The run of a new task is part of the call that created the task, and has the context of the call.
        parent = "" if self._fresh is not None else self._record.traceparent
        with tracing.span(f"run {self._record.agent}", attributes, parent=parent) as self._span:
            self.outbox.traceparent = tracing.traceparent()
            await self._work()

    async def _work(self) -> None:
        try:
            async with self._limit:
                await self._live()
        except Stopped:
            log.info("the run of task %s under fence %d was stopped", self.task_id, self.fence)
        except AgentFailed as error:
            await self._fail(error.reason, str(error), error.cause)
        except ItemRefused as refusal:
            log.error("changes of the run of task %s were refused: %s (%s)", self.task_id, refusal, refusal.reason)
            self.outbox.clear()
            if refusal.reason in _LIMITS:
                await self._fail(refusal.reason, f"The task was ended: {refusal.message}.")
            else:
                await self._fail(AGENT_ERROR, unexpected(self.task_id))
        except TimeoutError:
            if not self._limit.expired():
                raise
            log.info("stopping the run of task %s under fence %d: its time limit is exceeded", self.task_id, self.fence)
            self._await_end()
            if not self.outbox.at_rest:
                await self._fail("RUN_TIMEOUT", "The agent was stopped because it exceeded its time limit.")
        except SessionGone:
            await self._session.delete_task()
        except TurnCut:
            log.info("the turn of task %s was withdrawn before its beginning; its run ends", self.task_id)
        except NotFound:
            log.info("task %s no longer exists; its run ends", self.task_id)
        except PlaneError as error:
            bug = error if isinstance(error, Internal) else None
            log.error("the run of task %s failed: %s", self.task_id, error, exc_info=bug)
            await self._fail(error.reason, f"The run failed: {error.message}.")
        finally:
            self.cancelled.set()
            self.outbox.close()
            self._ports.appender.forget(self.outbox)
            try:
                await self._session.close()
            finally:
                await self._leave_agent()

    async def _leave_agent(self) -> None:
        """Wait, without a limit, until no code of the agent runs."""
        try:
            if self._acting is not None:
                await self._acting.close()
        finally:
            if self._routing is not None:
                await self._routing.aclose()
            await self._status_texts.close()

    async def _live(self) -> None:
        if self._fresh is not None:
            self._inputs.begin(self._fresh.message, self._fresh.options)
            if not self._fresh.saved:
                await self._copy_message()
            if self._fresh.uncopied:
                await self._copy_others()
        else:
            await self._load()
        first = True
        while True:
            given = await self._inputs.next()
            if not first:
                tracing.link(given.traceparent)
                await self._begin_further_turn()
            if await self._turn(given, first=first):
                return
            first = False

    async def _copy_message(self) -> None:
        """Copy the message that the session store did not accept. Raise Unavailable if the store stays unreachable for
        a while. Then the new task fails, and its sender need not wait."""
        try:
            await retry_briefly(lambda: self._ports.copier.copy_task(self._source, self._record.copied_generation))
        except Refused as error:
            if error.reason == TASK_DELETED:
                raise SessionGone from error
            raise

    async def _load(self) -> None:
        """Read a task from the queue, and append WORKING before the agent has any effect."""
        response = await retry_until_reachable(
            lambda: self._ports.store.GetTask(pb.GetTaskRequest(task_id=self.task_id))
        )
        self._record, self._task = response.record, response.record.task
        self._session = self._session_of(self._record)
        self._change_buffer.artifacts.update(artifact.artifact_id for artifact in self._task.artifacts)
        if self._record.checkpoint_generation:
            self._change_buffer.checkpoint = await self._read_checkpoint()
        await self._copy_others()
        self.outbox.put(Status(a2a.TASK_STATE_WORKING))
        await self.outbox.flush()
        await self._session.copy()

    async def _read_checkpoint(self) -> Any:
        request = pb.ListEventsRequest(
            task_id=self.task_id, kinds=[pb.EVENT_KIND_CHECKPOINT], newest_first=True, limit=1
        )
        found = await retry_until_reachable(lambda: self._ports.store.ListEvents(request))
        return json.loads(found.events[0].checkpoint) if found.events else None

    async def _copy_others(self) -> None:
        """Copy missing messages of other tasks of the session, for the history of a turn."""
        await retry_until_reachable(lambda: self._ports.copier.sweep(self._ports.actor, self._source.context_id))

    async def _begin_further_turn(self) -> None:
        """Copy the messages so far, for the history of the next turn, and read the task."""
        await self._flush()
        await self._session.copy()
        response = await retry_until_reachable(
            lambda: self._ports.store.GetTask(pb.GetTaskRequest(task_id=self.task_id))
        )
        self._task = response.record.task

    async def _turn(self, given: Input, *, first: bool) -> bool:
        """Let the agent answer one message; return whether the task is at rest afterwards."""
        self._change_buffer.begin_turn(self._speak(given.invocation_id))
        self._session.begin_turn(given.invocation_id)
        turn = await self._turn_of(given)
        before = said_before(self._task, given.invocation_id) if self._record.attempt > 1 else ()
        self._change_buffer.ids.begin_turn(self._session.message_ids, before, f"{given.invocation_id}-")
        begun: RouterCall | None = None
        if first:
            self._take_policy(turn)
            if self._routing is not None:
                self._routing.read = self._inputs.incoming
                found = await self._decision(self._routing)
                if isinstance(found, AsyncIterator):
                    begun = self._routing
                elif not (found is None or isinstance(found, port.MakeTask)):
                    return await self._end(self._working_on(given, turn).end_of(port.Complete(found)))  # type: ignore[arg-type]
        at_work = self._working_on(given, turn, begun)
        self._acting = acting = AgentTask(at_work.act)
        try:
            self._session.copies_at_once = True
            try:
                with self._status_texts.beside(at_work.so_far):
                    end = await acting.end()
            finally:
                # A later step copies the end, and then marks the task as copied.
                self._session.copies_at_once = False
            at_rest = await self._end(end)
            if at_rest:
                await acting.finish()
            return at_rest
        except asyncio.CancelledError:
            self.cancelled.set()
            acting.stop()
            raise
        finally:
            if not self._limit.expired():
                await acting.close()

    async def _turn_of(self, given: Input) -> port.Turn:
        return port.Turn(
            task_id=self.task_id,
            context_id=self._source.context_id,
            invocation_id=given.invocation_id,
            message=given.message,
            history=await self._session.history(given, self._inputs.unread_invocations()),
            task=self._task,
            attempt=self._record.attempt,
            fence=self.fence,
            caller=self._caller,
            cancelled=self.cancelled,
            calls=Calls(
                ports=self._ports,
                caller=self._caller,
                context_id=self._source.context_id,
                invocation_id=given.invocation_id,
                references=given.message.reference_task_ids,
                read=self._inputs.incoming,
                task_id=self.task_id,
                task_invocation_id=self._source.invocation_id,
            ),
            metadata=to_dict(given.options.metadata),
            output_modes=tuple(given.options.accepted_output_modes),
            extensions=tuple(given.options.extensions),
            checkpoint=self._change_buffer.checkpoint,
            cancel_grace=self._ports.cancel_grace,
        )

    def _working_on(self, given: Input, turn: port.Turn, begun: RouterCall | None = None) -> AgentTurn:
        return AgentTurn(
            self._ports,
            self._hosted,
            self._policy,
            given,
            turn,
            outbox=self.outbox,
            buffer=self._change_buffer,
            inputs=self._inputs,
            begun=begun,
        )

    def _take_policy(self, turn: port.Turn) -> None:
        """Ask for the policy of the whole run, once, and start the time limit of the run."""
        try:
            policy = self._fresh.policy if self._fresh is not None else self._hosted.policy(turn)
        except PolicyFailed as error:
            policy = error
        if isinstance(policy, PolicyFailed):
            raise failed(policy, self.task_id) from policy
        self._policy = policy
        if limit := self._policy.run_limit or self._ports.run_limit:
            self._limit.reschedule(asyncio.get_running_loop().time() + limit)

    async def _decision(self, routing: RouterCall) -> object:
        try:
            return await routing.decision()
        except BaseException as error:
            if is_ours(error):
                raise
            raise failed(error, self.task_id) from error

    async def _end(self, end: End) -> bool:
        """Commit the end of a turn. Return False if a message of the user is waiting: then the task goes on."""
        state, message = end
        if state in (a2a.TASK_STATE_FAILED, a2a.TASK_STATE_REJECTED):
            assert message is not None
            await self._close(state, message, "AGENT_FAILED" if state == a2a.TASK_STATE_FAILED else "")
            return True
        if state == a2a.TASK_STATE_COMPLETED:
            return await self._complete(message)
        return await self._pause(state, message)

    async def _complete(self, message: a2a.Message | None) -> bool:
        """Complete the task after the commit and the copy of its final message. Then clients can read the whole
        history."""
        if self._inputs.unread:
            return False
        if self._change_buffer.spoke:
            await self._flush()
            if self._inputs.unread:
                return False
            await afp("complete.after_message")
        await self._session.copy()
        await self._session.look()
        await afp("complete.after_copy")
        ended = Status(a2a.TASK_STATE_COMPLETED, message)
        at_rest = await self.outbox.finish(ended, consumed=self._inputs.consumed)
        if at_rest and message is None:
            # There is no copied message that updates the session at the end.
            await self._ports.sessions.touch(self._source.context_id)
        return at_rest

    async def _pause(self, state: "a2a.TaskState.ValueType", message: a2a.Message | None) -> bool:
        """Pause the task after the commit and the copy of its question. Then clients can read the whole history."""
        if self._inputs.unread:
            return False
        await self._flush()
        if self._inputs.unread:
            return False
        await afp("pause.after_message")
        await self._session.copy()
        await self._session.look()
        paused = Status(state, message)
        return await self.outbox.finish(paused, consumed=self._inputs.consumed)

    async def _close(
        self, state: "a2a.TaskState.ValueType", message: a2a.Message, reason: str, cause: str = ""
    ) -> None:
        """End the task as failed or rejected. The store interrupts an open text."""
        if state == a2a.TASK_STATE_FAILED:
            tracing.failed(self._span, reason)
        if reason:
            message.metadata.fields["reason"].string_value = reason
        self._change_buffer.end_turn()
        ended = Status(state, message, reason, cause=cause)
        # An earlier end may be refused because of a new user message. Such a message does not delay a failure.
        while not await self.outbox.finish(ended, message, consumed=self._inputs.consumed):
            pass
        await self._session.copy_at_rest()

    async def _fail(self, reason: str, text: str, cause: str = "") -> None:
        try:
            try:
                await self._close(a2a.TASK_STATE_FAILED, self._change_buffer.factory.message(text), reason, cause)
            except ItemRefused as refusal:
                log.error("the last changes of the run of task %s were refused: %s", self.task_id, refusal)
                self.outbox.clear()
                await self._close(a2a.TASK_STATE_FAILED, self._change_buffer.factory.message(text), reason, cause)
        except Stopped:
            log.info("task %s had ended before the failure of its run", self.task_id)
        except ItemRefused as refusal:
            log.error("task %s could not be set to failed: %s (%s)", self.task_id, refusal, refusal.reason)

    async def _flush(self) -> None:
        await self.outbox.flush()
        self._change_buffer.spoke = False

    def _session_of(self, record: pb.TaskRecord) -> RunSession:
        fresh = self._fresh
        saved = fresh is not None and fresh.saved
        copied = max(record.copied_generation, 1) if saved else record.copied_generation
        buffer = CopyBuffer(
            self._source,
            head=fresh.head if fresh is not None else record.generation,
            copied=copied,
            complete=copied >= record.message_generation,
            actor=self._ports.actor,
        )
        return RunSession(
            self._ports,
            self._source,
            buffer,
            self.outbox.mark_copied,
            saved=saved,
            begins=fresh is not None and fresh.begins_session,
            queued=fresh is None,
        )

    def _speak(self, invocation_id: str) -> MessageFactory:
        return MessageFactory(
            task_id=self._source.task_id,
            context_id=self._source.context_id,
            invocation_id=invocation_id,
            fence=self.fence,
        )
