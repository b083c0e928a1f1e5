"""Handle Submit requests. The message continues a task, begins a new task or direct answer, or rewinds the session.

The work is a background task of the executor: the caller only waits for it, so a caller that disconnects cancels
nothing.
"""

import time
from contextlib import suppress
from dataclasses import replace

from taskplane.agents.loading import Agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.message_metadata import INVOCATION
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.derived_ids import derived, turn_after
from taskplane.executor.runs.registry import Runs
from taskplane.executor.session_entries import TASK_DELETED
from taskplane.executor.turns import rewind_messages, submit_checks
from taskplane.executor.turns.follow_ups import FollowUps
from taskplane.executor.turns.invocations import identify
from taskplane.executor.turns.new_turns import NewTurns
from taskplane.executor.turns.rewinds import Rewinds
from taskplane.executor.turns.submission import Submission
from taskplane.runtime.errors import NotFound, PlaneError, Refused
from taskplane.runtime.principal import Principal


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
        unary_route_timeout: float,
        abandoned_after: float,
    ) -> None:
        """`route_timeout`: seconds for which an agent may decide whether a turn needs a task; after them it gets one;
        `unary_route_timeout`: the same for a client that waits for the end of the turn.

        `abandoned_after`: seconds after which a turn without a task may be voided by a sweep.
        """
        self._agents = agents
        self._rewinds = rewinds
        self._background = background
        self._store = runs.ports.store
        self._sessions = runs.ports.sessions
        self._follow_ups = FollowUps(runs.ports)
        self._new_turns = NewTurns(
            runs,
            self._follow_ups,
            background,
            route_timeout=route_timeout,
            unary_route_timeout=unary_route_timeout,
            abandoned_after=abandoned_after,
        )

    async def submit(self, request: pb.SubmitRequest, caller: Principal) -> pb.SubmitResponse:
        """Commit the direct answer, the task or the rewind, and return it.

        Errors as in the contract.
        """
        send = self._parse(request, caller)
        return await self._background.serve(self._dispatch(send), caller, name=f"submit {send.invocation_id}")

    def _parse(self, request: pb.SubmitRequest, caller: Principal) -> Submission:
        given = request.request.message
        try:
            hosted = self._agents.named(request.agent)
            agent = hosted.name
        except NotFound:
            # A rewind without content for a new turn needs no agent: the agent may have been removed or renamed since.
            if not rewind_messages.is_rewind(given) or rewind_messages.says_something(given):
                raise
            hosted, agent = self._agents.named(""), request.agent
        submit_checks.submit(request)
        invocation_id, request_hash = identify(request, caller, agent)
        message = a2a.Message()
        message.CopyFrom(given)
        message.role = a2a.ROLE_USER
        if not message.message_id:
            message.message_id = derived(invocation_id, "message")
        message.metadata.fields[INVOCATION].string_value = invocation_id
        return Submission(
            hosted=hosted,
            caller=caller,
            invocation_id=invocation_id,
            request_hash=request_hash,
            has_key=bool(request.idempotency_key),
            has_explicit_key=bool(request.idempotency_key) and not request.key_is_message_id,
            create_unknown_task=request.create_unknown_task,
            expected_version=request.expected_version,
            expected_generation=request.expected_generation,
            request=request.request,
            message=message,
            options=tasks.TurnOptions(
                metadata=request.request.metadata if request.request.HasField("metadata") else None,
                accepted_output_modes=request.request.configuration.accepted_output_modes,
                extensions=request.extensions,
            ),
            task_id=given.task_id,
            context_id=given.context_id or derived(invocation_id, "context"),
            since=time.monotonic(),
            waits=request.waits,
        )

    async def _dispatch(self, send: Submission) -> pb.SubmitResponse:
        if send.message.reference_task_ids:
            await self._drop_foreign_references(send.message)
        if rewind_messages.is_rewind(send.message):
            return await self._rewind(send)
        if not send.task_id:
            return await self._new_turns.begin(send, derived(send.invocation_id, "task"))
        try:
            await self._follow_ups.prepare(send)
            return await self._follow_ups.add(send)
        except NotFound:
            if not send.create_unknown_task or send.expected_generation:
                await self._check_not_deleted(send)
                raise
        except Refused as error:
            # The message may be a repeat of the one that created the task. Then it is no further message, and `begin`
            # returns the first answer again.
            if not (send.create_unknown_task and error.reason == "KEY_REUSED"):
                raise
        return await self._new_turns.begin(send, send.task_id)

    async def _check_not_deleted(self, send: Submission) -> None:
        """Raise Refused `TASK_DELETED` if the message has a key and a task with this message was deleted in its
        session."""
        if not send.has_key:
            return
        with suppress(NotFound):
            if await self._sessions.is_deleted(send.context_id, send.invocation_id):
                raise Refused(f"task {send.task_id} was deleted", reason=TASK_DELETED)

    async def _rewind(self, send: Submission) -> pb.SubmitResponse:
        """Rewind the session. If the message also has text or other content, begin a new turn with that content."""
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
            turn = turn_after(send.invocation_id)
            rewind_messages.leave_out(rewound.task, turn)
            message = rewind_messages.as_turn(send.message, turn)
            after = replace(send, invocation_id=turn, message=message, expected_version=0, as_task=True)
            try:
                begun = await self._new_turns.begin(after, derived(turn, "task"))
            except PlaneError as error:
                # The rewind is committed. Tell the client, so that it does not show the cut messages again.
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
