"""Compute from counts what operators see of a tenant. No I/O."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from taskplane.tasks.domain.serving import unserved
from taskplane.tasks.domain.task import FAILED, TERMINAL

MINUTE: Final = 60 * 1_000_000
"""A minute in microseconds."""
MINUTES: Final = 60
"""The number of past minutes in the overview."""
_HOLDERS: Final = 5


class Queued(NamedTuple):
    """The queued tasks of one agent in one state. `ready_at`: when the first of them may start (microseconds)."""

    agent: str
    state: int
    number: int
    ready_at: int


class Running(NamedTuple):
    """The leases of one process, counted by owner, agent and state.

    Tasks of other tenants are one row: owner None, whatever the agent and the state. `unexpired`: the number of leases
    that have not expired.
    """

    process_id: str
    owner: str | None
    agent: str
    state: int
    number: int
    unexpired: int


class Recent(NamedTuple):
    """Tasks of one agent and state that were created in one minute and last changed their state in another.

    `created`, `changed`: the two minutes, counted from 1970. `number`: how many tasks. `oldest`: the time of the
    earliest of the changes (microseconds).
    """

    agent: str
    state: int
    created: int
    changed: int
    number: int
    oldest: int


class Minute(NamedTuple):
    """One minute: how many tasks were created (`begun`), how many ended, and how many of these failed. `at`: the
    beginning of the minute (microseconds)."""

    at: int
    begun: int
    ended: int
    failed: int


class Percentiles(NamedTuple):
    """Percentiles of durations in seconds, by nearest rank."""

    p50: float
    p95: float


class QueueOf(NamedTuple):
    """The queue of one agent.

    `oldest`: the seconds for which its first task has been ready to start. `unserved`: no process that is alive runs
    the agent.
    """

    agent: str
    queued: int
    oldest: float
    unserved: bool


class ExecutorSeen(NamedTuple):
    """A process that runs tasks.

    `leases`: the number of its leases on tasks of the tenant. `running`: the number of these that have not expired.
    `last_seen`: seconds since its last renewal. `agents`: the agents of its tasks. `capacity`: its number of slots.
    """

    process_id: str
    alive: bool
    agents: Sequence[str]
    leases: int
    running: int
    last_seen: float
    capacity: int


class Capacity(NamedTuple):
    """The slots of the processes that are alive.

    `held`: the slots with tasks of the tenant. `held_by_others`: the slots with tasks of other tenants. `holders`: the
    owners of the tenant with the most slots, and the number of each.
    """

    slots: int
    held: int
    held_by_others: int
    holders: Sequence[tuple[str, int]]


class Overview(NamedTuple):
    """The figures of a tenant at the time `at` (microseconds).

    `tasks`: the number of tasks by agent and state. `since`: the time from which `minutes` are complete. `bounded`:
    some counts are too small, since a limit was reached.
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
    """Return the beginning of the first minute of the overview at `now`; both are in microseconds."""
    return (now // MINUTE - MINUTES) * MINUTE


def tasks_of(
    waiting: Iterable[Queued],
    running: Iterable[Running],
    paused: Iterable[tuple[str, int, int]],
    recent: Iterable[Recent],
) -> Mapping[tuple[str, int], int]:
    """Return the number of open tasks and of tasks that ended in the last minutes, by agent and state."""
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
    """Return the queue of each agent with queued tasks. `serving`: for each living process, the agents that it
    reported, as stored."""
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

    `announced`: by process id, the time until which the process counts as alive (microseconds), and its capacity.
    `ttl`: the duration of a lease in seconds.
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
                sum(each.unexpired for each in held),
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
    """Return the figures of each minute, oldest first. The last minute is not over yet."""
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
    """Return the percentiles of durations in microseconds; None if there are no durations."""
    in_order = sorted(micros)
    if not in_order:
        return None
    p50, p95 = (in_order[math.ceil(share * len(in_order)) - 1] for share in (0.5, 0.95))
    return Percentiles(_seconds(p50), _seconds(p95))


def _seconds(micros: int) -> float:
    return max(0, micros) / 1_000_000
