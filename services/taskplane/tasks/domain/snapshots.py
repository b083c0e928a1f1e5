"""The rules for rewriting the stored snapshot of a task. For large tasks it stays old. No I/O."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from taskplane.tasks.domain.kinds import ARTIFACT
from taskplane.tasks.domain.task import Event, Row, content_size

# The stored snapshot is rewritten once the events after it outweigh it: they have this many times its bytes, and more
# than the floor. So reading a task takes at most about five times its snapshot, or that and the floor. A rewrite weighs
# at most the snapshot before it and its tail, less than 5/4 of that tail, and no event is in two rewrites: together
# they weigh less than 5/4 of the events. Measured: 0.1 % for status texts, which leave nothing, 20 to 30 % for texts in
# deltas, 40 to 80 % for messages and artifacts, nearly all of which stays; about half of that compressed. The rewrite
# at the end of a task comes on top, with the size of the task.
_OUTWEIGHS: Final = 4
_TAIL_FLOOR: Final = 128 * 1024
LARGE: Final = 1024 * 1024
"""The size in bytes up to which any task is folded with its artifacts, since its log may be much longer. The fold takes
about six times this size in memory."""
# A piece of this size is read from the log as fast as it would be unpacked from a snapshot.
_LEAST_PIECE: Final = 1024


class Tail(NamedTuple):
    """The events after the snapshot of a task."""

    pieces: int = 0
    """The number of pieces of artifacts."""
    others: int = 0
    """Bytes of the other events."""
    begun: int = 0
    """The number of times that an artifact was begun, or begun anew."""
    artifacts: int = 0
    """The number of artifacts that were begun."""

    def followed_by(self, events: Sequence[Event]) -> Self:
        """Return the tail with further events. An artifact that they begin counts as new."""
        pieces = [event for event in events if event.kind == ARTIFACT]
        others = sum([len(event.payload) for event in events if event.kind != ARTIFACT])
        begun = [event.artifact_id for event in pieces if event.artifact_id is not None]
        return type(self)(
            self.pieces + len(pieces), self.others + others, self.begun + len(begun), self.artifacts + len(set(begun))
        )


def is_outweighed(before: Row, row: Row) -> bool:
    """Return whether the events of an operation make the tail outweigh the snapshot, or outweigh it twice as much."""
    return _weight(row).bit_length() > _weight(before).bit_length()


def is_left_in_log(row: Row, tail: Tail) -> bool:
    """Return whether a task gets no new snapshot, since it is large and a snapshot would only repeat its log: its tail
    is mostly pieces of artifacts, none replaced and none too small.
    """
    if content_size(row) <= LARGE:
        return False
    of_pieces = row.event_bytes - row.folded_bytes - tail.others
    return of_pieces >= max(tail.others, _LEAST_PIECE * tail.pieces) and tail.begun == tail.artifacts


def _weight(row: Row) -> int:
    return (row.event_bytes - row.folded_bytes) // max(_TAIL_FLOOR, _OUTWEIGHS * row.snapshot_bytes)
