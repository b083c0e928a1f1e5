"""The rules of a rewind's mark on one task, without a store. R4, R8, C7."""

import pytest
from tests.tasks.drafting import Log, message, started, status
from tests.tasks.test_decide import in_state, reason, row_of

from taskplane.tasks.domain.kinds import MARKS, RESTORED, SUPERSEDED
from taskplane.tasks.domain.task import ACTIVE, CANCELED, COMPLETED, INPUT_REQUIRED, STATES, WORKING


def kinds(log: Log) -> list[int]:
    return [event.kind for event in log.events if event.kind in MARKS]


@pytest.mark.parametrize("state", sorted(STATES))
def test_a_cut_task_is_canceled_if_it_runs_and_hidden_in_any_state(state: int) -> None:
    """R4: a task at rest keeps its state and its messages."""
    log = in_state(state)
    before, task = row_of(log), log.task()
    (row,) = log.mark(5, "i1")
    assert row.superseded and row.superseded_seq == 5
    assert row.state == (CANCELED if state in ACTIVE else state)
    assert (row.fence, row.lease_owner) == (before.fence + (state in ACTIVE), None)
    assert row.generation == before.generation + (2 if state in ACTIVE else 1)
    assert kinds(log) == [SUPERSEDED] and log.events[-1].payload == b""
    if state not in ACTIVE:
        assert log.task() == task and row.status_at == before.status_at


@pytest.mark.parametrize("state", sorted(STATES - ACTIVE))
def test_a_task_comes_back_as_it_was(state: int) -> None:
    """R8."""
    log = in_state(state)
    task = log.task()
    log.mark(5, "i1")
    (row,) = log.mark(6)
    assert not row.superseded and (row.state, kinds(log)) == (state, [SUPERSEDED, RESTORED])
    assert log.task() == task


def test_the_streamed_part_of_a_text_stays_when_a_rewind_cancels_its_task() -> None:
    """As with any cancel, the open text becomes a marked final message."""
    log = started()
    log.append(status(WORKING, message("so f", "m-1", partial=True)))
    log.append(status(WORKING, message("ar", "m-1", partial=True)))
    log.mark(5, "i1")
    (said,) = [each for each in log.task().history if each.message_id == "m-1"]
    assert said.parts[0].text == "so far" and said.metadata.fields["interrupted"].bool_value


def test_one_cut_message_hides_its_task() -> None:
    """A task belongs to the turn that made it and to each that it was continued by."""
    log = in_state(INPUT_REQUIRED)
    log.say("this one", "i2")
    assert not log.mark(5, "i9")
    (row,) = log.mark(6, "i2")
    assert row.superseded


def test_an_older_or_the_same_entry_changes_nothing() -> None:
    """A late repeat of a rewind does not undo the undo."""
    log = in_state(COMPLETED)
    assert log.mark(5, "i1") and log.mark(6)
    before = row_of(log)
    assert not log.mark(6, "i1") and not log.mark(5, "i1")
    assert row_of(log) == before


def test_a_task_that_is_not_cut_still_keeps_the_entry_it_is_in_line_with() -> None:
    """So that an older one that comes late cannot hide it."""
    log = in_state(COMPLETED)
    assert not log.mark(6)
    assert row_of(log).superseded_seq == 6 and not log.mark(5, "i1")


def test_a_superseded_task_takes_no_message_until_it_is_back() -> None:
    log = in_state(INPUT_REQUIRED)
    log.mark(5, "i1")
    assert reason(log.say("blue", "i2")) == "SUPERSEDED"
    log.mark(6)
    assert not isinstance(log.say("blue", "i2"), Exception)
