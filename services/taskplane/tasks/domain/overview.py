"""The figures of a tenant for its operators, made of counts of the database. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taskplane.tasks.domain.serving import unserved
from taskplane.tasks.domain.task import FAILED, TERMINAL

MINUTE: Final = 60 * 1_000_000
"""Microseconds."""
MINUTES: Final = 60
"""The minutes before the present one that have figures."""
_HOLDERS: Final = 5


class Queued(NamedTuple):
    """The queued tasks of one agent in one state. `ready_at`: of the first (microseconds)."""

    agent: str
    state: int
    number: int
    ready_at: int


class Running(NamedTuple):
    """The leases of one process on the tasks of one owner and agent in one state.

    Owner None: tasks of other tenants, of any agent and state. `in_time`: those that have not run out.
    """

    process_id: str
    owner: str | None
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
    """The queue of one agent. `oldest`: seconds for which its first task has been waiting.

    `unserved`: no living process runs the agent.
    """

    agent: str
    queued: int
    oldest: float
    unserved: bool


class ExecutorSeen(NamedTuple):
    """A process that takes tasks: its leases, those that have not run out, and seconds since it renewed any."""

    process_id: str
    alive: bool
    agents: Sequence[str]
    leases: int
    running: int
    last_seen: float
    capacity: int


class Capacity(NamedTuple):
    """The slots of the processes that are alive, and how many of them the tasks of the tenant and of others hold.

    `holders`: the owners of the tenant with the most slots, and their numbers.
    """

    slots: int
    held: int
    held_by_others: int
    holders: Sequence[tuple[str, int]]


class Overview(NamedTuple):
    """The figures of a tenant at a time. `tasks`: by agent and state. `since`: from when on `minutes` are complete.

    `bounded`: a count has met its limit.
    """

    at: int
    tasks: Mapping[tuple[str, int], int]
    queue: Sequence[QueueOf]
    executors: Sequence[ExecutorSeen]
    capacity: Capacity
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
    waiting: Iterable[Queued],
    running: Iterable[Running],
    paused: Iterable[tuple[str, int, int]],
    recent: Iterable[Recent],
) -> Mapping[tuple[str, int], int]:
    """Return the number of tasks by agent and state: those that are open, and those that ended in the last minutes."""
    found: Counter[tuple[str, int]] = Counter()
    for each in waiting:
        found[each.agent, each.state] += each.number
    for held in _of_tenant(running):
        found[held.agent, held.state] += held.number
    for agent, state, count in paused:
        found[agent, state] += count
    for one in recent:
        if one.state in TERMINAL:
            found[one.agent, one.state] += one.number
    return found


def queues_of(waiting: Iterable[Queued], serving: Iterable[str | None], now: int) -> Sequence[QueueOf]:
    """Return the queue of each agent that has one. `serving`: the agents of each living process, as they are stored."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for each in waiting:
        counts[each.agent] += each.number
        first[each.agent] = min(each.ready_at, first.get(each.agent, each.ready_at))
    missing = unserved(counts, serving)
    return [
        QueueOf(agent, count, _seconds(now - first[agent]), agent in missing) for agent, count in sorted(counts.items())
    ]


def executors_of(
    announced: Mapping[str, tuple[int, int]], running: Sequence[Running], now: int, ttl: float
) -> Sequence[ExecutorSeen]:
    """Return the processes that were announced, and those that hold leases on tasks of the tenant.

    `announced`: until when each is alive, and its capacity. `ttl`: of a lease, in seconds.
    """
    found: list[ExecutorSeen] = []
    of_tenant = list(_of_tenant(running))
    for process_id in sorted({*announced, *(each.process_id for each in of_tenant)}):
        held = [each for each in of_tenant if each.process_id == process_id]
        until, capacity = announced.get(process_id, (0, 0))
        renewed = until - int(ttl * 1_000_000)
        found.append(
            ExecutorSeen(
                process_id,
                until > now,
                sorted({each.agent for each in held}),
                sum(each.number for each in held),
                sum(each.in_time for each in held),
                _seconds(now - renewed) if until else 0.0,
                capacity,
            )
        )
    return found


def capacity_of(announced: Mapping[str, tuple[int, int]], running: Iterable[Running], now: int) -> Capacity:
    """Return the slots of the processes that are alive, and the owners of the tasks that hold them."""
    alive = {process_id: capacity for process_id, (until, capacity) in announced.items() if until > now}
    held: Counter[str | None] = Counter()
    for each in running:
        if each.process_id in alive:
            held[each.owner] += each.number
    of_others = held.pop(None, 0)
    holders = sorted([(owner, number) for owner, number in held.items() if owner is not None], key=_most_first)
    return Capacity(sum(alive.values()), held.total(), of_others, holders[:_HOLDERS])


def _of_tenant(running: Iterable[Running]) -> Iterable[Running]:
    return (each for each in running if each.owner is not None)


def _most_first(holder: tuple[str, int]) -> tuple[int, str]:
    owner, number = holder
    return -number, owner


def minutes_of(recent: Iterable[Recent], now: int) -> Sequence[Minute]:
    """Return the figures of each minute, oldest first; the last one is under way."""
    begun: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    for each in recent:
        begun[each.created] += each.number
        if each.state in TERMINAL:
            ended[each.changed] += each.number
        if each.state == FAILED:
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
