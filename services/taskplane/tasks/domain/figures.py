"""Statistics of the tasks of a session: number by state, durations, error rate. No I/O."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from taskplane.tasks.domain.infos import Info
from taskplane.tasks.domain.task import FAILED, REJECTED, TERMINAL

_SECOND = 1_000_000


class Durations(NamedTuple):
    """Seconds from the creation of a task to its end, of all ended tasks."""

    least: float
    median: float
    p95: float
    most: float


class Figures(NamedTuple):
    """The figures of one session. `states`: the number of tasks in each state.

    `error_rate`: the share of failed and rejected tasks among the ended tasks, 0 to 1. `durations`: None without ended
    tasks. `times`: sum of the seconds of all tasks in each state that is not terminal.
    """

    total: int
    states: Mapping[int, int]
    error_rate: float
    durations: Durations | None
    times: Mapping[int, float]


class Summary(NamedTuple):
    """The tasks of one session, counted by state. `last_state`: the state of the newest task. Without tasks,
    `last_state` and `updated_at` are 0."""

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
    # Nearest rank, not interpolation: the result is the duration of a real task.
    p95 = in_order[math.ceil(0.95 * len(in_order)) - 1]
    return Durations(in_order[0], median(in_order), p95, in_order[-1])
