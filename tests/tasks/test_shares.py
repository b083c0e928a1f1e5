"""The shares of owners and tenants in the slots of executors, as the queue gives them out. L2, C8."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from tests.tasks.plane import WORKING, Plane, Run, creation, eventually, follow_up, opened, status, until
from tests.tasks.test_queue import Executor, connected, given

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.principal import Principal
from taskplane.tasks.queue import patience

USERS: dict[str, Any] = {"shared_by": pb.SHARED_BY_USERS}


def user(owner: str, tenant: str = "tenant") -> Principal:
    return Principal(tenant, owner, f"user:{owner}", service=True)


@pytest.fixture
async def plane(url: str) -> AsyncGenerator[Plane, None]:
    async with opened(url, lease_ttl=60.0, poll_every=60.0) as plane:
        yield plane
        await until(lambda: not len(plane.service.claims))


async def created(plane: Plane, who: Principal, **fields: Any) -> Run:
    return Run(plane, await plane.store(who).CreateTask(creation(**fields)))


async def queued(plane: Plane, who: Principal, number: int) -> list[Run]:
    return [await created(plane, who) for _ in range(number)]


async def assigned(executor: Executor, number: int) -> list[str]:
    """The uids of so many assignments."""
    return [(await executor.assigned()).record.uid for _ in range(number)]


async def told(executor: Executor) -> list[tuple[str, str]]:
    """The owners that the next hint names which names any; assignments must not come before it."""
    while True:
        response = await asyncio.wait_for(anext(executor.stream), 30.0)
        assert not response.HasField("assignment"), response
        if response.hint.waiting:
            assert not response.hint.backlog
            return [(each.tenant, each.owner) for each in response.hint.waiting]


def uids(runs: Sequence[Run]) -> list[str]:
    return [run.uid for run in runs]


async def ended(plane: Plane, executor: Executor, assignment: pb.Assignment) -> None:
    """Its run gives a whole answer."""
    item = pb.AppendItem(
        task_uid=assignment.record.uid,
        fence=assignment.fence,
        number=1,
        changes=[status(WORKING), status(a2a.TASK_STATE_COMPLETED)],
        consumed_generation=1,
    )
    response = await plane.store().AppendEvents(pb.AppendEventsRequest(items=[item]))
    assert not response.results[0].HasField("refusal"), response


@pytest.mark.parametrize(("capacity", "of_one"), [(1, 1), (3, 3), (8, 6), (100, 75)])
async def test_an_owner_with_a_long_queue_gets_all_but_the_reserve(plane: Plane, capacity: int, of_one: int) -> None:
    """In the order of its tasks; another owner's task is assigned while they still wait, where there is a reserve."""
    executor = await connected(plane, capacity=capacity, **USERS)
    runs = await queued(plane, user("ann"), of_one + 2)
    assert await assigned(executor, of_one) == uids(runs[:of_one])
    if capacity >= 4:
        assert await told(executor) == [("tenant", "ann")]
        other = await created(plane, user("bob"))
        assert await assigned(executor, 1) == [other.uid]
    executor.stream.cancel()


async def test_an_owner_at_its_limit_loses_no_turn(plane: Plane) -> None:
    """Its tasks begin one by one as others end, in their order, whoever comes in between."""
    executor = await connected(plane, capacity=4, **USERS)
    runs = await queued(plane, user("ann"), 8)
    first = [await executor.assigned() for _ in range(3)]
    assert [each.record.uid for each in first] == uids(runs[:3])
    for number, held in enumerate(first):
        other = await created(plane, user(f"user {number}"))
        theirs = await executor.assigned()
        assert theirs.record.uid == other.uid
        await ended(plane, executor, theirs)
        await ended(plane, executor, held)
        assert await assigned(executor, 1) == [runs[3 + number].uid]
    executor.stream.cancel()


async def test_the_tasks_of_a_tenant_leave_room_for_other_tenants(plane: Plane) -> None:
    """However many its owners are: nobody of it has more than one task, and the eighth one waits."""
    executor = await connected(plane, capacity=8)
    runs = [await created(plane, user(f"user {number}")) for number in range(9)]
    assert await assigned(executor, 7) == uids(runs[:7])
    # All of them, or those who were seen to wait.
    assert {tenant for tenant, _ in await told(executor)} == {"tenant"}
    other = await created(plane, user("eve", "other"))
    assert await assigned(executor, 1) == [other.uid]
    executor.stream.cancel()


async def test_two_executors_keep_a_reserve_each(plane: Plane) -> None:
    """What one has free is of no use to the tasks of the other one, which may run other agents."""
    executors = [await connected(plane, name, capacity=4, **USERS) for name in ("p1", "p2")]
    runs = await queued(plane, user("ann"), 8)
    found = [await assigned(executor, 3) for executor in executors]
    assert sorted([*found[0], *found[1]]) == sorted(uids(runs[:6]))
    for executor in executors:
        assert await told(executor) == [("tenant", "ann")]
    others = [await created(plane, user(name)) for name in ("bob", "carl")]
    assert sorted([(await assigned(executor, 1))[0] for executor in executors]) == sorted(uids(others))
    for executor in executors:
        executor.stream.cancel()


async def test_a_pause_that_was_answered_is_given_a_slot_like_a_new_task(plane: Plane) -> None:
    """That of the owner at its limit waits for its turn, that of another owner goes on at once."""
    executor = await connected(plane, capacity=4, **USERS)
    paused: dict[str, Run] = {}
    for name in ("ann", "bob"):
        run = paused[name] = await created(plane, user(name), working=True)
        assert not (await run.append(status(a2a.TASK_STATE_INPUT_REQUIRED))).HasField("refusal")
    await queued(plane, user("ann"), 3)
    held = [await executor.assigned() for _ in range(3)]
    await plane.store(user("ann")).AddMessage(follow_up(paused["ann"].id))
    assert await told(executor) == [("tenant", "ann")]
    await plane.store(user("bob")).AddMessage(follow_up(paused["bob"].id))
    assert await assigned(executor, 1) == [paused["bob"].uid]
    await ended(plane, executor, held[0])
    assert await assigned(executor, 1) == [paused["ann"].uid]
    executor.stream.cancel()


async def test_owners_at_their_limit_do_not_block_owners_behind_them(plane: Plane) -> None:
    """There are more of them than a round reads, and their names sort first."""
    for number in range(40):
        for _ in range(3):
            await created(plane, user(f"ann {number:02}"), working=True)
    for number in range(40):
        await queued(plane, user(f"ann {number:02}"), 2)
    other = await created(plane, user("bob"))
    executor = await connected(plane, "p1", capacity=121, **USERS)
    assert await assigned(executor, 1) == [other.uid]
    executor.stream.cancel()


async def test_a_round_that_sees_only_the_beginning_of_a_queue_is_followed_by_another(plane: Plane) -> None:
    """Two owners share what one round gives out; there are slots for all of it."""
    runs = await queued(plane, user("ann"), 60)
    runs += await queued(plane, user("bob"), 1)
    executor = await connected(plane, capacity=100, **USERS)
    assert Counter(await assigned(executor, 61)) == Counter(uids(runs))
    executor.stream.cancel()


async def test_a_returned_lease_no_longer_counts(plane: Plane) -> None:
    """C9: a released task is the next task of its owner."""
    executor = await connected(plane, capacity=4, **USERS)
    runs = await queued(plane, user("ann"), 4)
    held = [await executor.assigned() for _ in range(3)]
    assert await told(executor) == [("tenant", "ann")]
    await executor.release(given(held[0]))
    assert (await executor.assigned()).record.uid in uids([runs[0], runs[3]])
    executor.stream.cancel()


async def test_one_user_of_a_plane_has_all_of_it(plane: Plane) -> None:
    executor = await connected(plane, capacity=8, shared_by=pb.SHARED_BY_ONE)
    runs = await queued(plane, user("ann"), 9)
    assert await assigned(executor, 8) == uids(runs[:8])

    async def backlog() -> bool:
        response = await asyncio.wait_for(anext(executor.stream), 30.0)
        return response.hint.backlog

    await eventually(backlog, bool)
    executor.stream.cancel()


async def test_an_owner_is_lent_a_slot_when_its_time_ends_while_tasks_are_assigned(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else wakes the dispatcher: no task is queued and none ends after the one that waits."""
    monkeypatch.setattr(patience, "LENT_AFTER", 0.0)
    executor = await connected(plane, capacity=16, **USERS)
    await queued(plane, user("ann"), 12)
    await assigned(executor, 12)
    (waiting,) = await queued(plane, user("ann"), 1)
    lent = await executor.assigned()
    assert (lent.record.uid, lent.lent) == (waiting.uid, True)
    executor.stream.cancel()


async def test_an_owner_with_endless_runs_gets_one_slot_beyond_its_share(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs may wait for its queued task. It is one slot and never the last one, however long they wait."""
    monkeypatch.setattr(patience, "LENT_AFTER", 0.01)
    executors = [await connected(plane, "small", ["a"], capacity=4, **USERS)]
    executors.append(await connected(plane, "large", ["b"], capacity=16, **USERS))
    for executor, agent, share, lent in ((executors[0], "a", 3, 0), (executors[1], "b", 12, 1)):
        runs = [await created(plane, user("ann"), agent=agent) for _ in range(share + 2)]
        given = [await executor.assigned() for _ in range(share + lent)]
        assert [each.record.uid for each in given] == uids(runs[: share + lent])
        assert [each.lent for each in given] == [False] * share + [True] * lent
        # Nothing more comes of hers, whenever the dispatcher looks; it does for each of these.
        others = [await created(plane, user(f"user {number}"), agent=agent) for number in range(2 - (lent == 0))]
        theirs = [await executor.assigned() for _ in others]
        assert [each.record.uid for each in theirs] == uids(others)
        for other in (*theirs, *given[share:]):
            await ended(plane, executor, other)
        if lent:
            again = await executor.assigned()
            assert (again.record.uid, again.lent) == (runs[-1].uid, True)
        executor.stream.cancel()
