"""The effective history: examples of every rule."""

import pytest
from tests.sessions.naive import each_line

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.history import InEffect, can_rewind_to, conversation, cut, effective, undo_error
from taskplane.sessions.domain.replay import Line
from taskplane.sessions.domain.session import EVENT, KINDS, MESSAGE, OUTCOME, PUSHED, REWIND, UNDO, VOID


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


def test_without_rewinds_all_messages_are_shown_in_order() -> None:
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


def test_turns_of_one_task_are_together_even_with_others_between() -> None:
    """R5, T7: a, B, C, then the answer to A (the ABCA case) reads like the flatten of the tasks."""
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


def test_a_second_rewind_before_the_same_turn_cuts_the_turns_between() -> None:
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
    assert not can_rewind_to(log.lines, "r")
    assert log.rewind("r", "r2").shown == ["A?", "A.", "B?", "B.", "C?", "C."]


def test_an_undo_restores_the_turns_that_the_rewind_cut() -> None:
    """R8: the history is the same as before the rewind."""
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


def test_a_void_stays_in_effect_after_a_rewind() -> None:
    assert turns("A", "B").void("A").rewind("B", "r").shown == []


def test_a_voided_turn_that_was_cut_is_begun_anew_by_an_un_void_once() -> None:
    """R4: an un-void of what is not voided, or not any more, brings nothing back that a rewind cut."""
    cut_void = turns("A", "B").user("C").void("C").rewind("B", "r")
    anew = cut_void.void("C", off=True)
    assert anew.shown == ["A?", "A.", "C?"]
    assert anew.rewind("C", "r2").void("C", off=True).shown == ["A?", "A."]
    assert turns("A", "B").rewind("B", "r").void("B", off=True).shown == ["A?", "A."]


def test_a_voided_rewind_cuts_nothing() -> None:
    assert turns("A", "B").rewind("B", "r").void("r").shown == ["A?", "A.", "B?", "B."]


def test_a_pushed_history_replaces_all_earlier_entries() -> None:
    """R7: later entries follow it."""
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
    assert cut(log.lines).invocations == ["B", "C"]
    assert log.event("late", "C").shown == ["hA", "eA", "hB", "hD", "eD"]


def test_entries_without_an_invocation_are_turns_of_their_own() -> None:
    log = Log().event("e1", "").user("A").event("e2", "")
    assert log.shown == ["e1", "A?", "e2"]
    assert log.rewind("A", "r").shown == ["e1"]


def test_cut_and_voided_turns_are_not_in_effect_and_rewinds_are_while_they_count() -> None:
    """R3, R9: an invocation that is no longer in effect is not found."""
    log = turn(turns("A", "B", "C").rewind("B", "r"), "D").void("D")
    assert [name for name in "ABCD" if can_rewind_to(log.lines, name)] == ["A"]
    assert cut(log.lines)[:2] == (["B", "C", "D"], ["D"])
    assert can_rewind_to(log.lines, "r")
    assert not can_rewind_to(log.lines, "nobody")
    log.rewind("r", "r2")
    assert [name for name in ("A", "B", "C", "D", "r", "r2") if can_rewind_to(log.lines, name)] == ["A", "B", "C", "r2"]
    assert cut(log.lines)[:2] == (["D"], ["D"])


def test_a_voided_turn_and_later_turns_of_its_task_are_listed_as_voided() -> None:
    """R4: their tasks are not changed. When the void is reverted, the turn begins again."""
    log = turns("A", "B").copy("late", "B2", "B", 5).void("B").rewind("B", "r")
    assert not can_rewind_to(log.lines, "B") and not can_rewind_to(log.lines, "B2")
    assert cut(log.lines)[:2] == (["B", "B2"], ["B", "B2"])


def test_a_follow_up_in_a_cut_task_that_comes_late_does_not_stand() -> None:
    log = turns("A").rewind("A", "r").copy("late", "A2", "A", 5)
    assert not can_rewind_to(log.lines, "A2")
    assert cut(log.lines).invocations == ["A", "A2"]


def test_a_pushed_history_replaces_earlier_turns_except_those_that_it_names() -> None:
    """R7: only the named turns can be rewound to."""
    log = turn(turns("A", "B").push("p", "A"), "C")
    assert [name for name in ("A", "B", "C", "p") if can_rewind_to(log.lines, name)] == ["A", "C", "p"]
    assert cut(log.lines).invocations == ["B"]
    assert cut(log.rewind("p", "r").lines).invocations == ["C"]


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
    assert undo_error(log.lines) == reason


def test_equal_message_ids_are_kept_once_and_missing_ones_always() -> None:
    """T6."""
    said = [("m", "1"), ("", "2"), ("n", "3"), ("m", "4"), ("", "5")]
    messages = [a2a.Message(message_id=name, parts=[a2a.Part(text=text)]) for name, text in said]
    assert [message.parts[0].text for message in conversation(messages)] == ["1", "2", "3", "5"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_entry_of_any_kind_alone_makes_a_history(kind: int) -> None:
    effective([Line(1, kind, "a", target="a")])
