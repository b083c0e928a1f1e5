"""The effective history: what a session shows after its rewinds. A pure function of its entries.

It goes by invocation, not by position. Every invocation has a place: where it was first seen in the log. A rewind cuts
the places from that of its target up to its own, a pushed history those before it, and an entry is in effect when the
place of its invocation is not cut, wherever the entry itself stands: a late copy of a cut turn stays cut.

A rewind starts from the state that was just before its target, so what lies between has no say any more: rewinding
before an earlier rewind takes that one back, which is what ADK does as well.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.session import EVENT, MESSAGE, OUTCOME, PUSHED, REWIND, UNDO, VOID

# An entry without an invocation is a turn of its own, named by its number.
Name = str | int


class Line(NamedTuple):
    """What the effective history needs to know of an entry; the fields are those of `Entry`."""

    seq: int
    kind: int
    invocation_id: str = ""
    task_id: str = ""
    task_invocation_id: str = ""
    generation: int = 0
    target: str = ""
    off: bool = False
    speaks: bool = False
    listed: str = ""

    @property
    def name(self) -> Name:
        return self.invocation_id or self.seq

    @property
    def group(self) -> Name:
        """The turn that created the task it belongs to; its own turn, if there is no such task."""
        return self.task_invocation_id or self.invocation_id or self.seq


class InEffect(NamedTuple):
    """An entry in effect. `kept`: of a pushed history, the indexes of those of its messages that are in effect."""

    seq: int
    kind: int
    kept: Sequence[int] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """The places from `start` up to, not including, `end` are cut, and those that `below` cuts.

    `before` is the state that an undo returns to. `push` is the pushed history that counts, if any; it is the lowest
    of the cuts, which no undo takes back.
    """

    start: int
    end: int
    below: "_Cut | None"
    before: "_Cut | None"
    push: "_Push | None"

    @property
    def is_push(self) -> bool:
        return self.push is not None and self.push.place == self.end


@dataclass(frozen=True, slots=True, eq=False)
class _Push:
    """A pushed history at `place`; `named` has the place of each invocation in it, `listed` that of each message."""

    seq: int
    place: int
    named: dict[Name, int]
    listed: Sequence[tuple[int, Name]]


def effective(lines: Iterable[Line]) -> list[InEffect]:
    """Which entries are in effect, in the order in which a conversation reads.

    `lines` are all entries of a session in the order of their numbers, or all up to some number. A pushed history comes
    first. What follows is ordered by task, in the order in which the turns that created them were first seen, each
    direct turn by itself, and inside by generation. Messages, direct answers and events of an agent runtime are listed;
    what only steers (rewinds, voids, outcomes that say "a task") is not. Equal messageIds are not merged here.
    """
    lines = list(lines)
    voided = _voided(lines)
    seen: dict[Name, int] = {}
    state = _replay(lines, voided, seen)
    push = state.push if state is not None else None
    starts, ends = _intervals(state)

    def cut(place: int) -> bool:
        at = bisect_right(starts, place) - 1
        return at >= 0 and place < ends[at]

    def place_of(name: Name) -> int:
        return push.named.get(name, seen[name]) if push is not None else seen[name]

    def in_effect(line: Line) -> bool:
        place = place_of(line.name)
        if line.name in voided or cut(place) or (push is not None and (line.seq < push.seq or place < push.place)):
            return False
        # A pushed history replaces what was said before it, not the tasks that go on after it.
        return line.group == line.name or not (line.group in voided or cut(place_of(line.group)))

    shown = [line for line in lines if _shows(line) and in_effect(line)]
    shown.sort(key=lambda line: (seen[line.group], line.generation, line.seq))
    found = [InEffect(line.seq, line.kind) for line in shown]
    if push is not None:
        kept = [i for i, (place, name) in enumerate(push.listed) if name not in voided and not cut(place)]
        found.insert(0, InEffect(push.seq, PUSHED, kept))
    return found


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


def _shows(line: Line) -> bool:
    if line.kind in (MESSAGE, OUTCOME):
        return line.speaks
    return line.kind == EVENT and not line.target


def _voided(lines: Sequence[Line]) -> frozenset[Name]:
    off = {line.target: line.off for line in lines if line.kind == VOID}
    return frozenset(target for target, taken_back in off.items() if not taken_back)


def _replay(lines: Sequence[Line], voided: frozenset[Name], seen: dict[Name, int]) -> _Cut | None:
    """Goes through the log once; fills `seen`, the place of each invocation, and returns what is cut in the end."""
    state: _Cut | None = None
    # What was cut when each place was reached.
    states: dict[int, _Cut | None] = {}
    place = 0

    def see(name: Name) -> None:
        if seen.setdefault(name, place) == place:
            states[place] = state

    for line in lines:
        at = place = place + 1
        see(line.group)
        if line.name != line.group:
            place += 1
            see(line.name)
        if line.name in voided:
            continue
        if line.kind == PUSHED:
            pushed = _Push(line.seq, at, {}, listed := [])
            state = _Cut(0, at, None, None, pushed)
            for invocation in line.listed.split("\n")[:-1]:
                place += 1
                name = invocation or -place
                see(name)
                pushed.named.setdefault(name, place)
                states[place] = state
                listed.append((pushed.named[name], name))
        elif line.kind == UNDO:
            if state is not None and not state.is_push:
                state = state.before
        elif line.target and line.kind in (REWIND, EVENT):
            start = seen.get(line.target)
            if state is not None and state.push is not None:
                start = state.push.named.get(line.target, start)
            if start is not None and start < at:
                below = states[start]
                state = _Cut(start, at, below, state, below.push if below is not None else None)
    return state


def _intervals(state: _Cut | None) -> tuple[list[int], list[int]]:
    """Starts and ends of what rewinds cut, in order; they do not overlap."""
    cuts: list[_Cut] = []
    while state is not None and not state.is_push:
        cuts.append(state)
        state = state.below
    cuts.reverse()
    return [cut.start for cut in cuts], [cut.end for cut in cuts]
