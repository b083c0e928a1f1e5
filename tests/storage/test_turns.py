"""Turns at the connections of a database, and shares in the queue of writes, by owner. L2, C13."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, text
from tests.conftest import Migrated

from taskplane.runtime.errors import Exhausted
from taskplane.runtime.principal import Principal, acting_as
from taskplane.storage.engine import Engine, open_engine
from taskplane.storage.queue import Queue, Waiting
from taskplane.storage.turns import Turns


def user(name: str) -> Principal:
    return Principal("t", name, name)


class Journal:
    """Places that are taken and given back in an order that is noted."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.order: list[str] = []
        self.go = asyncio.Event()

    async def have(self, name: str) -> None:
        async with self.turns.place():
            self.order.append(name)
            await self.go.wait()

    def ask(self, owner: str, *names: str) -> list["asyncio.Task[None]"]:
        with acting_as(user(owner)):
            return [asyncio.create_task(self.have(name)) for name in names]


async def turn() -> None:
    """Lets every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_next_place_goes_to_the_owner_with_the_fewest() -> None:
    """Even if another owner has asked for a hundred before. Requests of one owner keep their order; owners with equally
    few take turns."""
    journal = Journal(2)
    asked = journal.ask("ann", *(f"a{number}" for number in range(100)))
    await turn()
    assert journal.order == ["a0", "a1"]
    asked += journal.ask("bob", "b0", "b1") + journal.ask("carl", "c0")
    await turn()
    journal.go.set()
    await asyncio.gather(*asked)
    assert {"b0", "c0"} < set(journal.order[2:5])
    assert journal.order.index("b1") < 10
    assert [name for name in journal.order if name[0] == "a"] == [f"a{number}" for number in range(100)]


async def test_an_owner_with_more_places_waits_behind_owners_with_fewer() -> None:
    """In any order of the requests."""
    journal = Journal(3)
    held = journal.ask("ann", "a0", "a1") + journal.ask("bob", "b0")
    await turn()
    asked = journal.ask("ann", "a2") + journal.ask("bob", "b1") + journal.ask("carl", "c0")
    await turn()
    for leaving, following in ((held[2], "b1"), (held[0], "c0"), (held[1], "a2")):
        leaving.cancel()
        await turn()
        assert journal.order[-1] == following
    journal.go.set()
    await asyncio.gather(*asked)


async def test_a_cancelled_request_passes_its_place_on() -> None:
    """Cancelled before it gets the place, at that moment, and afterwards; then all places are free."""
    journal = Journal(1)
    holder, *waiting = journal.ask("ann", "a0", "a1", "a2", "a3")
    await turn()
    waiting[0].cancel()
    await turn()
    holder.cancel()
    # The place is given to the next one in this moment.
    await asyncio.wait((holder,))
    waiting[1].cancel()
    await turn()
    assert journal.order[-1] == "a3"
    journal.go.set()
    await waiting[2]
    (last,) = journal.ask("bob", "b0")
    await last
    assert journal.order[-1] == "b0"


@pytest.fixture
async def engine(migrated: Migrated) -> AsyncGenerator[Engine, None]:
    async with open_engine(await migrated("taskplane.tasks"), readers=2) as engine:
        yield engine


async def test_the_reads_of_one_owner_are_not_waited_for_by_another(engine: Engine) -> None:
    """All of them are asked for before; each takes as long as it is let."""
    began: list[str] = []

    def read(conn: Connection, name: str) -> None:
        began.append(name)
        conn.execute(text("SELECT 1")).scalar_one()

    async def reading(owner: str, name: str) -> None:
        with acting_as(user(owner)):
            await engine.read(read, name)

    await asyncio.gather(*[reading("ann", f"a{number}") for number in range(50)], reading("bob", "b0"))
    assert began.index("b0") <= 6


def waiting(owner: str, size: int = 1) -> Waiting[str, None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with acting_as(user(owner)):
        return Waiting("op", None, size, future, shares=False)


@contextmanager
def refused() -> Generator[None, None, None]:
    with pytest.raises(Exhausted) as found:
        yield
    assert found.value.reason == "QUEUE_FULL" and found.value.retry_after


async def test_one_owner_leaves_a_quarter_of_the_queue_of_writes_to_others() -> None:
    """By number and by bytes; what our own processes write is refused only when it is full."""
    by_number: Queue[str, None] = Queue(max_ops=8, max_bytes=1_000)
    by_bytes: Queue[str, None] = Queue(max_ops=1_000, max_bytes=80)
    for queue, size in ((by_number, 1), (by_bytes, 10)):
        for _ in range(6):
            queue.put(waiting("ann", size))
        with refused():
            queue.put(waiting("ann", size))
        queue.put(waiting("bob", size))
        queue.put(waiting("", size))
        with refused():
            queue.put(waiting("carl", size))
        taken = queue.take(4, 10_000)
        for each in taken:
            queue.release(each)
        queue.put(waiting("ann", size))


async def test_a_write_larger_than_a_share_is_accepted_if_the_owner_has_no_other() -> None:
    queue: Queue[str, None] = Queue(max_ops=8, max_bytes=100)
    queue.put(waiting("bob", 5))
    queue.put(waiting("ann", 90))
    with refused():
        queue.put(waiting("ann", 1))
