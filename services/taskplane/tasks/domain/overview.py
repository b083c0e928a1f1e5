"""The figures of a tenant that its operators see, made of what the database counted. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taskplane.tasks.domain.task import FAILED, REJECTED, TERMINAL

MINUTE: Final = 60 * 1_000_000
"""Microseconds."""
MINUTES: Final = 60
"""The minutes before the present one that have figures."""


class Waiting(NamedTuple):
    """The queued tasks of one agent in one state. `ready_at`: of the first (microseconds)."""

    agent: str
    state: int
    number: int
    ready_at: int


class Running(NamedTuple):
    """The leases of one process on the tasks of one agent in one state. `in_time`: those that have not run out."""

    process_id: str
    agent: str
    state: int
    number: int
    in_time: int


class Recent(NamedTuple):
    """Tasks of one agent in one state, by the minutes (since 1970) of their creation and of their last change of state.

    `oldest`: the first of these changes (microseconds).
    """

    agent: str
    state: int
    created: int
    changed: int
    number: int
    oldest: int


class Minute(NamedTuple):
    """Tasks that were begun, ended and failed in the minute that begins `at` (microseconds)."""

    at: int
    begun: int
    ended: int
    failed: int


class Percentiles(NamedTuple):
    """Seconds, by nearest rank."""

    p50: float
    p95: float


class QueueOf(NamedTuple):
    """The queue of one agent. `oldest`: seconds for which its first task has been waiting."""

    agent: str
    queued: int
    oldest: float


class ExecutorSeen(NamedTuple):
    """A process that takes tasks: its leases, those that have not run out, and seconds since it renewed any."""

    process_id: str
    alive: bool
    agents: Sequence[str]
    leases: int
    running: int
    last_seen: float


class Overview(NamedTuple):
    """The figures of a tenant at a time. `tasks`: by agent and state. `since`: from when on `minutes` are complete.

    `bounded`: a count has met its limit.
    """

    at: int
    tasks: Mapping[tuple[str, int], int]
    queue: Sequence[QueueOf]
    executors: Sequence[ExecutorSeen]
    uncopied: int
    oldest_uncopied: float
    minutes: Sequence[Minute]
    durations: Percentiles | None
    queued: Percentiles | None
    since: int
    bounded: bool


def first_minute(now: int) -> int:
    """Return the beginning of the first minute that has figures at `now`, microseconds."""
    return (now // MINUTE - MINUTES) * MINUTE


def tasks_of(
    waiting: Iterable[Waiting],
    running: Iterable[Running],
    paused: Iterable[tuple[str, int, int]],
    recent: Iterable[Recent],
) -> Mapping[tuple[str, int], int]:
    """Return the number of tasks by agent and state: those that are open, and those that ended in the last minutes."""
    found: Counter[tuple[str, int]] = Counter()
    for each in waiting:
        found[each.agent, each.state] += each.number
    for held in running:
        found[held.agent, held.state] += held.number
    for agent, state, count in paused:
        found[agent, state] += count
    for one in recent:
        if one.state in TERMINAL:
            found[one.agent, one.state] += one.number
    return found


def queues_of(waiting: Iterable[Waiting], now: int) -> Sequence[QueueOf]:
    """Return the queue of each agent that has one."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for each in waiting:
        counts[each.agent] += each.number
        first[each.agent] = min(each.ready_at, first.get(each.agent, each.ready_at))
    return [QueueOf(agent, count, _seconds(now - first[agent])) for agent, count in sorted(counts.items())]


def executors_of(
    alive_until: Mapping[str, int], running: Sequence[Running], now: int, ttl: float
) -> Sequence[ExecutorSeen]:
    """Return the processes that were announced, and those that hold leases; `ttl`: of a lease, in seconds."""
    found: list[ExecutorSeen] = []
    for process_id in sorted({*alive_until, *(each.process_id for each in running)}):
        held = [each for each in running if each.process_id == process_id]
        until = alive_until.get(process_id, 0)
        renewed = until - int(ttl * 1_000_000)
        found.append(
            ExecutorSeen(
                process_id,
                until > now,
                sorted({each.agent for each in held}),
                sum(each.number for each in held),
                sum(each.in_time for each in held),
                _seconds(now - renewed) if until else 0.0,
            )
        )
    return found


def minutes_of(recent: Iterable[Recent], now: int) -> Sequence[Minute]:
    """Return what happened in each minute, oldest first; the last one is under way."""
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    for each in recent:
        begun[each.created] += each.number
        if each.state in TERMINAL:
            ended[each.changed] += each.number
        if each.state in (FAILED, REJECTED):
            failed[each.changed] += each.number
    first = first_minute(now) // MINUTE
    return [
        Minute(minute * MINUTE, begun[minute], ended[minute], failed[minute])
        for minute in range(first, first + MINUTES + 1)
    ]


def percentiles_of(micros: Iterable[int]) -> Percentiles | None:
    """Return the percentiles of durations, which are in microseconds; None without any."""
    in_order = sorted(micros)
    if not in_order:
        return None
    p50, p95 = (in_order[math.ceil(share * len(in_order)) - 1] for share in (0.5, 0.95))
    return Percentiles(_seconds(p50), _seconds(p95))


def _seconds(micros: int) -> float:
    return max(0, micros) / 1_000_000
