"""Several tasks of one agent in one session: beside each other, one after the other, refused, or interrupted."""

import asyncio
from typing import Any

import pytest
from tests.conformance.task_log import ADA, BOB, HOUR, Plane, message, only, opened, status
from tests.conformance.test_task_store_cost import plan, statements
from tests.conftest import Migrated

from taskplane.runtime.errors import PlaneError
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import CANCELED, INPUT_REQUIRED, INTERRUPT, PARALLEL, QUEUE, REJECT, SUBMITTED, WORKING


async def claimable(plane: Plane) -> list[str]:
    return list((await plane.log.claimable(["demo", "other"], 100)).uids)


async def refused(plane: Plane, **given: Any) -> str:
    (answer,) = await plane.log.submit_all([plane.creation(**given)])
    assert isinstance(answer, PlaneError), answer
    return answer.reason


async def test_a_second_task_is_refused_while_one_is_at_work(plane: Plane) -> None:
    """REJECT: of the same agent in the same session of the same owner; a repeat is no second task."""
    op = plane.creation(strategy=REJECT)
    first = only(commands.Created, await plane.log.submit(op)).row
    assert await refused(plane, strategy=REJECT) == "SESSION_BUSY"
    for elsewhere in ({"agent": "other"}, {"context_id": "c2"}, {"scope": BOB}):
        await plane.create(strategy=REJECT, **elsewhere)
    assert not only(commands.Created, await plane.log.submit(op)).created
    await plane.pause(first)
    second = await plane.create(strategy=REJECT)
    await plane.complete(second)
    await plane.queued()
    assert await refused(plane, strategy=REJECT) == "SESSION_BUSY"


async def test_of_two_at_once_one_is_refused(plane: Plane) -> None:
    answers = await plane.log.submit_all([plane.creation(strategy=REJECT) for _ in range(6)])
    made = [answer for answer in answers if isinstance(answer, commands.Created)]
    assert len(made) == 1
    assert {answer.reason for answer in answers if isinstance(answer, PlaneError)} == {"SESSION_BUSY"}


async def test_of_two_at_once_in_two_processes_one_is_refused(migrated: Migrated, engine_name: str) -> None:
    if engine_name == "sqlite":
        pytest.skip("a SQLite file is served by one process")
    url = await migrated("taskplane.tasks")
    async with opened(url) as here, opened(url) as there:
        for number in range(12):
            given = {"strategy": REJECT, "context_id": f"s{number}"}
            both = [plane.creation(name=f"{place}{number}", **given) for place, plane in (("h", here), ("t", there))]
            answers = await asyncio.gather(here.log.submit(both[0]), there.log.submit(both[1]), return_exceptions=True)
            assert len([answer for answer in answers if isinstance(answer, commands.Created)]) == 1


async def test_a_new_task_ends_those_at_work_in_its_own_transaction(plane: Plane) -> None:
    """INTERRUPT: they are fenced and keep what they said; paused ones and those of others stay."""
    running, queued, paused = await plane.create(), await plane.queued(), await plane.create()
    other = await plane.create(agent="other")
    await plane.pause(paused)
    await plane.append(running, status(WORKING, message("half", "m-half", partial=True)))
    late = await plane.item(running, status(WORKING))
    before = len(plane.commits)
    new = await plane.create(strategy=INTERRUPT)
    assert len(plane.commits) == before + 1 and len(plane.commits[-1].changes) == 3
    states = [(await plane.check(row)).state for row in (running, queued, paused, other, new)]
    assert states == [CANCELED, CANCELED, INPUT_REQUIRED, WORKING, WORKING]
    _, task = await plane.log.get(ADA, running.id)
    assert task.history[-1].metadata.fields["interrupted"].bool_value
    refusal = only(commands.Appended, await plane.log.submit(late)).refusal
    assert refusal is not None and refusal.reason == "TERMINAL"


async def test_an_interruption_that_is_refused_interrupts_nothing(plane: Plane) -> None:
    running = await plane.create()
    assert await refused(plane, name=running.id, invocation_id="i9", strategy=INTERRUPT) == "TASK_EXISTS"
    assert (await plane.check(running)).state == WORKING


async def test_tasks_in_turn_are_assigned_one_after_the_other(plane: Plane) -> None:
    """QUEUE: the first takes its lease at once, the others wait without one, whoever asked for it."""
    first = await plane.create(strategy=QUEUE)
    assert first.lease_owner == "p1" and first.state == WORKING
    second, third = await plane.create(strategy=QUEUE), await plane.create(strategy=QUEUE)
    assert (second.lease_owner, second.state, second.fence, second.generation) == (None, SUBMITTED, 0, 1)
    assert await claimable(plane) == [] and await plane.claim(second) is None
    await plane.complete(first)
    assert await claimable(plane) == [second.uid] and await plane.claim(third) is None
    assert await plane.claim(second)
    assert await claimable(plane) == []
    await plane.append(second, status(WORKING))
    await plane.pause(second)
    assert await claimable(plane) == [third.uid]
    assert await plane.claim(third)
    # Whoever was begun before waits for nobody who was begun after.
    await plane.say(second, "i-more")
    assert await claimable(plane) == [second.uid]


async def test_a_canceled_or_superseded_task_lets_the_next_one_through(plane: Plane) -> None:
    first, second, third = [await plane.create(strategy=QUEUE) for _ in range(3)]
    await plane.cancel(second)
    assert await claimable(plane) == []
    await plane.mark(1, f"{first.id}-i1")
    assert await claimable(plane) == [third.uid]


async def test_others_are_not_waited_for(plane: Plane) -> None:
    """Other agents, other sessions, paused tasks."""
    paused = await plane.create()
    await plane.pause(paused)
    await plane.create(agent="other")
    await plane.create(context_id="c2")
    assert (await plane.create(strategy=QUEUE)).lease_owner == "p1"


async def test_a_task_beside_others_is_waited_for_and_waits_for_nobody(plane: Plane) -> None:
    beside = await plane.create(strategy=PARALLEL)
    waiting = await plane.create(strategy=QUEUE)
    assert waiting.lease_owner is None
    assert (await plane.create(strategy=PARALLEL)).lease_owner == "p1"
    await plane.complete(beside)
    assert await claimable(plane) == [waiting.uid]


async def test_a_lost_attempt_keeps_its_place(plane: Plane) -> None:
    first = await plane.create(strategy=QUEUE, on_orphan=2)
    second = await plane.create(strategy=QUEUE)
    await plane.orphan(first)
    assert await claimable(plane) == [first.uid] and await plane.claim(second) is None


async def test_many_in_turn_never_run_beside_one_another(plane: Plane) -> None:
    """Whatever is submitted together, and however the claims come in."""
    made = await plane.log.submit_all([plane.creation(strategy=QUEUE) for _ in range(8)])
    rows = [only(commands.Created, each).row for each in made]
    assert [row.lease_owner for row in rows] == ["p1"] + [None] * 7
    assert sorted(row.created_at for row in rows) == [row.created_at for row in rows]
    for done, following in zip(rows, [*rows[1:], None], strict=True):
        until = await plane.log.now() + HOUR
        claims = [commands.Claim(task_uid=row.uid, process_id="p2", lease_until=until) for row in rows]
        if done is not rows[0]:
            taken = [
                only(commands.Done, each).row.uid for each in await plane.log.submit_all(claims) if each is not None
            ]
            assert taken == [done.uid]
        await plane.complete(done)
        assert await claimable(plane) == ([following.uid] if following is not None else [])


async def test_who_runs_beside_others_pays_for_no_strategy(plane: Plane) -> None:
    """PARALLEL: not a statement more, and a session is walked along its index by those that ask."""
    counts: list[int] = []
    for strategy in (PARALLEL, QUEUE, REJECT):
        op = plane.creation(strategy=strategy, context_id=f"s{strategy}", claim_for="")
        with statements() as seen:
            await plane.log.submit(op)
        counts.append(len(seen))
    assert counts[1] == counts[2] > counts[0]
    for _ in range(3):
        await plane.queued(strategy=QUEUE)
    with statements() as seen:
        await claimable(plane)
        await plane.create(strategy=INTERRUPT)
        await plane.create(context_id="c3", strategy=REJECT)
    for statement, parameters in seen:
        if statement.startswith("SELECT") and "context_id" in statement and "FROM task" in statement:
            path = await plane.engine.write(plan, statement.replace(" FOR UPDATE SKIP LOCKED", ""), parameters)
            assert "Seq Scan" not in path and "SCAN task" not in path.replace("SCAN task USING INDEX task_queued", "")
            assert "SCAN earlier" not in path, path
