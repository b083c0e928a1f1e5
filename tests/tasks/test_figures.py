"""Figures of a session, and what is known of changes that were not kept. M7."""

from typing import Any

from taskplane.tasks.domain.figures import Durations, figures
from taskplane.tasks.domain.infos import NO_FAILURE, Brief, Change, Info, changes_of
from taskplane.tasks.domain.task import CANCELED, COMPLETED, DOCUMENT, FAILED, MANAGED, REJECTED, SUBMITTED, WORKING

S = 1_000_000


def task(state: int, *, created: int = 0, status_at: int = 0, **fields: Any) -> Brief:
    values: dict[str, Any] = dict.fromkeys(Brief._fields, "") | {
        "origin": MANAGED,
        "state": state,
        "created_at": created * S,
        "status_at": status_at * S,
        "terminal_generation": 3,
        "superseded": False,
    }
    return Brief(**(values | fields))


def info(state: int, *changes: tuple[int, int], superseded: bool = False) -> Info:
    made = [Change(to, at * S, number) for number, (to, at) in enumerate(changes, 1)]
    created, status_at = changes[0][1], changes[-1][1]
    return Info(task(state, created=created, status_at=status_at, superseded=superseded), made, NO_FAILURE)


def test_the_figures_of_a_session_count_shown_tasks_only() -> None:
    """The error rate of ended tasks, durations by rank, times up to now for tasks that have not ended."""
    ended = [info(COMPLETED, (SUBMITTED, 0), (WORKING, 1), (COMPLETED, seconds)) for seconds in range(2, 22)]
    others = [
        info(FAILED, (SUBMITTED, 0), (FAILED, 30)),
        info(REJECTED, (SUBMITTED, 0), (REJECTED, 40)),
        info(WORKING, (SUBMITTED, 90), (WORKING, 95)),
        info(CANCELED, (SUBMITTED, 0), (CANCELED, 50), superseded=True),
    ]
    found = figures([*ended, *others], 100 * S)
    assert found.total == 23 and found.states == {COMPLETED: 20, FAILED: 1, REJECTED: 1, WORKING: 1}
    assert found.error_rate == 2 / 22
    assert found.durations == Durations(2.0, 12.5, 30.0, 40.0)
    working = sum(range(1, 21)) + 5
    assert found.times == {SUBMITTED: 20 + 30 + 40 + 5, WORKING: working}


def test_a_session_without_tasks_has_no_durations() -> None:
    assert figures([], 0) == (0, {}, 0.0, None, {})


def test_changes_of_an_old_task_are_those_in_its_row() -> None:
    """A task from before the recording of changes has its beginning and its newest state."""
    old = task(COMPLETED, created=1, status_at=9)
    assert changes_of(old, []) == [Change(SUBMITTED, 1 * S, 1), Change(COMPLETED, 9 * S, 3)]
    document = task(WORKING, created=1, status_at=9, origin=DOCUMENT, terminal_generation=None)
    assert changes_of(document, []) == [Change(WORKING, 9 * S, 0)]
    waiting = task(SUBMITTED, created=1, status_at=1, terminal_generation=None)
    assert changes_of(waiting, []) == [Change(SUBMITTED, 1 * S, 1)]
