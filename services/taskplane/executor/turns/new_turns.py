"""The beginning of a turn. Order: user entry, routing, outcome entry, CreateTask.

Every write has the invocation, and a repeat of the write changes nothing. Read the handling of a refusal together with
this order.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from taskplane.agents.agent import Policy
from taskplane.agents.hosted import PolicyFailed
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.deletion import delete_if_session_gone
from taskplane.executor.derived_ids import derived
from taskplane.executor.runs.registry import Runs, certain_until
from taskplane.executor.runs.run import Fresh
from taskplane.executor.session_entries import TASK_DELETED, unvoid, void
from taskplane.executor.turns.follow_ups import FollowUps
from taskplane.executor.turns.routing import NewTurn, Routing
from taskplane.executor.turns.saving import Decision, Opening
from taskplane.executor.turns.submission import Submission, reference
from taskplane.runtime import message_times
from taskplane.runtime.errors import AlreadyExists, DeadlineExceeded, NotFound, PlaneError, Refused, Unavailable
from taskplane.runtime.failpoints import afp
from taskplane.runtime.retry import RETRYABLE, retry_briefly

log = logging.getLogger(__name__)

# Maximum seconds between the outcome of a turn and its task, and seconds between two looks for the task.
_TO_CREATE: Final = 1.0
_PAUSE: Final = 0.05
_WORKING: Final = (tasks.Change(status=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING))),)
_ON_ORPHAN: Final = {
    "fail": tasks.ON_ORPHAN_FAIL,
    "rerun": tasks.ON_ORPHAN_RERUN,
    "resume": tasks.ON_ORPHAN_RESUME,
}
_STRATEGY: Final = {
    "parallel": tasks.STRATEGY_PARALLEL,
    "queue": tasks.STRATEGY_QUEUE,
    "reject": tasks.STRATEGY_REJECT,
    "interrupt": tasks.STRATEGY_INTERRUPT,
}


class NewTurns:
    """The turns that messages begin."""

    def __init__(
        self,
        runs: Runs,
        follow_ups: FollowUps,
        background: BackgroundTasks,
        *,
        route_timeout: float,
        unary_route_timeout: float,
        abandoned_after: float,
    ) -> None:
        """`route_timeout`: maximum seconds of a router before its turn becomes a task. `unary_route_timeout`: the same
        for a client that waits for the end of the turn.

        `abandoned_after`: seconds after which a turn without a task may be voided by a sweep.
        """
        self._runs = runs
        self._follow_ups = follow_ups
        self._background = background
        self._route_timeout = route_timeout
        self._unary_route_timeout = unary_route_timeout
        self._abandoned_after = abandoned_after
        self._store = runs.ports.store
        self._sessions = runs.ports.sessions
        # By invocation.
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def begin(self, send: Submission, task_id: str) -> pb.SubmitResponse:
        """Save and decide a new turn. Create its task unless the turn has a direct answer."""
        if not send.has_key or send.router is None:
            return await self._begin(send, task_id)
        # A repeat waits while the first request asks the router, and then finds the decision.
        lock = self._asking.setdefault(send.invocation_id, asyncio.Lock())
        async with lock:
            return await self._begin(send, task_id)

    async def _begin(self, send: Submission, task_id: str) -> pb.SubmitResponse:
        given = send.request.message
        # The session may have another message with this id.
        may_be_renamed = bool(given.message_id and given.context_id)
        send.message.context_id = send.context_id
        send.message.ClearField("task_id")
        # Both stores keep this time, in any order of the writes.
        message_times.add_time(send.message.metadata, time.time_ns() // 1000)
        opening = Opening(
            invocation_id=send.invocation_id,
            request_hash=send.request_hash,
            context_id=send.context_id,
            task_id=task_id,
            agent=send.hosted.name,
            message=send.message,
            expected_version=send.expected_version,
            own_message_id=derived(send.invocation_id, "message") if may_be_renamed else "",
        )
        turn = NewTurn(
            ports=self._runs.ports,
            invocation_id=send.invocation_id,
            task_id=task_id,
            message=send.message,
            options=send.options,
            caller=send.caller,
            waits=send.waits,
        )
        routing = None
        if send.router is not None:
            routing = Routing(turn, send.hosted, send.router, self._background)
        asked = False
        slot = ""
        try:
            # A turn without a key is new and was not decided before. So both stores may write at the same time. If only
            # the task store succeeds, the message is copied from there like any other message. With an expected
            # version, or a task id from the client, the session must decide first: it may refuse the version, or know
            # the task as deleted.
            new = not send.has_key and not send.expected_version and not send.task_id
            overlaps = new and (routing is None or (await routing.is_decided_early() and routing.answer() is None))
            if routing is not None and routing.answer() is None:
                # Reserve the slot before the router begins work. Only a run in this process can continue the work.
                slot = self._runs.reserve(send.caller)
            within = self._unary_route_timeout if send.waits else self._route_timeout
            saving = self._background.start(opening.decide(self._sessions, routing, within), name="saving")
            if overlaps and may_be_renamed:
                # The session decides the message id that the task sees. The session may fail here, as with two writes
                # at once.
                await asyncio.wait((saving,))
            elif not overlaps:
                decision = await saving
                if decision.answer is not None:
                    await self._put_back(send, decision)
                    await self._bring_in_line(send, decision)
                    return pb.SubmitResponse(message=decision.answer)
                await afp("submit.after_outcome")
                if decision.found:
                    await self._await_task(task_id)
            send.message.task_id = task_id
            response, asked = await self._create(send, turn, routing, saving, slot)
        finally:
            if slot:
                self._runs.give_back(send.caller)
            if routing is not None and not asked:
                routing.drop()
        return response

    async def _await_task(self, task_id: str) -> None:
        """Wait a moment for a task that another executor may create soon. Only the other executor can continue the work
        of its router."""
        until = time.monotonic() + _TO_CREATE
        while time.monotonic() < until:
            try:
                await self._store.GetTask(tasks.GetTaskRequest(task_id=task_id, history_length=0))
                return
            except NotFound:
                await asyncio.sleep(_PAUSE)
            except PlaneError:
                # The creation itself shows whether the task can be created.
                return

    async def _create(
        self,
        send: Submission,
        turn: NewTurn,
        routing: Routing | None,
        saving: "asyncio.Task[Decision]",
        slot: str,
    ) -> tuple[pb.SubmitResponse, bool]:
        """Create the task. Return the reply, and whether a started run waits for the routing.

        `slot`: the reserved slot for the task, or "".
        """
        fault: PolicyFailed | None = None
        try:
            policy = send.hosted.policy(turn.as_turn())
        except PolicyFailed as error:
            policy, fault = Policy(), error
        held = bool(slot) and not self._runs.draining
        claim_for = slot if held else "" if send.hosted.elsewhere else self._runs.reserve(send.caller)
        try:
            request = tasks.CreateTaskRequest(
                invocation_id=send.invocation_id,
                request_hash=send.request_hash,
                task_id=turn.task_id,
                context_id=send.context_id,
                agent=send.hosted.name,
                message=send.message,
                metadata=send.request.metadata if send.request.HasField("metadata") else None,
                on_orphan=_ON_ORPHAN[policy.on_orphan],
                max_attempts=policy.max_attempts,
                first_changes=_WORKING if claim_for else (),
                claim_for=claim_for,
                strategy=_STRATEGY[policy.strategy],
                options=_without_metadata(send.options),
                queue_limit=policy.queue_limit or 0,
                pause_limit=policy.pause_limit or 0,
            )
            asked_at = 0.0

            async def create() -> tasks.CreateTaskResponse:
                nonlocal asked_at
                asked_at = time.monotonic()
                return await self._store.CreateTask(request)

            response = await retry_briefly(create)
            record = response.record
            if record.id != turn.task_id:
                raise Refused("this idempotency key was used for another task", reason="KEY_REUSED")
            await afp("submit.after_create")
            saved = await _saved(saving)
            await self._check_not_deleted(saving, record.id)
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
                    options=send.options,
                    policy=fault or policy,
                    task=record.task if response.created else _as_created(send),
                    head=1 + len(request.first_changes) if response.created else record.generation,
                    uncopied=bool(response.uncopied),
                    saved=saved is not None,
                    begins_session=saved is not None and saved.begins_session,
                    routing=routing.call_for_run() if routing is not None else None,
                ),
            )
            if response.created and not started and saved is not None:
                # A run looks for the session itself. This task waits for a run.
                looking = delete_if_session_gone(self._store, self._sessions, send.context_id, record.id)
                self._background.start(looking, name=f"looking for the session of task {record.id}")
        except AlreadyExists as error:
            if error.reason == "TASK_EXISTS":
                return await self._follow_ups.add(send), False
            await _saved(saving)
            await void(self._sessions, send.context_id, send.invocation_id)
            raise NotFound(f"task {turn.task_id} was not found", reason="TASK_NOT_FOUND") from error
        except PlaneError as error:
            await _saved(saving)
            await self._void_refused(send, error)
            raise
        finally:
            if claim_for and not held:
                self._runs.give_back(send.caller)
        return reference(record, created=response.created), started

    async def _check_not_deleted(self, saving: "asyncio.Task[Decision]", task_id: str) -> None:
        """Raise TASK_DELETED if the session refused the turn of a new task. Such a task was deleted before its message
        was saved."""
        refused = saving.exception()
        if isinstance(refused, Refused) and refused.reason == TASK_DELETED:
            with suppress(NotFound):
                await self._store.DeleteTask(tasks.DeleteTaskRequest(task_id=task_id))
            raise refused

    async def _put_back(self, send: Submission, decision: Decision) -> None:
        """Take back the void of a repeated or slow turn. A sweep may have voided such a turn."""
        # Half the time: the clocks of the stores may differ.
        if not decision.repeated and time.monotonic() - send.since < self._abandoned_after / 2:
            return
        try:
            await unvoid(self._sessions, send.context_id, send.invocation_id)
        except PlaneError as error:
            log.warning("unknown whether turn %s was voided: %s", send.invocation_id, error)

    async def _bring_in_line(self, send: Submission, decision: Decision) -> None:
        """Apply the session's history to its tasks after a direct answer. For a task, the run does this."""
        if not decision.unapplied:
            return
        try:
            await self._runs.ports.reconciler.apply(send.context_id)
        except PlaneError as error:
            log.warning("the changes of session %s are not applied to its tasks yet: %s", send.context_id, error)

    async def _void_refused(self, send: Submission, error: PlaneError) -> None:
        """Void a refused turn, so that prompts leave the turn out. A repeat or the sweep handles an unknown outcome."""
        if error.reason in ("KEY_REUSED", TASK_DELETED) or isinstance(error, (Unavailable, DeadlineExceeded)):
            return
        if send.has_explicit_key and isinstance(error, RETRYABLE):
            return
        try:
            await void(self._sessions, send.context_id, send.invocation_id)
        except PlaneError as failure:
            log.warning("a refused turn is not voided yet: %s", failure)


async def _saved(saving: "asyncio.Task[Decision]") -> Decision | None:
    """Return the outcome; None if the message could not be saved. Then the message reaches the session as a copy."""
    try:
        return await saving
    except PlaneError as error:
        log.warning("the message of a turn is not in its session yet: %s", error)
        return None


def _without_metadata(options: tasks.TurnOptions) -> tasks.TurnOptions:
    """Return the options of a turn for the event that creates its task."""
    return tasks.TurnOptions(accepted_output_modes=options.accepted_output_modes, extensions=options.extensions)


def _as_created(send: Submission) -> a2a.Task:
    return a2a.Task(
        id=send.message.task_id,
        context_id=send.context_id,
        status=a2a.TaskStatus(state=a2a.TASK_STATE_SUBMITTED),
        history=[send.message],
        metadata=send.request.metadata if send.request.HasField("metadata") else None,
    )
