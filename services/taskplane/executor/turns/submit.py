"""Submit: from a message to an answer or a task. Order of a new turn: user entry, routing, outcome entry, CreateTask.

From the user entry on the work is one of the executor's background tasks: the caller only waits, and a caller that goes
away cancels nothing. Every write carries the invocation, and repeating it changes nothing.

Over 300 lines, since the order of these writes and what follows when one is refused must be read together.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.agent import Policy
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.changes import INVOCATION
from taskplane.executor.deletion import delete_with_session
from taskplane.executor.hosted import Hosted, PolicyFailed
from taskplane.executor.loading import Agents
from taskplane.executor.runs.registry import Runs, certain_until
from taskplane.executor.runs.run import Fresh
from taskplane.executor.session_entries import unvoid, void
from taskplane.executor.sweeps.copying import Source
from taskplane.executor.turns import rewind_messages, validation
from taskplane.executor.turns.invocations import derived, identify
from taskplane.executor.turns.rewinds import Rewinds
from taskplane.executor.turns.routing import Proposal, Routing
from taskplane.executor.turns.saving import Decision, Opening
from taskplane.runtime import message_times
from taskplane.runtime.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    NotFound,
    PlaneError,
    Refused,
    Unavailable,
)
from taskplane.runtime.failpoints import afp
from taskplane.runtime.principal import Principal
from taskplane.runtime.retry import RETRYABLE, retry_briefly
from taskplane.runtime.times import micros

log = logging.getLogger(__name__)

_WORKING: Final = (tasks.Change(status=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING))),)
_OF_USER: Final = (tasks.EVENT_KIND_CREATED, tasks.EVENT_KIND_MESSAGE)
_ON_ORPHAN: Final = {"fail": tasks.ON_ORPHAN_FAIL, "rerun": tasks.ON_ORPHAN_RERUN}
_STRATEGY: Final = {
    "parallel": tasks.STRATEGY_PARALLEL,
    "queue": tasks.STRATEGY_QUEUE,
    "reject": tasks.STRATEGY_REJECT,
    "interrupt": tasks.STRATEGY_INTERRUPT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Send:
    """A request in progress. `message` is a copy of the caller's."""

    hosted: Hosted
    caller: Principal
    invocation_id: str
    request_hash: bytes
    keyed: bool
    explicit_key: bool
    create_unknown_task: bool
    expected_version: int
    request: a2a.SendMessageRequest
    message: a2a.Message
    task_id: str
    context_id: str
    # Monotonic time at which it came.
    since: float
    # It must not be answered directly.
    as_task: bool = False


class Submits:
    """Submits of one executor."""

    def __init__(
        self,
        runs: Runs,
        agents: Agents,
        rewinds: Rewinds,
        background: BackgroundTasks,
        *,
        route_timeout: float,
        abandoned_after: float,
    ) -> None:
        """`route_timeout`: seconds a router may take before its turn becomes a task.

        `abandoned_after`: seconds after which a turn without a task may be voided by a sweep.
        """
        self._runs = runs
        self._agents = agents
        self._rewinds = rewinds
        self._background = background
        self._route_timeout = route_timeout
        self._abandoned_after = abandoned_after
        self._store = runs.ports.store
        self._sessions = runs.ports.sessions
        self._copier = runs.ports.copier

    async def submit(self, request: pb.SubmitRequest, caller: Principal) -> pb.SubmitResponse:
        """Return the direct answer, the task that works on the message, or the rewound session; each is committed.

        Errors as in the contract.
        """
        send = self._read(request, caller)
        return await self._background.serve(self._take(send), caller, name=f"submit {send.invocation_id}")

    def _read(self, request: pb.SubmitRequest, caller: Principal) -> _Send:
        hosted = self._agents.named(request.agent)
        given = request.request.message
        validation.submit(request)
        invocation_id, request_hash = identify(request, caller, hosted.name)
        message = a2a.Message()
        message.CopyFrom(given)
        message.role = a2a.ROLE_USER
        if not message.message_id:
            message.message_id = derived(invocation_id, "message")
        message.metadata.fields[INVOCATION].string_value = invocation_id
        return _Send(
            hosted=hosted,
            caller=caller,
            invocation_id=invocation_id,
            request_hash=request_hash,
            keyed=bool(request.idempotency_key),
            explicit_key=bool(request.idempotency_key) and not request.key_is_message_id,
            create_unknown_task=request.create_unknown_task,
            expected_version=request.expected_version,
            request=request.request,
            message=message,
            task_id=given.task_id,
            context_id=given.context_id or derived(invocation_id, "context"),
            since=time.monotonic(),
        )

    async def _take(self, send: _Send) -> pb.SubmitResponse:
        if send.message.reference_task_ids:
            await self._drop_foreign_references(send.message)
        if rewind_messages.is_rewind(send.message):
            return await self._rewind(send)
        if not send.task_id:
            return await self._begin(send, derived(send.invocation_id, "task"))
        try:
            if send.expected_version:
                await self._check_version(send)
            return await self._go_on(send)
        except NotFound:
            if not send.create_unknown_task:
                raise
        except Refused as error:
            # The turn that created a task is no further message to it: its repeat is answered as the new turn it was.
            if not (send.create_unknown_task and error.reason == "KEY_REUSED"):
                raise
        return await self._begin(send, send.task_id)

    async def _rewind(self, send: _Send) -> pb.SubmitResponse:
        """Rewind the session; other content of the message begins a turn of its own."""
        request = sessions.RewindRequest(
            context_id=send.context_id,
            before_invocation_id=rewind_messages.before(send.message),
            id=send.invocation_id,
            request_hash=send.request_hash,
            message=send.message,
            expected_version=send.expected_version,
        )
        try:
            done = await self._rewinds.rewind(request)
        except NotFound as error:
            if error.reason != "INVOCATION_NOT_FOUND":
                raise
            return pb.SubmitResponse(rewound=pb.Rewound(task=rewind_messages.refusal(send.message, send.invocation_id)))
        rewound = pb.Rewound(task=done.task)
        if rewind_messages.says_something(send.message):
            turn = derived(send.invocation_id, "turn")
            rewind_messages.leave_out(rewound.task, turn)
            message = rewind_messages.as_turn(send.message, turn)
            after = replace(send, invocation_id=turn, message=message, expected_version=0, as_task=True)
            try:
                begun = await self._begin(after, derived(turn, "task"))
            except PlaneError as error:
                # The rewind is done: what a client restored now would be gone at its next reload.
                error.metadata["rewound"] = "true"
                raise
            rewound.next.CopyFrom(begun.task)
        return pb.SubmitResponse(rewound=rewound)

    async def _drop_foreign_references(self, message: a2a.Message) -> None:
        """Remove references to tasks that the caller may not see (I3)."""
        kept: list[str] = []
        for task_id in message.reference_task_ids:
            try:
                await self._store.GetTask(tasks.GetTaskRequest(task_id=task_id, history_length=0))
            except NotFound:
                continue
            kept.append(task_id)
        message.reference_task_ids[:] = kept

    async def _go_on(self, send: _Send) -> pb.SubmitResponse:
        """Add the message to a task that exists, then copy it to the session."""
        request = tasks.AddMessageRequest(
            task_id=send.task_id,
            invocation_id=send.invocation_id,
            request_hash=send.request_hash,
            message=send.message,
            expected_context=send.request.message.context_id,
        )
        response = await retry_briefly(lambda: self._store.AddMessage(request))
        if response.record.copied_generation < response.generation:
            await self._copy_message(send, response)
        return _reference(response.record)

    async def _check_version(self, send: _Send) -> None:
        """Check the session's version, which may still change before the message is added to the task.

        Conflict, unless the message is in the task already. NotFound: there is no such task.
        """
        request = tasks.ListEventsRequest(task_id=send.task_id, kinds=_OF_USER, newest_first=True, limit=1000)
        found = await self._store.ListEvents(request)
        if any(event.invocation_id == send.invocation_id for event in found.events):
            return
        try:
            version = (await self._sessions.session(found.record.context_id)).version
        except NotFound:
            version = 0
        if version != send.expected_version:
            raise Conflict(
                f"session {found.record.context_id} is at version {version}, not {send.expected_version}",
                reason="VERSION_MISMATCH",
                suggestion="read the session again, then decide again",
                metadata={"version": str(version)},
            )

    async def _copy_message(self, send: _Send, added: tasks.AddMessageResponse) -> None:
        """Copy an added message to the session. A failure is logged: the next copy of the task includes the message."""
        record, generation = added.record, added.generation
        source = Source.of(record)
        try:
            if added.added and record.copied_generation == generation - 1:
                send.message.task_id, send.message.context_id = record.id, record.context_id
                entry = source.user_entry(
                    generation, send.message, send.invocation_id, send.caller.actor, send.request_hash
                )
                message_times.add_time(entry.message.metadata, micros(record.updated_at))
                await self._copier.write(source, [entry])
                await self._copier.mark(source, generation)
            else:
                await self._copier.task(source, record.copied_generation)
        except PlaneError as error:
            log.warning("a message to task %s is not copied to its session yet: %s", record.id, error)

    async def _begin(self, send: _Send, task_id: str) -> pb.SubmitResponse:
        """Save and decide a new turn, and create its task unless it was answered."""
        send.message.context_id = send.context_id
        send.message.ClearField("task_id")
        # Both stores keep it, in whichever order they write.
        message_times.add_time(send.message.metadata, time.time_ns() // 1000)
        opening = Opening(
            invocation_id=send.invocation_id,
            request_hash=send.request_hash,
            context_id=send.context_id,
            task_id=task_id,
            agent=send.hosted.name,
            message=send.message,
            expected_version=send.expected_version,
        )
        proposal = Proposal(
            invocation_id=send.invocation_id,
            task_id=task_id,
            message=send.message,
            caller=send.caller,
        )
        router = send.hosted.router if not send.as_task else None
        routing = None
        if router is not None:
            routing = Routing(proposal, router, agent=send.hosted.name, at_sight=send.hosted.routes_at_sight)
        asked = False
        try:
            # The invocation of a turn without a key is new, so nothing can have decided it before: both stores write at
            # the same time. Should only the task store succeed, the message is copied from there like any other.
            # One with an expected version must not have made a task when it is refused.
            new = not send.keyed and not send.expected_version
            overlaps = new and (routing is None or (await routing.at_sight() and routing.answer() is None))
            saving = self._background.start(opening.decide(self._sessions, routing, self._route_timeout), name="saving")
            if not overlaps:
                decision = await saving
                if decision.answer is not None:
                    await self._put_back(send, decision)
                    await self._bring_in_line(send, decision)
                    return pb.SubmitResponse(message=decision.answer)
                await afp("submit.after_outcome")
            send.message.task_id = task_id
            response, asked = await self._create(send, proposal, routing, saving)
        finally:
            if routing is not None and not asked:
                routing.drop()
        return response

    async def _create(
        self, send: _Send, proposal: Proposal, routing: Routing | None, saving: "asyncio.Task[Decision]"
    ) -> tuple[pb.SubmitResponse, bool]:
        """Create the task; return the reply, and whether a run was started that waits for the routing."""
        fault: PolicyFailed | None = None
        try:
            policy = send.hosted.policy(proposal.turn())
        except PolicyFailed as error:
            policy, fault = Policy(), error
        claim_for = self._runs.reserve()
        try:
            request = tasks.CreateTaskRequest(
                invocation_id=send.invocation_id,
                request_hash=send.request_hash,
                task_id=proposal.task_id,
                context_id=send.context_id,
                agent=send.hosted.name,
                message=send.message,
                metadata=send.request.metadata if send.request.HasField("metadata") else None,
                on_orphan=_ON_ORPHAN[policy.on_orphan],
                max_attempts=policy.max_attempts,
                first_changes=_WORKING if claim_for else (),
                claim_for=claim_for,
                strategy=_STRATEGY[policy.strategy],
            )
            asked_at = 0.0

            async def create() -> tasks.CreateTaskResponse:
                nonlocal asked_at
                asked_at = time.monotonic()
                return await self._store.CreateTask(request)

            response = await retry_briefly(create)
            record = response.record
            if record.id != proposal.task_id:
                raise Refused("this idempotency key was used for another task", reason="KEY_REUSED")
            await afp("submit.after_create")
            saved = await _saved(saving)
            if saved is not None and response.created:
                await self._put_back(send, saved)
            started = response.fence > 0 and self._runs.start_fresh(
                send.hosted,
                record,
                response.fence,
                until=certain_until(asked_at, response.lease_ttl),
                caller=send.caller,
                fresh=Fresh(
                    message=send.message,
                    policy=fault or policy,
                    task=record.task if response.created else _as_created(send),
                    head=1 + len(request.first_changes) if response.created else record.generation,
                    uncopied=bool(response.uncopied),
                    saved=saved is not None,
                    begins_session=saved is not None and saved.begins_session,
                    routing=routing.unfinished() if routing is not None else None,
                ),
            )
            if response.created and not started and saved is not None:
                # A run looks for the session itself; this task waits for one.
                looking = delete_with_session(self._store, self._sessions, send.context_id, record.id)
                self._background.start(looking, name=f"looking for the session of task {record.id}")
        except AlreadyExists as error:
            if error.reason == "TASK_EXISTS":
                return await self._go_on(send), False
            await _saved(saving)
            await void(self._sessions, send.context_id, send.invocation_id)
            raise NotFound(f"task {proposal.task_id} was not found", reason="TASK_NOT_FOUND") from error
        except PlaneError as error:
            await _saved(saving)
            await self._void_refused(send, error)
            raise
        finally:
            if claim_for:
                self._runs.give_back()
        return _reference(record, created=response.created), started

    async def _put_back(self, send: _Send, decision: Decision) -> None:
        """Take back the void of a turn that a sweep may have voided: a repeated one, or one that took long."""
        # Half of it, since the stores have clocks of their own.
        if not decision.repeated and time.monotonic() - send.since < self._abandoned_after / 2:
            return
        try:
            await unvoid(self._sessions, send.context_id, send.invocation_id)
        except PlaneError as error:
            log.warning("whether turn %s was voided meanwhile is not known: %s", send.invocation_id, error)

    async def _bring_in_line(self, send: _Send, decision: Decision) -> None:
        """Apply the session's history to its tasks after a direct answer; for a task its run does so."""
        if not decision.unapplied:
            return
        try:
            await self._runs.ports.reconciler.apply(send.context_id)
        except PlaneError as error:
            log.warning("the tasks of session %s are not in line with it yet: %s", send.context_id, error)

    async def _void_refused(self, send: _Send, error: PlaneError) -> None:
        """Void a refused turn, so that it is in no prompt; an unknown outcome is left to a repeat or the sweep."""
        if error.reason == "KEY_REUSED" or isinstance(error, (Unavailable, DeadlineExceeded)):
            return
        if send.explicit_key and isinstance(error, RETRYABLE):
            return
        try:
            await void(self._sessions, send.context_id, send.invocation_id)
        except PlaneError as failure:
            log.warning("a refused turn is not voided yet: %s", failure)


async def _saved(saving: "asyncio.Task[Decision]") -> Decision | None:
    """Return the outcome; None if the message could not be saved, so that it reaches the session as a copy."""
    try:
        return await saving
    except PlaneError as error:
        log.warning("the message of a turn is not in its session yet: %s", error)
        return None


def _reference(record: tasks.TaskRecord, *, created: bool = False) -> pb.SubmitResponse:
    """Return the reply for a task, with its first state if this call created it."""
    reference = pb.TaskReference(task_id=record.id, context_id=record.context_id)
    if created:
        reference.cursor = f"{record.incarnation}-1"
        reference.task.CopyFrom(record.task)
    return pb.SubmitResponse(task=reference)


def _as_created(send: _Send) -> a2a.Task:
    return a2a.Task(
        id=send.message.task_id,
        context_id=send.context_id,
        status=a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED),
        history=[send.message],
        metadata=send.request.metadata if send.request.HasField("metadata") else None,
    )
