"""Copies of committed messages, from the task log into the session.

A copy has three steps: read every message after `copied_generation` of the task, append all of them to the session in
order, and store the generation of the last message as the new `copied_generation`. The entry ids are fixed: the
invocation id for a message of the user, else `<task uid>-<generation>`. So a second copy changes nothing, and any
process may copy a task at rest.

If a task has a `copied_generation`, its session existed after the creation of the task. Then a missing session is not
created again. If a task has no `copied_generation`, the session may have been deleted before the creation of the task.
Then the first copy creates the session again.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.executor.session_entries import TASK_DELETED, title_of
from taskplane.executor.session_log import SessionLog
from taskplane.executor.task_log import events
from taskplane.runtime.errors import NotFound, PlaneError, Refused
from taskplane.runtime.json_values import text_in
from taskplane.runtime.principal import Principal, acting_as

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A task with messages to copy, and the turn that created it."""

    uid: str
    task_id: str
    context_id: str
    invocation_id: str
    agent: str

    @classmethod
    def of(cls, record: pb.TaskRecord) -> "Source":
        """Return the Source for a task record."""
        return cls(
            uid=record.uid,
            task_id=record.id,
            context_id=record.context_id,
            invocation_id=record.invocation_id,
            agent=record.agent,
        )

    def entry(self, generation: int, message: a2a.Message, invocation_id: str, actor: str) -> sessions.Entry:
        """Return the session entry for a message of the agent."""
        return sessions.Entry(
            id=self.entry_id(generation),
            kind=sessions.ENTRY_KIND_MESSAGE,
            invocation_id=invocation_id,
            task_id=self.task_id,
            task_invocation_id=self.invocation_id,
            generation=generation,
            actor=actor,
            message=message,
        )

    def rename(self, entries: Iterable[sessions.Entry], error: Refused) -> bool:
        """Replace the id of the entry that was refused with `KEY_REUSED` by `entry_id(generation)`.

        Return whether an id was replaced. No id is replaced if the error has another reason, or if the refused entry
        already has this id.
        """
        refused = error.metadata.get("entry_id") if error.reason == "KEY_REUSED" else None
        for entry in entries:
            if entry.id == refused and entry.id != self.entry_id(entry.generation):
                entry.id = self.entry_id(entry.generation)
                entry.ClearField("request_hash")
                return True
        return False

    def entry_id(self, generation: int) -> str:
        """Return the entry id for the event at `generation`: `<task uid>-<generation>`."""
        return f"{self.uid}-{generation}"

    def user_entry(
        self, generation: int, message: a2a.Message, invocation_id: str, actor: str, request_hash: bytes = b""
    ) -> sessions.Entry:
        """Return the session entry for a message of the user."""
        entry = self.entry(generation, message, invocation_id, actor)
        entry.id = invocation_id
        entry.request_hash = request_hash
        return entry

    def entries_of(self, message_events: Iterable[pb.Event]) -> list[sessions.Entry]:
        """Return the session entries of events with messages of user or agent, in order.

        The session usually has the first message of the task already, with the same entry id.
        """
        entries: list[sessions.Entry] = []
        turn = self.invocation_id
        for event in message_events:
            if event.kind == pb.EVENT_KIND_CREATED:
                message = event.event.task.history[0]
            elif event.event.HasField("message"):
                message = event.event.message
            else:
                message = event.event.status_update.status.message
            if event.kind in (pb.EVENT_KIND_CREATED, pb.EVENT_KIND_MESSAGE):
                turn = event.invocation_id
                entries.append(self.user_entry(event.generation, message, turn, event.actor))
            else:
                own_turn = text_in(message.metadata, INVOCATION)
                entries.append(self.entry(event.generation, message, own_turn or turn, event.actor))
        return entries


class Copied(NamedTuple):
    """The result of a copy.

    `generation`: the last message read. The session has all messages up to this one, unless `session_gone`: then the
    session does not exist. `head`: the newest generation at the read of the log.
    """

    generation: int
    head: int
    session_gone: bool = False


class Copier:
    """Copies messages of tasks into their sessions.

    `write`, `copy_messages`, `copy_task` and `mark` act as the current principal. The current principal must own the
    task.
    """

    def __init__(self, store: TaskStoreStub, log: SessionLog) -> None:
        self._store = store
        self._sessions = log

    async def write(self, source: Source, entries: Sequence[sessions.Entry]) -> sessions.AppendEntriesResponse | None:
        """Append entries in their order. Return None if the session does not exist.

        The first message of the task creates a missing session; a later message does not. The id of a user's entry is
        its invocation id. If another entry has this id already, the new one gets the id `<task uid>-<generation>`.
        Refused `TASK_DELETED`: the session records that the task was deleted.
        """
        first = entries[0]
        create = (
            sessions.NewSession(agent=source.agent, title=title_of(first.message)) if first.generation == 1 else None
        )
        while True:
            try:
                return await self._sessions.append_many(source.context_id, entries, create)
            except NotFound:
                log.info(
                    "session %s no longer exists; %d messages of task %s stay in the log of the task only",
                    source.context_id,
                    len(entries),
                    source.task_id,
                )
                return None
            except Refused as error:
                if not source.rename(entries, error):
                    raise

    async def copy_messages(self, source: Source, copied_generation: int) -> Copied:
        """Copy the messages after `copied_generation` from the log."""
        found: list[pb.Event] = []
        head = copied_generation
        async for page in events(self._store, source.task_id, after=copied_generation, speaking=True):
            found.extend(page.events)
            head = page.record.generation
        if not found:
            return Copied(copied_generation, head)
        stored = await self.write(source, source.entries_of(found))
        return Copied(found[-1].generation, head, session_gone=stored is None)

    async def copy_task(self, source: Source, copied_generation: int) -> None:
        """Copy the messages after `copied_generation` and mark them as copied. Do not call this during a run of the
        task in this process."""
        found = await self.copy_messages(source, copied_generation)
        if found.generation > copied_generation:
            await self.mark(source, found.generation)

    async def mark(self, source: Source, generation: int) -> None:
        """Record in the task store that the messages of the task up to `generation` need no further copy.

        They are in the session, or the session does not exist.
        """
        await self._store.MarkCopied(pb.MarkCopiedRequest(task_uid=source.uid, generation=generation))

    async def _copy_or_delete(self, source: Source, copied_generation: int) -> None:
        """Copy a task. If the session refuses it with `TASK_DELETED`, delete the task."""
        try:
            await self.copy_task(source, copied_generation)
        except Refused as error:
            if error.reason != TASK_DELETED:
                raise
            log.info("task %s was deleted and is not copied", source.task_id)
            with suppress(NotFound):
                await self._store.DeleteTask(pb.DeleteTaskRequest(task_id=source.task_id))

    async def copy_all(self, tasks: Iterable[pb.UncopiedTask], actor: str) -> None:
        """Copy tasks at rest, each on behalf of its owner. A failed copy does not stop the other copies."""
        for task in tasks:
            source = Source(
                uid=task.uid,
                task_id=task.task_id,
                context_id=task.context_id,
                invocation_id=task.invocation_id,
                agent=task.agent,
            )
            try:
                with acting_as(Principal(task.tenant, task.owner, actor, service=True)):
                    await self._copy_or_delete(source, task.copied_generation)
            except PlaneError as error:
                log.warning("task %s could not be copied to its session: %s", task.task_id, error)

    async def sweep(self, actor: str, context_id: str = "") -> None:
        """Copy every uncopied task at rest, in all sessions, or in one session of the caller.

        Errors of ListUncopied are raised; errors of single copies are logged.
        """
        request = pb.ListUncopiedRequest(context_id=context_id)
        while tasks := (await self._store.ListUncopied(request)).tasks:
            await self.copy_all(tasks, actor)
            request.after.CopyFrom(tasks[-1])
