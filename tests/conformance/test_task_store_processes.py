"""Several store processes on one database, and a database that goes away. C1, C8, C10, C11, C15."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import asyncpg
import pytest
from tests.conformance.task_log import ADA, Plane, chunk, only, opened, status
from tests.conftest import Migrated
from tests.support.postgres import CannotRun, running

from taskplane.runtime.errors import PlaneError, Refused, Unavailable
from taskplane.storage.migrate import upgrade
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.task import COMPLETED, Row

Planes = tuple[Plane, Plane, Plane]


@pytest.fixture
async def planes(engine_name: str, migrated: Migrated) -> AsyncGenerator[Planes, None]:
    """Three processes' stores on one database."""
    if engine_name == "sqlite":
        pytest.skip("a SQLite file is served by one process")
    url = await migrated("taskplane.tasks")
    async with opened(url) as one, opened(url) as two, opened(url) as three:
        yield one, two, three


async def test_generations_have_no_gap_with_several_writing_processes(planes: Planes) -> None:
    """C1: the row lock orders the processes, and every caller gets its answer."""
    rows = [await planes[0].create() for _ in range(4)]

    async def talk(number: int) -> int:
        row, plane = rows[number % 4], planes[number % 3]
        return (await plane.say(row, f"{row.id}-k{number}")).generation

    generations = await asyncio.gather(*(talk(number) for number in range(60)))
    for place, row in enumerate(rows):
        assert sorted(generations[place::4]) == list(range(3, 18))
        assert (await planes[2].check(row)).generation == 17


async def test_of_concurrent_claims_in_several_processes_one_succeeds(planes: Planes) -> None:
    """C8, W5: two processes that read the same queue assign a task once."""
    rows = [await planes[0].queued() for _ in range(10)]
    for row in rows:
        claims = await asyncio.gather(*(plane.claim(row, f"p{number}") for number, plane in enumerate(planes)))
        assert sum(claim is not None for claim in claims) == 1
        assert (await planes[0].check(row)).fence == 1


async def test_one_key_in_several_processes_makes_one_task(planes: Planes) -> None:
    """C10: wherever the repeats arrive, and even if they ask for different task ids."""
    for number in range(5):
        creation = planes[0].creation()
        tries = [replace(creation, uid=f"uid{number}-{place}") for place in range(3)]
        answers = await asyncio.gather(*(plane.log.submit(each) for plane, each in zip(planes, tries, strict=True)))
        made = [only(commands.Created, answer) for answer in answers]
        assert sorted(each.created for each in made) == [False, False, True]
        assert len({each.row.uid for each in made}) == 1


async def test_one_key_for_two_tasks_in_two_processes_is_accepted_once(planes: Planes) -> None:
    """C10: the record of a turn is unique, whoever writes first."""
    first, second = await planes[0].create(), await planes[0].create()
    for number in range(5):
        answers = await asyncio.gather(
            planes[1].log.submit_all([planes[1].saying(first, f"k{number}")]),
            planes[2].log.submit_all([planes[2].saying(second, f"k{number}")]),
        )
        refused = [answer for (answer,) in answers if isinstance(answer, PlaneError)]
        assert [error.reason for error in refused] == ["KEY_REUSED"]


async def test_a_completion_and_a_cancel_in_two_processes_make_one_end(planes: Planes) -> None:
    """C11: exactly one terminal event."""
    rows = [await planes[0].create() for _ in range(15)]

    async def race(row: Row) -> None:
        end = await planes[0].item(row, status(COMPLETED), consumed_generation=1)
        ended, canceled = await asyncio.gather(
            planes[1].log.submit(end), planes[2].log.submit_all([commands.Cancel(scope=ADA, task_id=row.id)])
        )
        completed = only(commands.Appended, ended).refusal is None
        assert completed == isinstance(canceled[0], Refused)
        await planes[0].check(row)

    await asyncio.gather(*map(race, rows))


async def test_a_row_that_another_process_holds_delays_nobody_else(planes: Planes) -> None:
    """However long: its operation waits, alone or beside others, and what is done meanwhile is committed."""
    held, free = await planes[0].create(), await planes[0].create()
    alone, together = [await planes[1].item(held, chunk(text)) for text in "xy"]
    holder = await asyncpg.connect(planes[2].engine.url)
    async with holder.transaction():
        await holder.execute("SELECT 1 FROM task WHERE uid = $1 FOR UPDATE", held.uid)
        waiting = [asyncio.create_task(planes[1].log.submit(alone))]
        for number in range(40):
            item = await planes[1].item(free, chunk("x", f"a{number}"))
            assert only(commands.Appended, await planes[1].log.submit(item)).refusal is None
            await planes[1].create(name=f"new{number}")
        waiting.append(asyncio.create_task(planes[1].log.submit(replace(together, number=together.number + 1))))
        assert (await planes[1].append(free, chunk("last"))).refusal is None
        assert not any(each.done() for each in waiting)
        assert (await planes[0].log.row_by_uid(held.uid)).generation == held.generation
    await holder.close()
    assert [only(commands.Appended, answer).refusal for answer in await asyncio.gather(*waiting)] == [None, None]
    await planes[0].check(held)


@asynccontextmanager
async def holding(plane: Plane, query: str, *parameters: object) -> AsyncGenerator[None, None]:
    """Another process holds the rows that `query` names."""
    holder = await asyncpg.connect(plane.engine.url)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute(f"{query} FOR UPDATE", *parameters)
    try:
        yield
    finally:
        await transaction.rollback()
        await holder.close()


async def test_a_renewal_waits_for_nobody_and_does_not_call_lost_what_it_could_not_look_at(planes: Planes) -> None:
    """C8: beside a lease that is held elsewhere, and the row of the process itself; the others are renewed."""
    one, two, _ = planes
    held, free, lost = await one.create(), await one.create(), await one.create()
    await one.cancel(lost)
    await one.log.announce("p1", 1, 100)
    async with (
        holding(two, "SELECT 1 FROM lease WHERE task_uid = $1", held.uid),
        holding(two, "SELECT 1 FROM executor"),
    ):
        renewed = await one.renew(held, free, lost)
        assert [each.still_yours for each in renewed] == [None, True, False]
        assert await one.log.loads(["p1"]) == {}
        # The run goes on meanwhile: its fence stands in its task.
        assert (await one.append(held, chunk("x"))).refusal is None
    assert [each.still_yours for each in await one.renew(held, free)] == [True, True]
    assert await one.log.loads(["p1"]) == {"p1": {("", "ada"): 2}}


async def test_a_renewal_locks_no_task(planes: Planes) -> None:
    """C8: whatever is written to a task goes on beside its renewals."""
    one, two, _ = planes
    row = await one.create()
    async with holding(two, "SELECT 1 FROM task WHERE uid = $1", row.uid):
        assert [each.still_yours for each in await one.renew(row)] == [True]


async def test_a_lease_that_is_being_renewed_is_not_swept_and_its_end_waits_alone(planes: Planes) -> None:
    """C8: who takes a lease locks its row; what has to wait for that delays no other operation."""
    one, two, _ = planes
    renewing, ending, free = [await one.create(lease_until=1) for _ in range(3)]
    now = await one.log.now()
    async with holding(two, "SELECT 1 FROM lease WHERE task_uid = ANY($1)", [renewing.uid, ending.uid]):
        assert await one.orphan(renewing, expired_before=now) is None
        canceling = asyncio.create_task(one.cancel(ending))
        assert await one.orphan(free, expired_before=now) is not None
        assert not canceling.done() and (await two.log.row_by_uid(ending.uid)).lease_owner == "p1"
    assert (await canceling).lease_owner is None
    assert [lease.task_uid for lease in await one.log.held()] == [renewing.uid]
    assert await one.orphan(renewing, expired_before=now) is not None


async def test_a_database_that_goes_away_is_unavailable_and_loses_nothing() -> None:
    """C15: what was acknowledged is there afterwards, and what was not can be sent again under its number."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(running(fsync=True))
        except CannotRun as reason:
            pytest.skip(str(reason))
        url = cluster.url(cluster.create())
        await upgrade(url, "taskplane.tasks")
        async with opened(url) as plane:
            row = await plane.create()
            await plane.append(row, chunk("x"))
            item = await plane.item(row, chunk("y"))
            cluster.stop("immediate")
            with pytest.raises(Unavailable):
                await plane.log.submit(item)
            with pytest.raises(Unavailable):
                await plane.log.get(ADA, row.id)
            cluster.start()
            first = only(commands.Appended, await plane.log.submit(item))
            assert first == await plane.log.submit(item) and first.refusal is None
            assert (await plane.check(row)).generation == 4
