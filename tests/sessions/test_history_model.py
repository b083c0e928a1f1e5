"""The whole of the effective history against a naive reference, and what holds for every log."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sessions.naive import INVOCATIONS, Naive, deletion, lines, names, plain
from tests.support.thorough import examples

from taskplane.sessions.domain.history import CutTurns, Reading, can_rewind_to, cut, effective, undo_error
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import EVENT, MESSAGE, PUSHED, REWIND, UNDO, VOID


@settings(max_examples=examples(250), deadline=None)
@given(lines())
def test_the_effective_history_is_that_of_a_naive_reference(log: list[Line]) -> None:
    assert plain(effective(log)) == Naive(log).effective()


@settings(max_examples=examples(250), deadline=None)
@given(lines(), st.data())
def test_a_known_reading_with_the_later_entries_equals_the_reading_of_the_whole_log(
    log: list[Line], data: st.DataObject
) -> None:
    """R5: or the whole log must be read again."""
    known = data.draw(st.integers(0, len(log)))
    reading, whole = Reading.of(log[:known]).followed_by(log[known:]), Reading.of(log)
    assert (reading is None) == any(line.changes_history for line in log[known:])
    if reading is not None:
        assert (reading.seq, reading.places, reading.has_events) == (whole.seq, whole.places, whole.has_events)
        assert (reading.push, reading.kept) == (whole.push, whole.kept)
        more = Line(len(log) + 1, MESSAGE, "new", speaks=True)
        followed, anew = reading.followed_by([more]), Reading.of([*log, more])
        assert followed is not None
        assert followed.places == anew.places


@settings(max_examples=examples(250), deadline=None)
@given(lines())
def test_effective_cut_and_undoable_turns_equal_those_of_a_simple_model(log: list[Line]) -> None:
    """R3, R8, R9: for generated logs."""
    asked = [*INVOCATIONS, *(f"own{n}" for n in range(1, 15))]
    undoable = Naive(log).undo_error() == ""
    deletions = [line for line in log if line.kind == VOID and line.listed]
    for applied in (0, 5):
        unfinished = [line.task_id for line in deletions if line.seq > applied]
        deleted = sorted(map(str, Naive(log).deleted()))
        found = CutTurns(Naive(log).cut(), Naive(log).cut_and_voided(), undoable, deleted, unfinished)
        assert cut(log, applied) == found
    assert [name for name in asked if can_rewind_to(log, name)] == [name for name in asked if Naive(log).stands(name)]
    assert undo_error(log) == Naive(log).undo_error()


@settings(max_examples=examples(100), deadline=None)
@given(lines(), names)
def test_a_rewind_cuts_a_turn_in_effect_and_can_be_undone_at_once(log: list[Line], target: str) -> None:
    """R3, R8: for generated logs."""
    if can_rewind_to(log, target):
        after = [*log, Line(len(log) + 1, REWIND, "new", target=target)]
        assert not can_rewind_to(after, target)
        assert target in cut(after).invocations or target not in {line.invocation_id for line in Naive(log).of_turns()}
        assert undo_error(after) == ""


@settings(max_examples=60, deadline=None)
@given(lines(), names)
def test_a_rewind_and_its_undo_leave_no_trace(log: list[Line], target: str) -> None:
    """R8. A rewind before something unknown is none, so there is nothing of its own to undo."""
    # One that was refused is as unknown as one that never was.
    counted = [line for line in log if not (line.kind == REWIND and line.off)]
    known = {name for line in counted for name in (line.name, line.group, *line.listed.split("\n"))}
    seq = len(log) + 1
    both = [*log, Line(seq, REWIND, "new1", target=target), Line(seq + 1, UNDO, "new2")]
    if target in known:
        assert plain(effective(both)) == plain(effective(log))


@settings(max_examples=60, deadline=None)
@given(lines(), names)
def test_a_rewind_before_a_rewind_restores_the_earlier_state(log: list[Line], target: str) -> None:
    """R8: for generated logs."""
    seq = len(log) + 1
    both = [*log, Line(seq, REWIND, "new1", target=target), Line(seq + 1, REWIND, "new2", target="new1")]
    assert plain(effective(both)) == plain(effective(log))


@settings(max_examples=examples(250), deadline=None)
@given(lines(), lines(), st.lists(names, min_size=1, max_size=2, unique=True))
def test_the_turn_of_a_deleted_task_is_never_in_effect_again(
    before: list[Line], after: list[Line], turns: list[str]
) -> None:
    """C16: after any rewinds, undos, voids, pushed histories, copies and events, in any order."""
    seq = len(before) + 1
    log = [*before, deletion(seq, turns), *(line._replace(seq=line.seq + seq) for line in after)]
    for end in range(seq, len(log) + 1):
        now, by_seq = log[:end], {line.seq: line for line in log[:end]}
        for one in effective(now):
            line = by_seq[one.seq]
            if line.kind == PUSHED:
                listed = line.listed.split("\n")
                assert not {listed[index] for index in one.kept}.intersection(turns)
            else:
                assert {line.name, line.group}.isdisjoint(turns)
        assert not any(can_rewind_to(now, turn) for turn in turns)
        assert set(turns) <= set(cut(now).deleted)


@settings(max_examples=examples(250), deadline=None)
@given(lines(), st.lists(names, min_size=1, max_size=2, unique=True))
def test_a_deletion_restores_no_cut_turn(log: list[Line], turns: list[str]) -> None:
    """C16: the turns that a deleted turn had cut stay cut, and the order stays the same."""
    before = {one.seq: one.kept for one in effective(log)}
    after = effective([*log, deletion(len(log) + 1, turns)])
    assert [one.seq for one in after] == [seq for seq in before if seq in {one.seq for one in after}]
    for one in after:
        assert set(one.kept) <= set(before[one.seq])
    unsaid = [line for line in log if line.kind in (MESSAGE, EVENT) and {line.name, line.group}.isdisjoint(turns)]
    assert {one.seq for one in after} >= {line.seq for line in unsaid if line.seq in before}


@settings(max_examples=60, deadline=None)
@given(lines())
def test_entries_in_effect_are_entries_of_the_log_without_repetitions(log: list[Line]) -> None:
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
