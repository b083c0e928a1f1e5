"""Group commit: what waits becomes one transaction, in order, bounded, and one bad operation harms no other.

Over 300 lines because all of it reads the same journal of transactions.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from taskplane.runtime import failpoints
from taskplane.runtime.errors import Exhausted, Internal, PlaneError, Refused, Unavailable
from taskplane.storage.committer import LATER, Batch, Committer, Later
from taskplane.storage.engine import Engine, open_engine


@dataclass(frozen=True)
class Put:
    """Writes `value` under `key` once more. The table refuses values from 1000 on, the store function falls over -1."""

    key: str
    value: int
    refuse: bool = False
    size: int = 1
    shares: bool = False


@dataclass
class Journal:
    """What the committer's store function was given, transaction by transaction, and what `committed` was told."""

    batches: list[list[Put]] = field(default_factory=list[list[Put]])
    told: list[Any] = field(default_factory=list[Any])
    later: Callable[[Put], bool] = lambda _op: False
    fail: Exception | None = None

    def apply(self, conn: Connection, ops: Sequence[Put]) -> Batch[str]:
        self.batches.append(list(ops))
        if self.fail is not None:
            raise self.fail
        outcomes: list[str | PlaneError | Later] = []
        rows: list[dict[str, Any]] = []
        for op in ops:
            if self.later(op):
                outcomes.append(LATER)
            elif op.refuse:
                outcomes.append(Refused(f"{op.key} is refused"))
            elif op.value == -1:
                raise LookupError("fell over")
            else:
                rows.append({"key": op.key, "value": op.value})
                outcomes.append(f"{op.key}={op.value}")
        if rows:
            conn.execute(text("INSERT INTO put VALUES (:key, :value)"), rows)
        return Batch(outcomes, len(rows))

    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


@pytest.fixture
async def engine(dsn: str) -> AsyncGenerator[Engine, None]:
    async with open_engine(dsn) as engine:
        await engine.write(
            lambda conn: conn.execute(text("CREATE TABLE put (key TEXT, value INTEGER NOT NULL CHECK (value < 1000))"))
        )
        yield engine


@pytest.fixture
def journal() -> Journal:
    return Journal()


@asynccontextmanager
async def committing(engine: Engine, journal: Journal, **bounds: int) -> AsyncGenerator[Committer[Put, str], None]:
    committer: Committer[Put, str] = Committer(
        engine,
        journal.apply,
        name="test",
        key=lambda op: op.key,
        size=lambda op: op.size,
        shares=lambda op: op.shares,
        committed=lambda batch: journal.told.append(batch.effects),
        **bounds,
    )
    async with committer:
        yield committer


async def begun(journal: Journal) -> None:
    """Returns when a transaction has begun."""
    async with asyncio.timeout(60):
        while not journal.batches:
            await asyncio.sleep(0)


def stored(conn: Connection) -> list[tuple[str, int]]:
    return [(row.key, row.value) for row in conn.execute(text("SELECT key, value FROM put"))]


async def test_operations_submitted_together_share_a_transaction_and_later_ones_share_the_next(
    engine: Engine, journal: Journal
) -> None:
    async with committing(engine, journal) as committer:
        first = [asyncio.create_task(committer.submit(Put(f"k{n}", n))) for n in range(10)]
        await begun(journal)
        answers = await asyncio.gather(*first, *(committer.submit(Put(f"k{n}", n)) for n in range(10, 50)))
    assert answers == [f"k{n}={n}" for n in range(50)]
    assert journal.sizes() == [10, 40]
    assert len(await engine.read(stored)) == 50


async def test_leaving_the_committer_commits_submitted_operations(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        answer = asyncio.create_task(committer.submit(Put("k", 1)))
        await asyncio.sleep(0)
    assert journal.sizes() == [1]
    assert await answer == "k=1"


async def test_operations_of_one_key_are_carried_out_in_order_one_per_batch(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        ops = [Put(key, value) for value in range(5) for key in ("a", "b")]
        await asyncio.gather(*(committer.submit(op) for op in ops))
    for batch in journal.batches:
        assert len({op.key for op in batch}) == len(batch)
    for key in ("a", "b"):
        assert [op.value for batch in journal.batches for op in batch if op.key == key] == list(range(5))
    assert len(journal.batches) == 5


async def test_operations_of_one_key_that_share_a_batch_leave_together_behind_ready_ones(
    engine: Engine, journal: Journal
) -> None:
    """Operations of other keys do not wait behind a long line. An operation that does not share goes alone, in its
    place."""
    ops = [Put("a", value, shares=value != 3) for value in range(6)]
    async with committing(engine, journal, max_ops=4) as committer:
        await asyncio.gather(*(committer.submit(op) for op in [*ops, Put("b", 0), Put("c", 0)]))
    assert [[(op.key, op.value) for op in batch] for batch in journal.batches] == [
        [("a", 0), ("b", 0), ("c", 0), ("a", 1)],
        [("a", 2)],
        [("a", 3)],
        [("a", 4), ("a", 5)],
    ]


async def test_operations_that_share_hold_their_key_until_all_of_them_are_done(
    engine: Engine, journal: Journal
) -> None:
    tries = iter([True, True, False])
    journal.later = lambda op: op.value == 1 and next(tries)
    async with committing(engine, journal) as committer:
        await asyncio.gather(*(committer.submit(Put("a", value, shares=value < 2)) for value in range(4)))
    assert [[op.value for op in batch] for batch in journal.batches] == [[0, 1], [1], [1], [2], [3]]


async def test_operations_that_share_are_taken_apart_in_their_order(engine: Engine, journal: Journal) -> None:
    ops = [Put("a", value, shares=True) for value in (0, 1, 1000, 2, 3)]
    async with committing(engine, journal) as committer:
        answers = await asyncio.gather(*(committer.submit(op) for op in ops), return_exceptions=True)
    assert [str(answer) for answer in answers if not isinstance(answer, PlaneError)] == ["a=0", "a=1", "a=2", "a=3"]
    assert await engine.read(stored) == [("a", 0), ("a", 1), ("a", 2), ("a", 3)]


async def test_an_operation_that_shares_and_is_taken_back_does_not_hold_its_key(
    engine: Engine, journal: Journal
) -> None:
    async with committing(engine, journal) as committer:
        ops = [asyncio.create_task(committer.submit(Put("a", value, shares=value > 0))) for value in range(4)]
        await begun(journal)
        ops[2].cancel()
        await asyncio.wait(ops)
        assert await committer.submit(Put("a", 4)) == "a=4"
    assert [[op.value for op in batch] for batch in journal.batches] == [[0], [1, 3], [4]]


async def test_a_refusal_concerns_its_operation_only(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        answers = await committer.submit_all([Put("a", 1), Put("b", 2, refuse=True), Put("c", 3)])
    assert answers[0] == "a=1" and answers[2] == "c=3"
    assert isinstance(answers[1], Refused)
    assert journal.sizes() == [3]
    assert await engine.read(stored) == [("a", 1), ("c", 3)]


async def test_a_transaction_that_fails_is_committed_one_by_one_so_only_the_guilty_one_gets_the_error(
    engine: Engine, journal: Journal
) -> None:
    """The blast radius of one operation is one operation."""
    async with committing(engine, journal) as committer:
        ops = [Put("a", 1), Put("b", 5000), Put("c", 3), Put("d", 4)]
        answers = await committer.submit_all(ops)
        assert await committer.submit(Put("b", 6)) == "b=6"
    assert [answers[0], *answers[2:]] == ["a=1", "c=3", "d=4"]
    guilty = answers[1]
    assert isinstance(guilty, Internal)
    assert "5000" not in str(guilty)
    assert journal.sizes()[0] == 4 and set(journal.sizes()[1:]) == {1}
    assert sorted(await engine.read(stored)) == [("a", 1), ("b", 6), ("c", 3), ("d", 4)]
    assert journal.told == [1, 1, 1, 1]


async def test_an_operation_that_the_store_function_falls_over_harms_no_other(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        answers = await committer.submit_all([Put("a", 1), Put("b", -1), Put("c", 3)])
    assert [answers[0], answers[2]] == ["a=1", "c=3"]
    assert isinstance(answers[1], Internal)
    assert journal.sizes() == [3, 1, 1, 1]


async def test_an_operation_that_collided_alone_is_tried_once_more(engine: Engine, journal: Journal) -> None:
    """Another process may have written the same meanwhile; read again, it is a repeat and no collision."""
    async with committing(engine, journal) as committer:
        with pytest.raises(Internal):
            await committer.submit(Put("a", 5000))
    assert journal.sizes() == [1, 1]


async def test_a_fault_of_the_store_function_reaches_the_caller_as_such(engine: Engine, journal: Journal) -> None:
    journal.fail = LookupError("a secret")
    async with committing(engine, journal) as committer:
        with pytest.raises(Internal) as fault:
            await committer.submit(Put("a", 1))
    assert "secret" not in str(fault.value)
    assert isinstance(fault.value.__cause__, LookupError)


async def test_an_unavailable_database_fails_all_operations_without_a_retry(engine: Engine, journal: Journal) -> None:
    """C15: the outcome is unknown, and the callers retry with their own numbers."""
    journal.fail = Unavailable("gone")
    async with committing(engine, journal) as committer:
        answers = await committer.submit_all([Put(f"k{n}", n) for n in range(10)])
        assert journal.sizes() == [10]
        journal.fail = None
        assert await committer.submit(Put("k1", 1)) == "k1=1"
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert len({id(answer) for answer in answers}) == 10


async def test_an_operation_left_for_later_is_retried_at_once(engine: Engine, journal: Journal) -> None:
    journal.later = lambda op: len(journal.batches) == 1 and op.key == "b"
    async with committing(engine, journal) as committer:
        assert await committer.submit_all([Put(key, 1) for key in "abcd"]) == ["a=1", "b=1", "c=1", "d=1"]
    assert [[op.key for op in batch] for batch in journal.batches] == [["a", "b", "c", "d"], ["b"]]


async def test_an_operation_that_must_wait_delays_its_own_key_only(engine: Engine, journal: Journal) -> None:
    held = True
    journal.later = lambda op: held and op.key == "held"
    async with committing(engine, journal) as committer:
        waiting = [asyncio.create_task(committer.submit(Put("held", value))) for value in (1, 2)]
        for value in range(20):
            assert await committer.submit(Put("free", value)) == f"free={value}"
        held = False
        assert await asyncio.gather(*waiting) == ["held=1", "held=2"]
    assert [value for key, value in await engine.read(stored) if key == "held"] == [1, 2]


async def test_an_operation_that_is_left_for_later_repeatedly_is_retried_with_pauses(
    engine: Engine, journal: Journal
) -> None:
    held = True
    journal.later = lambda op: held and op.key == "held"
    async with committing(engine, journal) as committer:
        submitted = time.monotonic()
        waiting = asyncio.create_task(committer.submit(Put("held", 1)))
        async with asyncio.timeout(60):
            while len(journal.batches) < 9:
                await asyncio.sleep(0.005)
        took = time.monotonic() - submitted
        assert await committer.submit(Put("free", 1)) == "free=1"
        held = False
        assert await waiting == "held=1"
    # Between the second and the ninth lie pauses of 1, 2, 4 and so on up to 50 ms, however quick the batches are.
    assert took > 0.1


async def test_a_batch_has_bounds_in_number_and_bytes_and_a_giant_goes_alone(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal, max_ops=4, max_bytes=10) as committer:
        sizes = [1, 1, 1, 1, 1, 6, 6, 50, 1]
        await committer.submit_all([Put(f"k{n}", n, size=size) for n, size in enumerate(sizes)])
    assert sorted([op.size for op in batch] for batch in journal.batches) == [[1], [1, 1, 1, 1], [1, 6], [6], [50]]


async def test_a_full_queue_refuses_at_once_and_takes_in_again_when_there_is_room(
    engine: Engine, journal: Journal
) -> None:
    """C13: bounded in bytes and items; what does not fit is RESOURCE_EXHAUSTED at once, with a time to wait."""
    async with committing(engine, journal, queue_ops=3, queue_bytes=100) as committer:
        answers = await committer.submit_all([Put(f"k{n}", n) for n in range(5)])
        assert answers[:3] == ["k0=0", "k1=1", "k2=2"]
        for refused in answers[3:]:
            assert isinstance(refused, Exhausted)
            assert refused.retry_after
        answers = await committer.submit_all([Put("a", 1, size=60), Put("b", 1, size=60), Put("c", 1, size=40)])
        assert [isinstance(answer, Exhausted) for answer in answers] == [False, True, False]
        assert await committer.submit(Put("giant", 1, size=1000)) == "giant=1"
        assert await committer.submit(Put("a", 2)) == "a=2"


async def test_committed_is_called_after_the_commit_and_before_any_answer(engine: Engine) -> None:
    """C2: visible implies durable, and watchers are notified before the caller is answered."""
    order: list[str] = []
    journal = Journal()
    reading: list[asyncio.Task[list[tuple[str, int]]]] = []

    def committed(batch: Batch[str]) -> None:
        order.append(f"told {batch.effects}")
        reading.append(asyncio.ensure_future(engine.read(stored)))

    committer: Committer[Put, str] = Committer(
        engine, journal.apply, name="test", key=lambda op: op.key, size=lambda op: op.size, committed=committed
    )
    async with committer:
        order.append(await committer.submit(Put("a", 1)))
    assert order == ["told 1", "a=1"]
    assert await reading[0] == [("a", 1)]


async def test_a_listener_that_fails_costs_no_answer(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    def committed(_batch: Batch[str]) -> None:
        raise LookupError("no bell")

    committer: Committer[Put, str] = Committer(
        engine, Journal().apply, name="test", key=lambda op: op.key, size=lambda op: op.size, committed=committed
    )
    with caplog.at_level(logging.ERROR):
        async with committer:
            assert await committer.submit(Put("a", 1)) == "a=1"
    assert "no bell" in caplog.text


async def test_closing_commits_submitted_operations_and_refuses_later_ones(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        late = [asyncio.ensure_future(committer.submit(Put("a", n))) for n in range(5)]
        await asyncio.sleep(0)
    assert journal.told == [1] * 5
    assert [await answer for answer in late] == [f"a={n}" for n in range(5)]
    with pytest.raises(Unavailable, match="closing"):
        await committer.submit(Put("b", 1))
    with pytest.raises(Unavailable, match="closing"):
        await committing_nobody(engine, journal).submit(Put("b", 1))


def committing_nobody(engine: Engine, journal: Journal) -> Committer[Put, str]:
    """A committer that nobody has entered."""
    return Committer(engine, journal.apply, name="test", key=lambda op: op.key, size=lambda op: op.size)


async def test_an_engine_closed_before_its_committer_leaves_nobody_waiting(dsn: str, journal: Journal) -> None:
    committer: Committer[Put, str]
    async with open_engine(dsn) as engine:
        committer = await committing_nobody(engine, journal).__aenter__()
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable):
            await committer.submit(Put("a", 1))
        await committer.__aexit__(None, None, None)


async def test_a_cancelled_caller_withdraws_only_its_waiting_operations(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        first = asyncio.create_task(committer.submit(Put("a", 0)))
        await begun(journal)
        waiting, behind = (asyncio.create_task(committer.submit(Put("a", n))) for n in (1, 2))
        await asyncio.sleep(0)
        first.cancel()
        waiting.cancel()
        assert await behind == "a=2"
    assert await engine.read(stored) == [("a", 0), ("a", 2)]


async def test_submit_all_of_nothing_answers_nothing(engine: Engine, journal: Journal) -> None:
    async with committing(engine, journal) as committer:
        assert await committer.submit_all([]) == []
    assert journal.batches == []


async def test_operations_without_a_key_share_a_batch(engine: Engine, journal: Journal) -> None:
    committer: Committer[Put, str] = Committer(
        engine, journal.apply, name="test", key=lambda _op: None, size=lambda op: op.size
    )
    async with committer:
        assert await committer.submit_all([Put("a", 1), Put("a", 2)]) == ["a=1", "a=2"]
    assert journal.sizes() == [2]


async def test_a_store_function_that_forgets_an_outcome_commits_nothing(engine: Engine, journal: Journal) -> None:
    def forgetful(conn: Connection, ops: Sequence[Put]) -> Batch[str]:
        return Batch(journal.apply(conn, ops).outcomes[1:])

    committer: Committer[Put, str] = Committer(
        engine, forgetful, name="test", key=lambda op: op.key, size=lambda op: op.size
    )
    async with committer:
        with pytest.raises(Internal):
            await committer.submit(Put("a", 1))
    assert await engine.read(stored) == []


@pytest.mark.parametrize("engine_name", ["sqlite"])
async def test_a_transaction_that_takes_long_does_not_block_the_loop(
    engine: Engine, journal: Journal, tmp_path: Path
) -> None:
    """Reads go on, too."""
    go, reached = tmp_path / "go", tmp_path / "go.reached"
    failpoints.configure(f"append.before_commit=pause({go})")
    try:
        async with committing(engine, journal) as committer:
            waiting = asyncio.create_task(committer.submit(Put("a", 1)))
            while not reached.exists():
                await asyncio.sleep(0)
            assert await engine.read(stored) == []
            go.touch()
            assert await waiting == "a=1"
    finally:
        failpoints.configure("")


@pytest.mark.parametrize("engine_name", ["sqlite"])
async def test_on_sqlite_only_one_batch_is_in_flight(engine: Engine, journal: Journal) -> None:
    go_on = threading.Event()

    def apply(conn: Connection, ops: Sequence[Put]) -> Batch[str]:
        assert go_on.wait(60)
        return journal.apply(conn, ops)

    async with Committer(engine, apply, name="test", key=lambda op: op.key, size=lambda op: op.size) as committer:
        answers: list[asyncio.Task[str]] = []
        for number in range(5):
            answers.append(asyncio.create_task(committer.submit(Put(f"k{number}", number))))
            # It would begin now if it did not wait for the one before.
            for _ in range(5):
                await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*answers)
    assert journal.sizes() == [1, 4]


@pytest.mark.parametrize("engine_name", ["postgres"])
async def test_on_postgresql_batches_on_other_keys_go_on_beside_one_that_takes_long(
    engine: Engine, journal: Journal
) -> None:
    """What has the key of an operation in flight waits behind it."""
    go_on = asyncio.Event()

    def apply(conn: Connection, ops: Sequence[Put]) -> Batch[str]:
        batch = journal.apply(conn, ops)
        if ops[0].key == "slow":
            await_only(go_on.wait())
        return batch

    async with Committer(engine, apply, name="test", key=lambda op: op.key, size=lambda op: op.size) as committer:
        slow = asyncio.create_task(committer.submit(Put("slow", 1)))
        await begun(journal)
        behind = asyncio.create_task(committer.submit(Put("slow", 2)))
        async with asyncio.timeout(60):
            assert [await committer.submit(Put(key, 1)) for key in "abc"] == ["a=1", "b=1", "c=1"]
        assert not slow.done() and not behind.done()
        go_on.set()
        assert list(await asyncio.gather(slow, behind)) == ["slow=1", "slow=2"]
    assert [batch[0].key for batch in journal.batches] == ["slow", "a", "b", "c", "slow"]
