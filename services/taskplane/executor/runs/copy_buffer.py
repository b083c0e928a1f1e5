"""Messages that a run has committed and its session does not have yet."""

from typing import Final

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.executor.runs.outbox import CommittedItem
from taskplane.executor.sweeps.copying import Copier, Source

MAX_REMEMBERED_BYTES: Final = 1024 * 1024
"""Above this a run forgets its messages and reads them from the log when it copies."""


class CopyBuffer:
    """Committed messages of one run, remembered until they are copied so that they need not be read back.

    Messages may be committed while `copy` is at work; they are part of the next copy.
    """

    def __init__(self, source: Source, *, head: int, copied: int, complete: bool, actor: str) -> None:
        """`head`: generation of the newest event. `complete`: the session has every message up to there."""
        self.copied = copied
        self.invocation_id = source.invocation_id
        # The last copy found no session.
        self.session_gone = False
        # Number of entries that the session had before the last copy; 0: unknown.
        self.entries_before = 0
        self._source = source
        self._actor = actor
        self._head = head
        # Every message up to `_head` is either copied or in `_said`.
        self._remembered = complete
        self._said: list[sessions.Entry] = []
        self._bytes = 0

    def committed(self, item: CommittedItem) -> None:
        """Remember the messages of an item that is in the log."""
        if item.count == 0 or item.last <= self._head:
            # The second: the log was read further than the answers to appends had come.
            return
        if item.first != self._head + 1 or item.last - item.first + 1 != item.count or not item.timed:
            self._remembered = False
        self._head = item.last
        for generation, message in item.spoken:
            self._bytes += message.ByteSize()
            if self._remembered and self._bytes <= MAX_REMEMBERED_BYTES:
                self._said.append(self._source.entry(generation, message, self.invocation_id, self._actor))
            else:
                self._remembered = False
        if not self._remembered:
            self._said.clear()

    @property
    def silent(self) -> bool:
        """Return whether the session has every message that is known to be committed."""
        return self._remembered and not self._said

    async def copy(self, copier: Copier) -> bool:
        """Copy every committed message; return whether there were any.

        Afterwards `copied` is the generation that may be marked as copied. Only one call at a time; it may be repeated
        after an error.
        """
        if self.silent:
            return False
        before = self.copied
        if self._remembered:
            entries = list(self._said)
            stored = await copier.write(self._source, entries)
            self.session_gone = stored is None
            self.entries_before = stored.entry_count - len(entries) if stored is not None else 0
            self.copied = entries[-1].generation
            del self._said[: len(entries)]
        else:
            found = await copier.copy_messages(self._source, self.copied)
            self.copied, self.session_gone = found.generation, found.session_gone
            self.entries_before = 0
            self._remembered = found.head >= self._head
            self._head = max(self._head, found.head)
        self._bytes = sum(entry.message.ByteSize() for entry in self._said)
        return self.copied > before
