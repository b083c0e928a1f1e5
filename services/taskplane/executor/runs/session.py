"""The session of a run: the history of its turns, and the copies of its messages.

Messages are copied after their commit, in the background, one copy at a time. Before a task completes or pauses, its
run waits until the session has all messages. The next copy repeats a failed copy.

A generation is marked as copied only after the session was seen while the task existed. A later deletion of the session
finds the task and deletes it, too.
"""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.effective_history import EffectiveHistory
from taskplane.executor.runs.copy_buffer import CopyBuffer
from taskplane.executor.runs.inputs import Input
from taskplane.executor.runs.outbox import CommittedItem
from taskplane.executor.runs.ports import Ports
from taskplane.executor.session_entries import OPENING, TASK_DELETED
from taskplane.executor.sweeps.copying import Source
from taskplane.executor.sweeps.reconcile import is_behind
from taskplane.runtime.errors import NotFound, PlaneError, Refused
from taskplane.runtime.failpoints import afp
from taskplane.runtime.retry import retry_until_reachable

log = logging.getLogger(__name__)


class SessionGone(Exception):
    """The session was deleted during the creation of the task, and the deletion did not see the task. Or the task was
    deleted before, and a late call has created the task again."""


class TurnCut(Exception):
    """A rewind cut the turn before its task existed. So the rewind did not supersede the task."""


class RunSession:
    """The session of one run. `history`, `copy` and `look` raise SessionGone and TurnCut."""

    def __init__(
        self,
        ports: Ports,
        source: Source,
        buffer: CopyBuffer,
        mark_copied: Callable[[int], None],
        *,
        saved: bool,
        begins: bool,
        queued: bool,
    ) -> None:
        """`mark_copied`: called with a generation when the session has every message up to it.

        `saved`: the user's message was saved before the creation of the task. `begins`: the session was empty before
        this message. `queued`: the task waited for this run, and other turns may have begun meanwhile.
        """
        self._ports = ports
        self._source = source
        self._buffer = buffer
        self._mark_copied = mark_copied
        self._begins = begins
        self._queued = queued
        # True until the session is seen after the creation of the task. From then on a deletion finds the task.
        self._unseen = saved
        # True if the history was not read: the history was empty when the turn was saved.
        self._history_unread = begins
        self._shown: EffectiveHistory | None = None
        self._context: contextvars.Context | None = None
        self._copying: asyncio.Task[None] | None = None
        # True while an agent runs: messages are copied at once. At the end of a turn all messages are copied in one
        # call.
        self.copies_at_once = False

    def begin_turn(self, invocation_id: str) -> None:
        """Attribute later commits to this turn. Copy the turn on behalf of the caller's principal."""
        self._context = contextvars.copy_context()
        self._buffer.invocation_id = invocation_id

    def committed(self, item: CommittedItem) -> None:
        """Take a committed item, and begin to copy its messages if `copies_at_once`."""
        self._buffer.committed(item)
        if self.copies_at_once and self._copying is None and not (self._buffer.silent or self._is_gone):
            self._copying = asyncio.create_task(
                self._copy_in_mid_run(), name=f"copy of task {self._source.task_id}", context=self._context
            )

    async def history(self, given: Input, unread: Iterable[str]) -> Sequence[a2a.Message]:
        """Return the messages of the session before `given`. `unread`: turns with an unanswered message."""
        if self._begins and given.generation == 1:
            return ()
        try:
            shown = await retry_until_reachable(lambda: self._ports.sessions.effective_history(self._source.context_id))
        except NotFound as error:
            if self._unseen:
                raise SessionGone from error
            # The session was deleted, with its messages.
            return ()
        self._saw()
        self._shown = shown
        self._history_unread = False
        session = shown.session
        # From the end, where the turn mostly is.
        if session.steered_seq and all(entry.id != given.invocation_id for entry in reversed(shown.entries)):
            await self._check_in_effect(given.invocation_id)
        elif is_behind(session):
            await self._check_in_effect()
        if self._queued and given.generation == 1:
            shown = shown.as_begun(given.invocation_id, self._source.task_id)
        return shown.messages(self._source.task_id, without={given.invocation_id, *unread})

    def message_ids(self) -> Iterable[str]:
        """Return the ids of the messages in effect at the last read of the history; empty without a read."""
        return self._shown.message_ids() if self._shown is not None else ()

    async def copy(self) -> None:
        """Copy every committed message. Retry without a limit while the session store is unreachable."""
        await self._settle()
        if await retry_until_reachable(self._copy):
            self._saw_copy()
        await self._check_alone(self._buffer.entries_before)

    async def look(self) -> None:
        """Look for the session, for a turn without a read of the session and without a message."""
        if not self._unseen:
            return
        try:
            session = await retry_until_reachable(lambda: self._ports.sessions.session(self._source.context_id))
        except NotFound as error:
            raise SessionGone from error
        self._saw()
        await self._check_alone(session.entry_count)

    async def copy_at_rest(self) -> None:
        """Copy the messages of an ended task, after the notification of its clients. A sweep repeats failures."""
        try:
            await self._settle()
            if await self._copy():
                self._saw_copy()
                await self._ports.copier.mark(self._source, self._buffer.copied)
            await self._check_alone(self._buffer.entries_before)
        except SessionGone:
            await self.delete_task()
        except TurnCut:
            return
        except PlaneError as error:
            log.warning("task %s is not copied to its session yet: %s", self._source.task_id, error)

    async def _copy(self) -> bool:
        try:
            return await self._buffer.copy(self._ports.copier)
        except Refused as error:
            if error.reason == TASK_DELETED:
                raise SessionGone from error
            raise

    async def delete_task(self) -> None:
        """Delete the task: the deletion of its session, or of an earlier task of its turn, has missed it."""
        log.info("task %s is deleted: it or its session was deleted during its creation", self._source.task_id)
        with suppress(NotFound):
            request = pb.DeleteTaskRequest(task_id=self._source.task_id)
            await retry_until_reachable(lambda: self._ports.store.DeleteTask(request))

    async def close(self) -> None:
        """Stop the running copy."""
        self.copies_at_once = False
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.wait((self._copying,))

    async def _copy_in_mid_run(self) -> None:
        try:
            while self.copies_at_once and not self._buffer.silent:
                await afp("copy.mid_run.before")
                copied = await self._copy()
                await afp("copy.mid_run.after")
                if copied:
                    self._saw_copy()
                await self._check_alone(self._buffer.entries_before)
        except (SessionGone, TurnCut):
            # The task was just superseded and canceled, or is deleted at the end of its run.
            log.info("no further messages of task %s are copied during its run", self._source.task_id)
        except PlaneError as error:
            log.info("messages of task %s are copied later: %s", self._source.task_id, error)
        finally:
            self._copying = None

    async def _settle(self) -> None:
        """Wait for the running copy, and begin no other copy."""
        self.copies_at_once = False
        if self._copying is not None:
            await self._copying
        self._check_there()

    @property
    def _is_gone(self) -> bool:
        return self._unseen and self._buffer.session_gone

    def _check_there(self) -> None:
        if self._is_gone:
            raise SessionGone

    def _saw(self) -> None:
        self._unseen = False
        self._mark_copied(self._buffer.copied)

    def _saw_copy(self) -> None:
        self._check_there()
        self._saw()

    async def _check_alone(self, entries: int) -> None:
        """Check that a turn without a read of its history had an empty history. TurnCut.

        `entries`: number of entries of the session before the first copy. Entries beside the two of the turn may be a
        rewind before the creation of the task.
        """
        if self._history_unread and not self._unseen:
            if entries != OPENING:
                await self._check_in_effect()
            self._history_unread = False

    @property
    def unchecked(self) -> bool:
        """Return whether the turn did not read its history. Then a rewind may have come before its task."""
        return self._history_unread

    async def _check_in_effect(self, *invocations: str) -> None:
        """Apply the session's history to its tasks, including this task. TurnCut: this task is superseded now.
        SessionGone: this task was deleted before."""
        try:
            applied = await retry_until_reachable(lambda: self._ports.reconciler.apply(self._source.context_id))
        except NotFound:
            return
        if self._source.invocation_id in applied.deleted:
            raise SessionGone
        if not applied.cut.isdisjoint((self._source.invocation_id, *invocations)):
            raise TurnCut
