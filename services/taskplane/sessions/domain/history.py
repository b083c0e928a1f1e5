"""The effective history: what a session shows after its rewinds. A pure function of its entries.

It goes by invocation, not by position: an entry is in effect when the place of its invocation is not cut (see
`domain.replay`), wherever the entry itself stands. So a late copy of a cut turn stays cut.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.replay import Line, Replayed
from taskplane.sessions.domain.session import EVENT, PUSHED, REWIND, SAID


class InEffect(NamedTuple):
    """An entry in effect. `kept`: of a pushed history, the indexes of those of its messages that are in effect."""

    seq: int
    kind: int
    kept: Sequence[int] = ()


# Where an entry in effect is read: the place of the turn that created its task (of an event, its own), its generation,
# its number, and its kind. Places compare as a conversation reads.
Place = tuple[int, int, int, int]


class Reading:
    """The entries in effect in the order in which a conversation reads, see `effective`, and a pushed history before
    them. It holds little of each entry, so that it can be kept, and never changes: that of a longer log is another one.

    `seq` is the number of the newest entry of the log, and `kept` has the indexes of those messages of the pushed
    history `push`, if there is one, that are in effect.
    """

    __slots__ = ("_log", "kept", "places", "push")

    def __init__(self, log: Replayed, places: Sequence[Place]) -> None:
        """Made by `of` and `followed_by`."""
        self._log = log
        self.places = places
        self.push = log.push.seq if log.push is not None else 0
        self.kept: Sequence[int] = ()
        if log.push is not None:
            listed = enumerate(log.push.listed)
            self.kept = [i for i, (place, name) in listed if name not in log.voided and not log.cuts(place)]

    @classmethod
    def of(cls, lines: Iterable[Line]) -> "Reading":
        """`lines` are all entries of a session in the order of their numbers, or all up to some number."""
        lines = list(lines)
        log = Replayed(lines)
        return cls(log, sorted(_places(log, lines)))

    def followed_by(self, lines: Sequence[Line]) -> "Reading | None":
        """That of the log with these entries after its own; None: one of them steers, so all must be read anew."""
        if any(line.changes_history for line in lines):
            return None
        log = self._log.followed_by(lines)
        return Reading(log, sorted([*self.places, *_places(log, lines)]))

    @property
    def seq(self) -> int:
        return self._log.seq

    @property
    def has_events(self) -> bool:
        """Whether an agent runtime feeds the session, be none of its events in effect."""
        return bool(self._log.events)


def _places(log: Replayed, lines: Sequence[Line]) -> list[Place]:
    if not log.is_whole:
        lines = [line for line in lines if line.shows and log.is_in_effect(line)]
    seen, events = log.seen, log.events
    # `Line.shows` and `Line.group` once more, since logs are long.
    return [
        (events[seq] if kind == EVENT else seen[first_invocation_id or invocation_id or seq], generation, seq, kind)
        for seq, kind, invocation_id, _, first_invocation_id, generation, target, _, speaks, _ in lines
        if (not target if kind == EVENT else speaks and kind in SAID)
    ]


def effective(lines: Iterable[Line]) -> list[InEffect]:
    """Which entries are in effect, in the order in which a conversation reads.

    `lines` are all entries of a session in the order of their numbers, or all up to some number. A pushed history comes
    first. What follows is ordered by task, in the order in which the turns that created them were first seen, each
    direct turn by itself, and inside by generation; an event is read where it stands. Messages, direct answers and
    events of an agent runtime are listed; what only steers (rewinds, voids, outcomes that say "a task") is not. Equal
    messageIds are not merged here.
    """
    reading = Reading.of(lines)
    found = [InEffect(seq, kind) for _, _, seq, kind in reading.places]
    if reading.push:
        found.insert(0, InEffect(reading.push, PUSHED, reading.kept))
    return found


def rewind_line(target: str, lines: Sequence[Line]) -> Line:
    """A rewind before `target`, as the entry that would follow `lines`."""
    return Line(lines[-1].seq + 1 if lines else 1, REWIND, target=target)


def events_in_effect(lines: Iterable[Line]) -> frozenset[int]:
    """The numbers of the events of an agent runtime that are in effect."""
    return frozenset(one.seq for one in effective(lines) if one.kind == EVENT)


def can_rewind_to(lines: Iterable[Line], invocation_id: str) -> bool:
    """Whether an invocation is in effect, so that it can be rewound to before it.

    That of a rewind, an undo or a pushed history is, too, as long as it counts.
    """
    lines = list(lines)
    log = Replayed(lines)
    if invocation_id not in log.seen or not log.is_kept(invocation_id) or log.is_replaced(invocation_id):
        return False
    return _is_pushed(log, invocation_id) or invocation_id not in _cut(log, lines)


def cut(lines: Iterable[Line]) -> list[str]:
    """The invocations that have a message, an outcome or an event and are not in effect, in the order of the log."""
    lines = list(lines)
    return list(_cut(Replayed(lines), lines))


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
    """Why the newest rewind that counts cannot be taken back; empty: it can.

    It is too late when a turn was begun after it, unless that one came to nothing.
    """
    lines = list(lines)
    log = Replayed(lines)
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
    """The messages without repetitions: of equal messageIds the first one stays."""
    seen: set[str] = set()
    kept: list[a2a.Message] = []
    for message in messages:
        if message.message_id and message.message_id in seen:
            continue
        seen.add(message.message_id)
        kept.append(message)
    return kept
