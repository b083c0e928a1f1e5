"""Messages that a run has committed and its session does not have yet."""

from typing import Final

from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.executor.runs.outbox import Committed
from taskplane.executor.sweeps.copying import Copier, Source

MAX_REMEMBERED_BYTES: Final = 1024 * 1024
"""Above this a run forgets what it said and reads it from the log when it copies."""


class CopyBuffer:
    """What a run said and its session does not have yet, remembered so that it need not be read back."""

    def __init__(self, source: Source, *, head: int, copied: int, complete: bool, actor: str) -> None:
        """The log stands at `head`. `complete`: the session has every message up to there."""
        self._source = source
        self._actor = actor
        self._head = head
        self.copied = copied
        # The last copy found no session.
        self.session_gone = False
        # How many entries the session had before the last copy; 0: not known.
        self.entries_before = 0
        self._remembered = complete
        self._said: list[sessions.Entry] = []
        self._bytes = 0
        self.invocation_id = source.invocation_id

    def committed(self, item: Committed) -> None:
        """An item of this run is in the log."""
        if item.count == 0:
            return
        if item.first != self._head + 1 or item.last - item.first + 1 != item.count:
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
        """Whether the session has all there is."""
        return self._remembered and not self._said

    async def copy(self, copier: Copier) -> int:
        """Copies everything up to now; the generation that may be claimed. Everything put must be committed."""
        if self.silent:
            return self.copied
        if self._remembered:
            stored = await copier.write(self._source, self._said)
            self.session_gone = stored is None
            self.entries_before = stored.entry_count - len(self._said) if stored is not None else 0
            self.copied = self._said[-1].generation
        else:
            found = await copier.from_log(self._source, self.copied)
            self.copied, self.session_gone = found.generation, found.session_gone
            self.entries_before = 0
            self._head = max(self._head, found.head)
            self._remembered = True
        self._said.clear()
        self._bytes = 0
        return self.copied
