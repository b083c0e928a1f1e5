"""The replay of a session's log. Finds the places that are cut at the end, and the rewinds that count. No I/O.

Every invocation has a place: the position of its first entry in the log. An event of an agent runtime also has a place
of its own: runtimes use the positions of events, and kagent's runtime begins every turn with an event of the same
invocation. A rewind cuts the places from its target up to the rewind. A pushed history cuts all places before the
pushed history. A rewind starts from the state just before its target. So rewinds and undos between target and rewind
lose their effect: a rewind before an earlier rewind takes the earlier rewind back, as in ADK.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

from taskplane.sessions.domain.deleting import Deletions, Name
from taskplane.sessions.domain.session import EVENT, PUSHED, REDUCED, REWIND, SAID, UNDO, VOID

__all__ = ["Cut", "Line", "Name", "PushedHistory", "Replayed"]


class Line(NamedTuple):
    """The fields of an `Entry` that the effective history needs."""

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
        """Return the turn that created the task of the entry; without a task, the turn of the entry."""
        return self.task_invocation_id or self.invocation_id or self.seq

    @property
    def is_of_a_turn(self) -> bool:
        """Return whether the entry is a message, the outcome of a turn, or an event without a rewind."""
        return self.kind in SAID or (self.kind == EVENT and not self.target)

    @property
    def changes_history(self) -> bool:
        """Return whether the entry may change the effect of earlier entries. Any other entry is only added."""
        return self.kind not in SAID and (self.kind != EVENT or bool(self.target))

    @property
    def shows(self) -> bool:
        """Return whether a conversation shows the entry while the entry is in effect."""
        if self.kind in SAID:
            return self.speaks
        return self.kind == EVENT and not self.target


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The cut of the places from `start` up to, not including, `end`, and of the places that `below` cuts.

    `before`: the state after an undo. `push`: the pushed history that counts, if any. The pushed history is the lowest
    of the cuts. No undo takes it back.
    """

    start: int
    end: int
    below: "Cut | None"
    before: "Cut | None"
    push: "PushedHistory | None"

    @property
    def is_push(self) -> bool:
        return self.push is not None and self.push.place == self.end


@dataclass(frozen=True, slots=True, eq=False)
class PushedHistory:
    """A pushed history at `place`. `named`: the place of each of its invocations. `listed`: place and invocation of
    each of its messages.

    `reduced`: invocations with messages that the pushed history leaves out. Later entries of them are not in effect.
    """

    seq: int
    place: int
    named: dict[Name, int]
    listed: Sequence[tuple[int, Name]]
    reduced: set[Name]


class Replayed:
    """The first place of each invocation (`seen`), the `voided` invocations, and the `state`: the cuts at the end.

    The turns of deleted tasks stay void. A replay keeps only these places of the entries. `seq`: the number of the
    newest entry, or 0.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        """Replay the entries of a session in the order of their numbers: all, or all up to some number."""
        self.seq = lines[-1].seq if lines else 0
        self.deletions = Deletions.of(line.listed for line in lines if line.kind == VOID and line.listed)
        voided = _voided(lines)
        self.voided = voided | self.deletions.turns
        self._seen: dict[Name, int] = {}
        self._events: dict[int, int] = {}
        # A deletion does not revert the cuts that turns of its task made. An ordinary void of such a turn does.
        self.state, self._place = _replay(lines, voided, self._seen, self._events)
        self.push = self.state.push if self.state is not None else None
        self._starts, self._ends = _intervals(self.state)

    @property
    def seen(self) -> Mapping[Name, int]:
        return self._seen

    @property
    def events(self) -> Mapping[int, int]:
        """Return the place of each event, by its number."""
        return self._events

    @property
    def is_whole(self) -> bool:
        """Return whether everything is in effect: nothing is cut, voided or replaced."""
        return not self.voided and not self._starts and self.push is None

    def followed_by(self, lines: Sequence[Line]) -> Self:
        """Return the replay of the log with these entries at its end. None of the entries `changes_history`."""
        after = copy(self)
        after._seen = dict(self._seen)
        after._events = dict(self._events)
        place = self._place
        for line in lines:
            place += 1
            after._seen.setdefault(line.group, place)
            if line.name != line.group:
                place += 1
                after._seen.setdefault(line.name, place)
            if line.kind == EVENT:
                after._events[line.seq] = place
        after._place = place
        after.seq = lines[-1].seq if lines else self.seq
        return after

    def is_in_effect(self, line: Line) -> bool:
        """Return whether the entry is in effect: neither the entry nor the turn that created its task is cut, void or
        replaced."""
        push = self.push
        if line.kind == EVENT and self.cuts(self._events[line.seq]):
            return False
        if not self.is_kept(line.name):
            return False
        if push is not None and (line.seq < push.seq or self.is_replaced(line.name) or line.name in push.reduced):
            return False
        # A pushed history replaces earlier messages. It does not replace tasks that go on.
        return line.group == line.name or self.is_kept(line.group)

    def is_kept(self, name: Name) -> bool:
        """Return whether a seen invocation is neither void nor cut by a rewind."""
        return name not in self.voided and not self.cuts(self.place(name))

    def is_replaced(self, name: Name) -> bool:
        """Return whether the pushed history that counts is later than this invocation and does not name the
        invocation."""
        return self.push is not None and self.place(name) < self.push.place

    def place(self, name: Name) -> int:
        """Return the place of a seen invocation: its place in the pushed history, if the pushed history names the
        invocation."""
        return _place(self.state, self.seen, name)

    def cuts(self, place: int) -> bool:
        """Return whether a rewind that counts cuts this place."""
        at = bisect_right(self._starts, place) - 1
        return at >= 0 and place < self._ends[at]


def _voided(lines: Sequence[Line]) -> frozenset[Name]:
    off = {line.target: line.off for line in lines if line.kind == VOID and not line.listed}
    return frozenset(target for target, taken_back in off.items() if not taken_back)


def _replay(
    lines: Sequence[Line], voided: frozenset[Name], seen: dict[Name, int], events: dict[int, int]
) -> tuple[Cut | None, int]:
    """Replay the log. Return the cuts at the end and the last place.

    Fill `seen` with the place of each invocation, and `events` with the place of each event, by its number.
    """
    state: Cut | None = None
    # The cuts at each place.
    states: dict[int, Cut | None] = {}
    # The invocations voided so far. `voided`: the invocations void at the end; their rewinds do not count.
    void: set[Name] = set()
    place = 0
    for seq, kind, invocation_id, _, task_invocation_id, _, target, off, _, listing in lines:
        if kind == REWIND and off:
            # A refused rewind cannot be the target of a rewind.
            continue
        at = place = place + 1
        # `Line.name` and `Line.group` inlined, since logs are long.
        name = invocation_id or seq
        group = task_invocation_id or name
        if group not in seen:
            seen[group] = place
            states[place] = state
        if name != group:
            place += 1
            if name not in seen:
                seen[name] = place
                states[place] = state
        if kind in SAID:
            continue
        if kind == EVENT:
            events[seq] = place
        if kind == VOID and listing:
            continue
        if kind == VOID and not off:
            void.add(target)
        elif kind == VOID and target in void:
            void.discard(target)
            if target in seen and _cuts(state, _place(state, seen, target)):
                # The turn begins again after a rewind that had nothing of the turn to cut. From here it is a turn like
                # any other.
                place += 1
                seen[target], states[place] = place, state
        if name in voided:
            continue
        if kind == PUSHED:
            pushed = PushedHistory(seq, at, {}, listed := [], set())
            state = Cut(0, at, None, None, pushed)
            for invocation in listing.split("\n")[:-1]:
                place += 1
                of_message = invocation.removeprefix(REDUCED) or -place
                if of_message != invocation and invocation:
                    pushed.reduced.add(of_message)
                seen.setdefault(of_message, place)
                pushed.named.setdefault(of_message, place)
                states[place] = state
                listed.append((pushed.named[of_message], of_message))
        elif kind == UNDO:
            if state is not None and not state.is_push:
                state = state.before
        elif target and kind in (REWIND, EVENT):
            start = _place(state, seen, target) if target in seen else at
            if start < at:
                below = states[start]
                state = Cut(start, at, below, state, below.push if below is not None else None)
    return state, place


def _place(state: Cut | None, seen: Mapping[Name, int], name: Name) -> int:
    push = state.push if state is not None else None
    # The place in the pushed history is the later place, unless the invocation began again after the pushed history.
    return seen[name] if push is None else max(seen[name], push.named.get(name, 0))


def _cuts(state: Cut | None, place: int) -> bool:
    while state is not None and not state.is_push:
        if state.start <= place < state.end:
            return True
        state = state.below
    return False


def _intervals(state: Cut | None) -> tuple[list[int], list[int]]:
    """Return the starts and the ends of the cuts of rewinds, in order. The cuts do not overlap."""
    cuts: list[Cut] = []
    while state is not None and not state.is_push:
        cuts.append(state)
        state = state.below
    cuts.reverse()
    return [cut.start for cut in cuts], [cut.end for cut in cuts]
