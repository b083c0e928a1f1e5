"""Finds the entries of deleted tasks, and the messages of a pushed history with deleted words. No I/O.

A void with the turns of a deleted task hides these turns for good. No later entry can revert the void.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Self

from taskplane.sessions.domain.session import HIDDEN, MESSAGE, VOID, WORDS, Entry

# An entry without an invocation is a turn of its own, named by its number.
Name = str | int

# The digests of the id and of the content of a message. The digest of the id is 0 if the message has no id.
Digests = tuple[int, int]


class Deletions(NamedTuple):
    """The deletions of a session. `turns`: the turns of deleted tasks. `hidden`: the hidden messages of pushed
    histories, by number and index. `entries`: the ids of further entries with deleted words. `tasks`: the ids of the
    tasks, if read.
    """

    turns: frozenset[str] = frozenset()
    hidden: frozenset[tuple[int, int]] = frozenset()
    entries: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, listings: Iterable[str], tasks: Iterable[str] = ()) -> Self:
        """Read the `Entry.listed` of each void of a deleted task."""
        turns: set[str] = set()
        hidden: set[tuple[int, int]] = set()
        entries: set[str] = set()
        for line in (line for listed in listings for line in listed.split("\n") if line):
            if line.startswith(WORDS):
                entries.add(line.removeprefix(WORDS))
            elif line.startswith(HIDDEN):
                seq, index = line.removeprefix(HIDDEN).split()
                hidden.add((int(seq), int(index)))
            else:
                turns.add(line)
        return cls(frozenset(turns), frozenset(hidden), frozenset(entries), frozenset(tasks))

    def has(self, entry: Entry) -> bool:
        """Return whether an entry belongs to a turn of a deleted task."""
        return entry.invocation_id in self.turns or entry.task_invocation_id in self.turns

    def refuse(self, entry: Entry) -> bool:
        """Return whether an entry would bring back a deleted task. Such an entry must not be stored.

        Every message of a deleted task is such an entry, for any turn. A void is not.
        """
        if entry.kind == VOID and not entry.off:
            return False
        return self.has(entry) or (entry.kind == MESSAGE and entry.task_id in self.tasks)


def is_deletion(entry: Entry) -> bool:
    """Return whether an entry is the void of a deleted task."""
    return entry.kind == VOID and bool(entry.listed)


def listed_lines(turns: Iterable[str], hidden: Iterable[tuple[int, int]], entries: Iterable[str]) -> str:
    """Return the `Entry.listed` of the void of a deleted task."""
    lines = [
        *turns,
        *(f"{HIDDEN}{seq} {index}" for seq, index in hidden),
        *(f"{WORDS}{entry_id}" for entry_id in entries),
    ]
    return "\n" + "".join(f"{line}\n" for line in lines)


class DeletedWords(NamedTuple):
    """The digests of the messages in deleted tasks with the turns `turns`."""

    turns: AbstractSet[str]
    message_ids: AbstractSet[int]
    contents: AbstractSet[int]

    def suspects(self, pushed: Sequence[tuple[str, Digests]]) -> list[int]:
        """Return the indexes of the messages of a pushed history that may have deleted words.

        Each message comes with its turn, or "". A message of another turn has no deleted words, unless the message has
        the id of a deleted message.
        """
        return [
            index
            for index, (turn, (message_id, content)) in enumerate(pushed)
            if turn in self.turns or message_id in self.message_ids or (not turn and content in self.contents)
        ]

    def deleted_among(
        self, pushed: Sequence[tuple[str, Digests]], suspects: Iterable[int], live: AbstractSet[Digests]
    ) -> list[int]:
        """Return the `suspects` with deleted words. `live`: the other messages of the session.

        A suspect is not deleted if another turn has a message with its id, or, without an id, with its content.
        """
        contents = {content for _, content in live}
        return [
            index
            for index in suspects
            if pushed[index][0] in self.turns
            or (
                pushed[index][1] not in live
                if pushed[index][1][0] in self.message_ids
                else pushed[index][1][1] not in contents
            )
        ]
