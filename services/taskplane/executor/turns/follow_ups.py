"""Messages to tasks that exist: the task store decides about each, then it is copied to the session."""

import logging
from typing import Final

from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.runs.ports import Ports
from taskplane.executor.sweeps.copying import Source
from taskplane.executor.turns import message_ids
from taskplane.executor.turns.submission import Submission, reference
from taskplane.runtime import message_times
from taskplane.runtime.errors import Conflict, NotFound, PlaneError
from taskplane.runtime.retry import retry_briefly
from taskplane.runtime.times import micros

log = logging.getLogger(__name__)

_OF_USER: Final = (tasks.EVENT_KIND_CREATED, tasks.EVENT_KIND_MESSAGE)


class FollowUps:
    """Messages to tasks that exist."""

    def __init__(self, ports: Ports) -> None:
        self._store = ports.store
        self._sessions = ports.sessions
        self._copier = ports.copier

    async def prepare(self, send: Submission) -> None:
        """Check the version of the session, if one is expected, and settle the id of the message.

        NotFound: the task does not exist. Conflict: the session is at another version.
        """
        given = send.request.message
        if send.expected_version:
            await self._check_version(send)
        elif given.message_id:
            context_id = given.context_id or await self._context_of(send.task_id)
            await message_ids.settle(self._sessions, send.message, context_id, send.invocation_id)

    async def _context_of(self, task_id: str) -> str:
        request = tasks.GetTaskRequest(task_id=task_id, history_length=0)
        return (await retry_briefly(lambda: self._store.GetTask(request))).record.context_id

    async def add(self, send: Submission) -> pb.SubmitResponse:
        """Add the message to its task, then copy it to the session. Errors as of AddMessage."""
        request = tasks.AddMessageRequest(
            task_id=send.task_id,
            invocation_id=send.invocation_id,
            request_hash=send.request_hash,
            message=send.message,
            expected_context=send.request.message.context_id,
            options=send.options,
            expected_generation=send.expected_generation,
        )
        response = await retry_briefly(lambda: self._store.AddMessage(request))
        if response.record.copied_generation < response.generation:
            await self._copy_message(send, response)
        return reference(response.record)

    async def _check_version(self, send: Submission) -> None:
        """Check the session's version, which may still change before the message is added to the task.

        Conflict, unless the message is in the task already. NotFound: the task does not exist.
        """
        request = tasks.ListEventsRequest(task_id=send.task_id, kinds=_OF_USER, newest_first=True, limit=1000)
        found = await self._store.ListEvents(request)
        if any(event.invocation_id == send.invocation_id for event in found.events):
            return
        version, first = 0, None
        try:
            session, first = await self._sessions.first_said(found.record.context_id, send.message.message_id)
            version = session.version
        except NotFound:
            pass
        if version != send.expected_version:
            raise Conflict(
                f"session {found.record.context_id} is at version {version}, not {send.expected_version}",
                reason="VERSION_MISMATCH",
                suggestion="read the session again, then decide again",
                metadata={"version": str(version)},
            )
        message_ids.keep_apart(send.message, first, send.invocation_id)

    async def _copy_message(self, send: Submission, added: tasks.AddMessageResponse) -> None:
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
                await self._copier.copy_task(source, record.copied_generation)
        except PlaneError as error:
            log.warning("a message to task %s is not copied to its session yet: %s", record.id, error)
