"""The effective history: the messages that a session shows after its rewinds. A pure function of its entries.

The effect depends on invocations, not on positions: an entry is in effect if the place of its invocation is not cut
(see `domain.replay`). The position of the entry does not count. So a late copy of a cut turn stays cut.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.replay import Line, Name, Replayed
from taskplane.sessions.domain.session import EVENT, PUSHED, REWIND, SAID, VOID


class InEffect(NamedTuple):
    """An entry in effect. `kept`: for a pushed history, the indexes of its messages in effect."""

    seq: int
    kind: int
    kept: Sequence[int] = ()


# The place of an entry in effect in a conversation: the place of the turn that created its task (for an event, its
# own), its generation, its number, and its kind. Sorted places are in reading order.
ReadingPlace = tuple[int, int, int, int]


class Reading:
    """The entries in effect in reading order (see `effective`), and a pushed history before them.

    A reading has few fields of each entry, so it can be cached. A reading never changes: a longer log has another
    reading. `seq`: the number of the newest entry of the log. `push`: the number of the pushed history, or 0. `kept`:
    the indexes of its messages in effect.
    """

    __slots__ = ("_log", "kept", "places", "push")

    def __init__(self, log: Replayed, places: Sequence[ReadingPlace]) -> None:
        """Create a reading. Only `of` and `followed_by` call this."""
        self._log = log
        self.places = places
        self.push = log.push.seq if log.push is not None else 0
        self.kept: Sequence[int] = ()
        if log.push is not None:
            hidden = {index for seq, index in log.deletions.hidden if seq == self.push}
            listed = enumerate(log.push.listed)
            self.kept = [
                i for i, (place, name) in listed if name not in log.voided and i not in hidden and not log.cuts(place)
            ]

    @classmethod
    def of(cls, lines: Iterable[Line]) -> "Reading":
        """Read the entries of a session in the order of their numbers: all, or all up to some number."""
        lines = list(lines)
        log = Replayed(lines)
        return cls(log, sorted(_places(log, lines)))

    def followed_by(self, lines: Sequence[Line]) -> "Reading | None":
        """Return the reading of the log after these further entries.

        None: a further entry changes the effect of earlier entries, so all must be read again.
        """
        if any(line.changes_history for line in lines):
            return None
        log = self._log.followed_by(lines)
        return Reading(log, sorted([*self.places, *_places(log, lines)]))

    @property
    def seq(self) -> int:
        return self._log.seq

    @property
    def seen(self) -> Mapping[Name, int]:
        """Return the place of each turn, by its name."""
        return self._log.seen

    @property
    def has_events(self) -> bool:
        """Return whether the session has events of an agent runtime, in effect or not."""
        return bool(self._log.events)


def _places(log: Replayed, lines: Sequence[Line]) -> list[ReadingPlace]:
    if not log.is_whole:
        lines = [line for line in lines if line.shows and log.is_in_effect(line)]
    seen, events = log.seen, log.events
    # `Line.shows` and `Line.group` inlined, since logs are long.
    return [
        (events[seq] if kind == EVENT else seen[first_invocation_id or invocation_id or seq], generation, seq, kind)
        for seq, kind, invocation_id, _, first_invocation_id, generation, target, _, speaks, _ in lines
        if (not target if kind == EVENT else speaks and kind in SAID)
    ]


def effective(lines: Iterable[Line]) -> list[InEffect]:
    """Return the entries in effect, in reading order.

    `lines`: the entries of a session in the order of their numbers, all or all up to some number. A pushed history
    comes first. The other entries are grouped by task, or by turn if the turn has a direct answer. Groups are in the
    order of the first turns, entries in a group in the order of generations. An event keeps its position. Messages,
    direct answers and events of an agent runtime are listed. Rewinds, undos, voids, and outcomes without an answer are
    not. Equal messageIds are not merged here.
    """
    reading = Reading.of(lines)
    found = [InEffect(seq, kind) for _, _, seq, kind in reading.places]
    if reading.push:
        found.insert(0, InEffect(reading.push, PUSHED, reading.kept))
    return found


def rewind_line(target: str, lines: Sequence[Line]) -> Line:
    """Return a rewind before `target`, as the next entry after `lines`."""
    return Line(lines[-1].seq + 1 if lines else 1, REWIND, target=target)


def events_in_effect(lines: Iterable[Line]) -> frozenset[int]:
    """Return the numbers of the events of an agent runtime that are in effect."""
    return frozenset(one.seq for one in effective(lines) if one.kind == EVENT)


def can_rewind_to(lines: Iterable[Line], invocation_id: str) -> bool:
    """Return whether an invocation is in effect, so that a rewind can cut it.

    The invocation of a rewind, an undo or a pushed history is in effect, too, unless a later entry has reverted its
    effect.
    """
    lines = list(lines)
    log = Replayed(lines)
    if invocation_id not in log.seen or not log.is_kept(invocation_id) or log.is_replaced(invocation_id):
        return False
    return _is_pushed(log, invocation_id) or invocation_id not in _cut(log, lines)


class CutTurns(NamedTuple):
    """The invocations with a message, an outcome or an event that are not in effect, in the order of the log.

    `voided`: the void invocations, and the invocations of a task that a void turn began. A void can be taken back,
    except for `deleted`: the turns of deleted tasks. `unfinished`: deleted tasks with an unapplied void. `undoable`:
    the newest rewind can be undone.
    """

    invocations: Sequence[str] = ()
    voided: Sequence[str] = ()
    undoable: bool = False
    deleted: Sequence[str] = ()
    unfinished: Sequence[str] = ()


def cut(lines: Iterable[Line], applied: int = 0) -> CutTurns:
    """Return the invocations that are not in effect. `applied`: the tasks reflect the history up to this entry."""
    lines = list(lines)
    log = Replayed(lines)
    out = _cut(log, lines)
    undoable = _undo_error(log, lines) == ""
    voided = {line.invocation_id for line in lines if line.group in log.voided} | log.voided
    unfinished = [line.task_id for line in lines if line.seq > applied and line.kind == VOID and line.listed]
    return CutTurns(
        list(out), [name for name in out if name in voided], undoable, sorted(log.deletions.turns), unfinished
    )


def _cut(log: Replayed, lines: Sequence[Line]) -> dict[str, None]:
    out: dict[str, None] = {}
    in_effect: set[str] = set()
    for line in lines:
        name = line.invocation_id
        if name and line.is_of_a_turn and name not in in_effect:
            if log.is_in_effect(line) or (_is_pushed(log, name) and not _is_reduced(log, name)):
                in_effect.add(name)
            else:
                out[name] = None
    for name in in_effect:
        out.pop(name, None)
    return out


def _is_pushed(log: Replayed, name: str) -> bool:
    return log.push is not None and name in log.push.named and log.is_kept(name)


def _is_reduced(log: Replayed, name: str) -> bool:
    return log.push is not None and name in log.push.reduced


def undo_error(lines: Iterable[Line]) -> Literal["", "NOTHING_TO_UNDO", "TOO_LATE_TO_UNDO"]:
    """Return the reason that forbids an undo of the newest rewind that counts; "" if an undo is possible.

    An undo is too late if a turn was begun after the rewind. Void turns do not count.
    """
    lines = list(lines)
    return _undo_error(Replayed(lines), lines)


def _undo_error(log: Replayed, lines: Sequence[Line]) -> Literal["", "NOTHING_TO_UNDO", "TOO_LATE_TO_UNDO"]:
    state = log.state
    if state is None or state.is_push:
        return "NOTHING_TO_UNDO"
    for line in lines:
        if line.is_of_a_turn:
            for name in (line.name, line.group):
                if log.seen[name] > state.end and name not in log.voided:
                    return "TOO_LATE_TO_UNDO"
    return ""


def conversation(messages: Iterable[a2a.Message]) -> list[a2a.Message]:
    """Return the messages without repetitions. The first message with an id stays. Its form is the last one before
    another message of its task."""
    seen: set[str] = set()
    kept: list[a2a.Message] = []
    grows = False
    for message in messages:
        if message.message_id and message.message_id in seen:
            if grows and _takes_place_of(kept[-1], message):
                kept[-1] = message
            else:
                grows = False
            continue
        grows = True
        seen.add(message.message_id)
        kept.append(message)
    return kept


def _takes_place_of(before: a2a.Message, message: a2a.Message) -> bool:
    return (
        before.message_id == message.message_id
        and before.task_id == message.task_id != ""
        and (before.role == message.role == a2a.ROLE_AGENT)
    )
