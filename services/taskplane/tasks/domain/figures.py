"""Figures over the tasks of a session: how many are in each state, how long they took, how many failed. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import FAILED, REJECTED, TERMINAL

_SECOND = 1_000_000


class Durations(NamedTuple):
    """Seconds from the creation of a task to its end, over those that have ended."""

    least: float
    median: float
    p95: float
    most: float


class Figures(NamedTuple):
    """The figures of one session. `states`: the number of tasks in each state.

    `error_rate`: tasks that failed or were rejected, of those that ended, 0 to 1. `durations`: None if none ended.
    `times`: seconds in each state that is not terminal, summed over all tasks.
    """

    total: int
    states: Mapping[int, int]
    error_rate: float
    durations: Durations | None
    times: Mapping[int, float]


class Summary(NamedTuple):
    """The tasks of one session, counted by state. `last_state`: of the newest; 0, like `updated_at`, without tasks."""

    context_id: str
    states: Mapping[int, int]
    last_state: int
    updated_at: int


def figures(infos: Iterable[Info], now: int) -> Figures:
    """Return the figures over these tasks, without superseded ones, at `now` (microseconds)."""
    shown = [info for info in infos if not info.task.superseded]
    states = Counter(info.task.state for info in shown)
    ended = [info.task for info in shown if info.task.state in TERMINAL]
    times: Counter[int] = Counter()
    for info in shown:
        _add_times(times, info, now)
    return Figures(
        len(shown),
        states,
        (states[FAILED] + states[REJECTED]) / len(ended) if ended else 0.0,
        _durations([(task.status_at - task.created_at) / _SECOND for task in ended]) if ended else None,
        {state: micros / _SECOND for state, micros in times.items()},
    )


def _add_times(times: Counter[int], info: Info, now: int) -> None:
    until = [change.at for change in info.changes[1:]] + [now]
    for change, end in zip(info.changes, until, strict=True):
        if change.state not in TERMINAL:
            times[change.state] += max(0, end - change.at)


def _durations(seconds: Sequence[float]) -> Durations:
    in_order = sorted(seconds)
    # By nearest rank: a duration that occurred.
    p95 = in_order[math.ceil(0.95 * len(in_order)) - 1]
    return Durations(in_order[0], median(in_order), p95, in_order[-1])
