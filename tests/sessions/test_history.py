"""The effective history: examples of every rule, and the whole of it against a naive reference that works with sets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.history import InEffect, conversation, cut, effective, stands, undoing
from taskplane.sessions.domain.replay import Line, Name
from taskplane.sessions.domain.session import EVENT, KINDS, MESSAGE, OUTCOME, PUSHED, REWIND, UNDO, VOID


def each_line(listed: Sequence[str]) -> str:
    return "".join(f"{name}\n" for name in listed)


class Log:
    """A log being written; each method appends one entry. Entries are called by their text in `shown`."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._texts: dict[int, str] = {}

    def _add(self, text: str, line: Line) -> "Log":
        line = line._replace(seq=len(self.lines) + 1)
        self.lines.append(line)
        self._texts[line.seq] = text
        return self

    def user(self, invocation: str) -> "Log":
        """The message that begins a turn."""
        return self._add(f"{invocation}?", Line(0, MESSAGE, invocation, speaks=True))

    def copy(self, text: str, invocation: str, task: str, generation: int) -> "Log":
        """The copy of an event of the task that the turn `task` created."""
        return self._add(text, Line(0, MESSAGE, invocation, f"task-{task}", task, generation, speaks=True))

    def direct(self, invocation: str) -> "Log":
        return self._add(f"{invocation}!", Line(0, OUTCOME, invocation, speaks=True))

    def made_task(self, invocation: str) -> "Log":
        return self._add("", Line(0, OUTCOME, invocation))

    def event(self, text: str, invocation: str, target: str = "") -> "Log":
        return self._add(text, Line(0, EVENT, invocation, target=target))

    def rewind(self, target: str, own: str, *, off: bool = False) -> "Log":
        return self._add("", Line(0, REWIND, own, target=target, off=off))

    def undo(self, own: str) -> "Log":
        return self._add("", Line(0, UNDO, own))

    def void(self, target: str, *, off: bool = False) -> "Log":
        return self._add("", Line(0, VOID, target, target=target, off=off))

    def push(self, own: str, *listed: str) -> "Log":
        return self._add("pushed", Line(0, PUSHED, own, listed=each_line(listed)))

    @property
    def shown(self) -> list[str]:
        return [self._text(one) for one in effective(self.lines)]

    def _text(self, one: InEffect) -> str:
        text = self._texts[one.seq]
        return f"{text}{list(one.kept)}" if one.kind == PUSHED else text


def turn(log: Log, invocation: str) -> Log:
    """A whole turn: a question, a task, and its answer."""
    return log.user(invocation).made_task(invocation).copy(f"{invocation}.", invocation, invocation, 3)


def turns(*invocations: str) -> Log:
    log = Log()
    for invocation in invocations:
        turn(log, invocation)
    return log


def test_without_rewinds_everything_said_is_shown_in_order() -> None:
    assert turns("A", "B").user("C").direct("C").shown == ["A?", "A.", "B?", "B.", "C?", "C!"]


def test_a_rewind_cuts_its_target_and_all_that_was_first_seen_after_it() -> None:
    """R3."""
    assert turns("A", "B", "C").rewind("B", "r").shown == ["A?", "A."]


def test_turns_after_a_rewind_are_shown() -> None:
    """R3, R5."""
    assert turn(turns("A", "B").rewind("B", "r"), "C").shown == ["A?", "A.", "C?", "C."]


def test_a_late_copy_of_a_cut_turn_stays_cut_and_one_of_a_kept_turn_is_shown() -> None:
    """R3: by invocation, wherever the entries stand."""
    log = Log().user("A").user("B").rewind("B", "r")
    log.copy("B late", "B", "B", 4).copy("A late", "A", "A", 4)
    assert log.shown == ["A?", "A late"]


def test_a_copy_is_cut_with_the_turn_that_created_its_task() -> None:
    """R3: the answer to a follow-up goes when the turn that made the task goes, and the follow-up itself."""
    log = turns("A", "B").copy("A2?", "A2", "A", 5).copy("A2.", "A2", "A", 6)
    assert turns("A", "B").copy("A2?", "A2", "A", 5).rewind("A2", "r").shown == ["A?", "A.", "B?", "B."]
    assert log.rewind("A", "r").copy("late", "A3", "A", 9).shown == []


def test_turns_of_one_task_stand_together_whatever_came_between() -> None:
    """R5, T7: A, B, C, then the answer to A (the ABCA case) reads like the flatten of the tasks."""
    log = turns("A", "B", "C").copy("A2?", "A2", "A", 5).copy("A2.", "A2", "A", 7)
    assert log.shown == ["A?", "A.", "A2?", "A2.", "B?", "B.", "C?", "C."]


def test_copies_of_a_task_are_shown_by_generation_not_by_arrival() -> None:
    log = Log().user("A").copy("third", "A", "A", 9).copy("second", "A", "A", 4)
    assert log.shown == ["A?", "second", "third"]


def test_rewinds_stack() -> None:
    """R3: a later rewind may go further back than an earlier one."""
    log = turn(turns("A", "B", "C").rewind("C", "r1"), "D").rewind("B", "r2")
    assert log.shown == ["A?", "A."]
    assert turn(log, "E").shown == ["A?", "A.", "E?", "E."]


def test_rewinding_twice_before_the_same_turn_cuts_what_came_between() -> None:
    """R3, R10: as ADK does it."""
    assert turn(turns("A", "B").rewind("B", "r1"), "C").rewind("B", "r2").shown == ["A?", "A."]


def test_rewinding_before_a_rewind_takes_it_back() -> None:
    """R8: ADK's rule."""
    log = turn(turns("A", "B").rewind("B", "r1"), "C").rewind("r1", "r2")
    assert log.shown == ["A?", "A.", "B?", "B."]


def test_a_rewind_before_something_unknown_changes_nothing() -> None:
    """R9."""
    assert turns("A").rewind("nobody", "r").shown == ["A?", "A."]


def test_a_refused_rewind_has_no_effect_and_is_no_place_to_rewind_to() -> None:
    """R9."""
    log = turn(turns("A", "B").rewind("A", "r", off=True), "C")
    assert log.shown == ["A?", "A.", "B?", "B.", "C?", "C."]
    assert not stands(log.lines, "r")
    assert log.rewind("r", "r2").shown == ["A?", "A.", "B?", "B.", "C?", "C."]


def test_an_undo_restores_what_the_rewind_cut() -> None:
    """R8."""
    assert turns("A", "B").rewind("B", "r").undo("u").shown == ["A?", "A.", "B?", "B."]


def test_undoes_go_back_rewind_by_rewind() -> None:
    """R8."""
    log = turns("A", "B", "C").rewind("C", "r1").rewind("B", "r2")
    assert log.undo("u1").shown == ["A?", "A.", "B?", "B."]
    assert log.undo("u2").shown == ["A?", "A.", "B?", "B.", "C?", "C."]
    assert log.undo("u3").shown == ["A?", "A.", "B?", "B.", "C?", "C."]


def test_late_copies_that_came_before_an_undo_come_back_with_it() -> None:
    """R3, R8."""
    log = turns("A").user("B").rewind("B", "r").copy("B late", "B", "B", 4).undo("u")
    assert log.shown == ["A?", "A.", "B?", "B late"]


def test_a_voided_turn_is_out_and_an_un_void_takes_it_back() -> None:
    log = turns("A", "B").void("A")
    assert log.shown == ["B?", "B."]
    assert log.copy("A late", "A", "A", 9).shown == ["B?", "B."]
    assert log.void("A", off=True).shown == ["A?", "A.", "A late", "B?", "B."]


def test_a_void_stands_whatever_is_rewound() -> None:
    assert turns("A", "B").void("A").rewind("B", "r").shown == []


def test_a_voided_rewind_is_none() -> None:
    assert turns("A", "B").rewind("B", "r").void("r").shown == ["A?", "A.", "B?", "B."]


def test_a_pushed_history_replaces_all_before_it() -> None:
    """R7."""
    log = turn(turns("A", "B").push("p", "A", "A"), "C")
    assert log.shown == ["pushed[0, 1]", "C?", "C."]
    assert log.push("q").shown == ["pushed[]"]
    assert log.push("q2", "").shown == ["pushed[0]"]


def test_late_copies_of_replaced_turns_stay_out_but_a_task_that_goes_on_is_shown() -> None:
    """R7: a push replaces what was said; a paused task that is answered after it speaks in a new turn."""
    log = turns("A", "B").push("p", "A").copy("B late", "B", "B", 9)
    log.copy("A2?", "A2", "A", 10).copy("B2?", "B2", "B", 10)
    assert log.shown == ["pushed[0]", "A2?", "B2?"]


def test_a_turn_in_a_pushed_history_can_be_rewound() -> None:
    """R3, R7."""
    log = turn(turns("A", "B").push("p", "A", "", "B", "A", "B"), "C")
    assert log.rewind("C", "r1").shown == ["pushed[0, 1, 2, 3, 4]"]
    assert log.rewind("B", "r2").shown == ["pushed[0, 1, 3]"]
    assert log.undo("u").shown == ["pushed[0, 1, 2, 3, 4]"]


def test_rewinding_before_a_push_takes_it_back_and_no_undo_does() -> None:
    """R7, R8."""
    assert turns("A", "B").rewind("B", "r").push("p", "B").undo("u").shown == ["pushed[0]"]
    assert turns("A", "B").push("p", "B").rewind("p", "r").shown == ["A?", "A.", "B?", "B."]


def test_an_event_that_rewinds_acts_as_a_rewind_and_is_not_shown() -> None:
    """R10."""
    log = Log().event("e1", "A").event("e2", "B").event("", "r", target="B").event("e3", "C")
    assert log.shown == ["e1", "e3"]


def test_events_of_one_invocation_that_comes_again_go_by_where_they_stand() -> None:
    """R10: kagent's runtime begins every turn with an event of the same invocation."""
    log = Log()
    for name in "ABC":
        log.event(f"h{name}", "h").event(f"e{name}", name)
    assert log.shown == ["hA", "eA", "hB", "eB", "hC", "eC"]
    assert log.event("", "r", target="B").shown == ["hA", "eA", "hB"]
    assert log.event("hD", "h").event("eD", "D").shown == ["hA", "eA", "hB", "hD", "eD"]
    assert cut(log.lines) == ["B", "C"]
    assert log.event("late", "C").shown == ["hA", "eA", "hB", "hD", "eD"]


def test_entries_without_an_invocation_are_turns_of_their_own() -> None:
    log = Log().event("e1", "").user("A").event("e2", "")
    assert log.shown == ["e1", "A?", "e2"]
    assert log.rewind("A", "r").shown == ["e1"]


def test_what_is_cut_and_voided_no_longer_stands_and_rewinds_stand_while_they_count() -> None:
    """R3, R9: an invocation that is no longer in effect is not found."""
    log = turn(turns("A", "B", "C").rewind("B", "r"), "D").void("D")
    assert [name for name in "ABCD" if stands(log.lines, name)] == ["A"]
    assert cut(log.lines) == ["B", "C", "D"]
    assert stands(log.lines, "r")
    assert not stands(log.lines, "nobody")
    log.rewind("r", "r2")
    assert [name for name in ("A", "B", "C", "D", "r", "r2") if stands(log.lines, name)] == ["A", "B", "C", "r2"]
    assert cut(log.lines) == ["D"]


def test_a_follow_up_in_a_cut_task_that_comes_late_does_not_stand() -> None:
    log = turns("A").rewind("A", "r").copy("late", "A2", "A", 5)
    assert not stands(log.lines, "A2")
    assert cut(log.lines) == ["A", "A2"]


def test_what_a_pushed_history_replaced_does_not_stand_and_what_it_names_does() -> None:
    """R7."""
    log = turn(turns("A", "B").push("p", "A"), "C")
    assert [name for name in ("A", "B", "C", "p") if stands(log.lines, name)] == ["A", "C", "p"]
    assert cut(log.lines) == ["B"]
    assert cut(log.rewind("p", "r").lines) == ["C"]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (turns("A", "B"), "NOTHING_TO_UNDO"),
        (turns("A", "B").rewind("B", "r"), ""),
        (turns("A", "B").rewind("B", "r").copy("late", "B", "B", 9), ""),
        (turns("A", "B").rewind("B", "r").user("C"), "TOO_LATE_TO_UNDO"),
        (turns("A", "B").rewind("B", "r").copy("late", "A2", "A", 9), "TOO_LATE_TO_UNDO"),
        (turns("A", "B").rewind("B", "r").event("e", ""), "TOO_LATE_TO_UNDO"),
        (turns("A", "B").rewind("B", "r").user("C").void("C"), ""),
        (turns("A", "B").rewind("B", "r").user("C").void("C").void("C", off=True), "TOO_LATE_TO_UNDO"),
        (turns("A", "B").rewind("B", "r1").rewind("A", "r2").undo("u"), ""),
        (turns("A", "B").rewind("B", "r1").rewind("A", "r2").undo("u").undo("u2"), "NOTHING_TO_UNDO"),
        (turns("A", "B").rewind("B", "r1").user("C").rewind("C", "r2").undo("u"), "TOO_LATE_TO_UNDO"),
        (turns("A", "B").rewind("B", "r", off=True), "NOTHING_TO_UNDO"),
        (turns("A", "B").rewind("B", "r").void("r"), "NOTHING_TO_UNDO"),
        (turns("A", "B").rewind("B", "r").push("p", "A"), "NOTHING_TO_UNDO"),
        (turns("A", "B").push("p", "A", "B").rewind("B", "r"), ""),
        (turns("A", "B").event("", "r", target="B"), ""),
    ],
)
def test_a_rewind_may_be_undone_while_no_turn_was_begun_after_it(log: Log, reason: str) -> None:
    """R8."""
    assert undoing(log.lines) == reason


def test_equal_message_ids_are_kept_once_and_missing_ones_always() -> None:
    """T6."""
    said = [("m", "1"), ("", "2"), ("n", "3"), ("m", "4"), ("", "5")]
    messages = [a2a.Message(message_id=name, parts=[a2a.Part(text=text)]) for name, text in said]
    assert [message.parts[0].text for message in conversation(messages)] == ["1", "2", "3", "5"]


# The reference: it keeps whole worlds of sets, one for every place of the log, and looks everything up by scanning.


@dataclass(frozen=True)
class World:
    """What is out at some point, the pushed history that counts, and the world that an undo returns to."""

    cut: frozenset[Name] = frozenset()
    # Numbers of events that stand where something is out, whatever their invocation is.
    events: frozenset[int] = frozenset()
    replaced: frozenset[Name] = frozenset()
    push: int = 0
    before: "World | None" = None
    # How many sightings there were when it began; 0 for the worlds that no rewind made.
    since: int = 0


@dataclass
class Naive:
    lines: Sequence[Line]
    # Every sighting of a turn in order: who, and in which pushed history (0: in an entry).
    sightings: list[tuple[Name, int]] = field(default_factory=list[tuple[Name, int]])
    worlds: list[World] = field(default_factory=list[World])
    # How many sightings there were when each event came.
    events: dict[int, int] = field(default_factory=dict[int, int])

    def place(self, name: Name, push: int) -> int | None:
        in_push = [i for i, (who, where) in enumerate(self.sightings) if who == name and where == push != 0]
        anywhere = [i for i, (who, _) in enumerate(self.sightings) if who == name]
        return next(iter(in_push or anywhere), None)

    def voided(self) -> set[Name]:
        last = {line.target: line for line in self.lines if line.kind == VOID}
        return {target for target, line in last.items() if not line.off}

    def see(self, name: Name, push: int, world: World) -> None:
        self.sightings.append((name, push))
        self.worlds.append(world)

    def run(self) -> World:
        self.sightings.clear()
        self.worlds.clear()
        self.events.clear()
        world = World()
        void = self.voided()
        for line in self.lines:
            if line.kind == REWIND and line.off:
                continue
            fresh = self.place(line.name, 0) is None
            entered = len(self.sightings)
            self.see(line.group, 0, world)
            self.see(line.name, 0, world)
            if line.kind == EVENT:
                self.events[line.seq] = entered
            if line.name in void:
                continue
            if line.kind == PUSHED:
                names = line.listed.split("\n")[:-1]
                own: set[Name] = {line.name} if fresh else set()
                world = World(replaced=frozenset({who for who, _ in self.sightings} - own - set(names)), push=line.seq)
                for index, name in enumerate(names):
                    self.see(name or -(line.seq * 1000 + index), line.seq, world)
            elif line.kind == UNDO and world.before is not None:
                world = world.before
            elif line.kind in (REWIND, EVENT) and line.target:
                start = self.place(line.target, world.push)
                if start is not None and start < entered:
                    then = self.worlds[start]
                    known = {who for who, _ in self.sightings[:entered]}
                    gone = {who for who in known if start <= (self.place(who, then.push) or 0) < entered}
                    events = {seq for seq, at in self.events.items() if start <= at < entered}
                    world = replace(then, cut=then.cut | gone, events=then.events | events, before=world, since=entered)
        return world

    def has(self, line: Line, world: World) -> bool:
        out = world.cut | self.voided()
        if line.seq in world.events:
            return False
        return line.seq >= world.push and line.name not in out | world.replaced and line.group not in out

    def of_turns(self) -> list[Line]:
        return [
            line for line in self.lines if line.kind in (MESSAGE, OUTCOME) or (line.kind == EVENT and not line.target)
        ]

    def cut(self) -> list[str]:
        world = self.run()
        found: list[str] = []
        for name in dict.fromkeys(line.invocation_id for line in self.of_turns() if line.invocation_id):
            pushed = any(who == name and where == world.push != 0 for who, where in self.sightings)
            if pushed and name not in world.cut | self.voided():
                continue
            if not any(self.has(line, world) for line in self.of_turns() if line.name == name):
                found.append(name)
        return found

    def stands(self, name: str) -> bool:
        cut = self.cut()
        world = self.run()
        return self.place(name, 0) is not None and name not in {*world.cut, *world.replaced, *self.voided(), *cut}

    def undoing(self) -> str:
        world = self.run()
        if world.before is None:
            return "NOTHING_TO_UNDO"
        for line in self.of_turns():
            for name in {line.name, line.group} - self.voided():
                place = self.place(name, world.push)
                assert place is not None
                if place >= world.since + 2:
                    return "TOO_LATE_TO_UNDO"
        return ""

    def effective(self) -> list[tuple[int, tuple[int, ...]]]:
        world = self.run()
        out = world.cut | self.voided()
        shown: list[tuple[tuple[int, int, int], int]] = []
        for line in self.lines:
            says = line.speaks if line.kind in (MESSAGE, OUTCOME) else line.kind == EVENT and not line.target
            if says and self.has(line, world):
                first = self.events[line.seq] if line.kind == EVENT else self.place(line.group, 0)
                assert first is not None
                shown.append(((first, line.generation, line.seq), line.seq))
        result: list[tuple[int, tuple[int, ...]]] = [(seq, ()) for _, seq in sorted(shown)]
        if world.push:
            listed = [who for who, where in self.sightings if where == world.push]
            result.insert(0, (world.push, tuple(i for i, who in enumerate(listed) if who not in out)))
        return result


INVOCATIONS = ["a", "b", "c", "d", "e"]
names = st.sampled_from(INVOCATIONS)


@st.composite
def lines(draw: st.DrawFn) -> list[Line]:
    kinds = st.sampled_from([MESSAGE] * 6 + [OUTCOME, EVENT, EVENT, REWIND, REWIND, UNDO, VOID, PUSHED])
    found: list[Line] = []
    for seq in range(1, draw(st.integers(1, 14)) + 1):
        kind = draw(kinds)
        steers = kind in (REWIND, UNDO, PUSHED)
        found.append(
            Line(
                seq,
                kind,
                invocation_id=draw(st.one_of(st.just(f"own{seq}") if steers else names, names, st.just(""))),
                task_invocation_id=draw(st.one_of(st.just(""), names)) if kind == MESSAGE else "",
                generation=draw(st.integers(0, 4)) if kind == MESSAGE else 0,
                target=draw(st.one_of(names, st.sampled_from([f"own{n}" for n in range(1, seq + 1)])))
                if kind in (REWIND, VOID) or (kind == EVENT and draw(st.booleans()))
                else "",
                off=kind in (VOID, REWIND) and draw(st.integers(0, 3)) == 0,
                speaks=kind == MESSAGE or (kind == OUTCOME and draw(st.booleans())),
                listed=each_line(draw(st.lists(st.one_of(names, st.just("")), max_size=4))) if kind == PUSHED else "",
            )
        )
    return found


def plain(found: Sequence[InEffect]) -> list[tuple[int, tuple[int, ...]]]:
    return [(one.seq, tuple(one.kept)) for one in found]


@settings(max_examples=250, deadline=None)
@given(lines())
def test_the_effective_history_is_that_of_a_naive_reference(log: list[Line]) -> None:
    assert plain(effective(log)) == Naive(log).effective()


@settings(max_examples=250, deadline=None)
@given(lines())
def test_what_stands_is_cut_and_may_be_undone_is_what_a_naive_reference_says(log: list[Line]) -> None:
    """R3, R8, R9."""
    asked = [*INVOCATIONS, *(f"own{n}" for n in range(1, 15))]
    assert cut(log) == Naive(log).cut()
    assert [name for name in asked if stands(log, name)] == [name for name in asked if Naive(log).stands(name)]
    assert undoing(log) == Naive(log).undoing()


@settings(max_examples=100, deadline=None)
@given(lines(), names)
def test_a_rewind_to_what_stands_cuts_it_and_undoing_it_is_never_too_late(log: list[Line], target: str) -> None:
    """R3, R8."""
    if stands(log, target):
        after = [*log, Line(len(log) + 1, REWIND, "new", target=target)]
        assert not stands(after, target)
        assert target in cut(after) or target not in {line.invocation_id for line in Naive(log).of_turns()}
        assert undoing(after) == ""


@settings(max_examples=60, deadline=None)
@given(lines(), names)
def test_a_rewind_and_its_undo_leave_no_trace(log: list[Line], target: str) -> None:
    """R8. A rewind before something unknown is none, so there is nothing of its own to undo."""
    known = {name for line in log for name in (line.name, line.group, *line.listed.split("\n"))}
    seq = len(log) + 1
    both = [*log, Line(seq, REWIND, "new1", target=target), Line(seq + 1, UNDO, "new2")]
    if target in known:
        assert plain(effective(both)) == plain(effective(log))


@settings(max_examples=60, deadline=None)
@given(lines(), names)
def test_rewinding_before_a_rewind_restores_what_was_before_it(log: list[Line], target: str) -> None:
    """R8."""
    seq = len(log) + 1
    both = [*log, Line(seq, REWIND, "new1", target=target), Line(seq + 1, REWIND, "new2", target="new1")]
    assert plain(effective(both)) == plain(effective(log))


@settings(max_examples=60, deadline=None)
@given(lines())
def test_what_is_in_effect_is_a_choice_from_the_log_and_nothing_twice(log: list[Line]) -> None:
    found = [one.seq for one in effective(log)]
    assert len(set(found)) == len(found)
    assert set(found) <= {line.seq for line in log}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, names, st.integers(1, 9)), max_size=8), st.randoms(use_true_random=False))
def test_when_copies_arrive_makes_no_difference(copies: list[tuple[str, str, int]], order: object) -> None:
    """R5: turns are seen first by their user entries; copies come in any order and at any time after."""
    begun = [Line(0, MESSAGE, name, speaks=True) for name in INVOCATIONS]
    late = [Line(0, MESSAGE, i, "", group, g, speaks=True) for i, group, g in dict.fromkeys(copies)]
    shuffled = list(late)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    def read(entries: Sequence[Line]) -> list[tuple[str, str, int]]:
        numbered = [line._replace(seq=index) for index, line in enumerate(entries, 1)]
        by_seq = {line.seq: line for line in numbered}
        shown = [by_seq[one.seq] for one in effective(numbered)]
        return [(str(line.group), str(line.invocation_id), line.generation) for line in shown]

    in_order, mixed = read([*begun, *late]), read([*begun, *shuffled])
    assert sorted(in_order) == sorted(mixed)
    assert [(group, g) for group, _, g in in_order] == [(group, g) for group, _, g in mixed]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_entry_of_any_kind_alone_makes_a_history(kind: int) -> None:
    effective([Line(1, kind, "a", target="a")])
