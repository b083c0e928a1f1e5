"""The effective history: what a session shows after its rewinds. A pure function of its entries.

It goes by invocation, not by position: an entry is in effect when the place of its invocation is not cut (see
`domain.replay`), wherever the entry itself stands. So a late copy of a cut turn stays cut.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.replay import Line, Replayed
from taskplane.sessions.domain.session import EVENT, PUSHED, REWIND


class InEffect(NamedTuple):
    """An entry in effect. `kept`: of a pushed history, the indexes of those of its messages that are in effect."""

    seq: int
    kind: int
    kept: Sequence[int] = ()


def effective(lines: Iterable[Line]) -> list[InEffect]:
    """Which entries are in effect, in the order in which a conversation reads.

    `lines` are all entries of a session in the order of their numbers, or all up to some number. A pushed history comes
    first. What follows is ordered by task, in the order in which the turns that created them were first seen, each
    direct turn by itself, and inside by generation; an event is read where it stands. Messages, direct answers and
    events of an agent runtime are listed; what only steers (rewinds, voids, outcomes that say "a task") is not. Equal
    messageIds are not merged here.
    """
    log = Replayed(lines)
    shown = [line for line in log.lines if line.shows and log.has(line)]
    shown.sort(key=log.reading_order)
    found = [InEffect(line.seq, line.kind) for line in shown]
    push = log.push
    if push is not None:
        kept = [i for i, (place, name) in enumerate(push.listed) if name not in log.voided and not log.cuts(place)]
        found.insert(0, InEffect(push.seq, PUSHED, kept))
    return found


def rewinding(target: str, lines: Sequence[Line]) -> Line:
    """A rewind before `target`, as the entry that would follow `lines`."""
    return Line(lines[-1].seq + 1 if lines else 1, REWIND, target=target)


def events_in_effect(lines: Iterable[Line]) -> frozenset[int]:
    """The numbers of the events of an agent runtime that are in effect."""
    return frozenset(one.seq for one in effective(lines) if one.kind == EVENT)


def stands(lines: Iterable[Line], invocation_id: str) -> bool:
    """Whether an invocation is in effect, so that it can be rewound to before it.

    That of a rewind, an undo or a pushed history is, too, as long as it counts.
    """
    log = Replayed(lines)
    if invocation_id not in log.seen or not log.stands(invocation_id) or log.replaces(invocation_id):
        return False
    return invocation_id not in _cut(log)


def cut(lines: Iterable[Line]) -> list[str]:
    """The invocations that have a message, an outcome or an event and are not in effect, in the order of the log."""
    return list(_cut(Replayed(lines)))


def _cut(log: Replayed) -> dict[str, None]:
    out: dict[str, None] = {}
    in_effect: set[str] = set()
    for line in log.lines:
        name = line.invocation_id
        if name and line.is_of_a_turn and name not in in_effect:
            if log.has(line) or _is_pushed(log, name):
                in_effect.add(name)
            else:
                out[name] = None
    for name in in_effect:
        out.pop(name, None)
    return out


def _is_pushed(log: Replayed, name: str) -> bool:
    return log.push is not None and name in log.push.named and log.stands(name)


def undoing(lines: Iterable[Line]) -> Literal["", "NOTHING_TO_UNDO", "TOO_LATE_TO_UNDO"]:
    """Why the newest rewind that counts cannot be taken back; empty: it can.

    It is too late when a turn was begun after it, unless that one came to nothing.
    """
    log = Replayed(lines)
    state = log.state
    if state is None or state.is_push:
        return "NOTHING_TO_UNDO"
    for line in log.lines:
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
