"""The connection that writes: on the event loop where that is quicker, in its thread otherwise, always in order."""

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from taskplane.runtime import failpoints
from taskplane.runtime.errors import Unavailable
from taskplane.storage.committer import Batch, Committer
from taskplane.storage.pace import Bounds
from taskplane.storage.sqlite import SqliteEngine, connect_for_reading, connect_for_writing
from taskplane.storage.threads import Threads
from taskplane.storage.transactions import Transactions
from taskplane.storage.writer import Writer

# Here every commit is quick, whatever else this machine does.
ALWAYS: Final = Bounds(fewest=1, mean=60, slow=60, long=60)
PAGE: Final = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@asynccontextmanager
async def opened(file: Path, bounds: Bounds = ALWAYS, commits: list[int] | None = None) -> AsyncGenerator[Writer]:
    """A writer that has begun, and is quick by its bounds. `commits`: gets the thread of each."""

    def connect() -> sqlite3.Connection:
        driver = connect_for_writing(file, "full")
        if commits is not None:
            driver.set_trace_callback(partial(note_commit, commits))
        return driver

    writer = Writer(connect, file, bounds)
    try:
        await writer.start()
        await told(writer, create, small=False)
        await quick(writer, bounds.fewest)
        yield writer
    finally:
        await writer.stop()


def note_commit(threads: list[int], statement: str) -> None:
    if statement == "COMMIT":
        threads.append(threading.get_ident())


async def quick(writer: Writer, commits: int) -> None:
    for _ in range(commits):
        assert await told(writer, add) != threading.get_ident()


async def told(writer: Writer, fn: Callable[..., Any], *args: Any, small: bool = True, more_due: bool = False) -> Any:
    """What `fn` returned; raises what it raised."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def done(result: Any, error: BaseException | None) -> None:
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    writer.submit(fn, args, done, small=small, more_due=more_due)
    assert not answer.done(), "an answer never comes before the call has returned"
    return await answer


def create(conn: Connection) -> None:
    conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body BLOB)"))
    conn.execute(text("CREATE TABLE reply (note INTEGER REFERENCES note (id) DEFERRABLE INITIALLY DEFERRED)"))


def add(conn: Connection, size: int = 1) -> int:
    """The thread it ran in."""
    conn.execute(text("INSERT INTO note (body) VALUES (zeroblob(:size))"), {"size": size})
    return threading.get_ident()


def count(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT count(*) FROM note")).scalar_one()
    return found


async def test_small_transactions_run_on_the_loop_and_others_in_the_thread(file: Path) -> None:
    async with opened(file) as writer:
        here = threading.get_ident()
        places = [await told(writer, add, small=small) == here for small in (True, True, False, True)]
        assert places == [True, True, False, True]


async def test_a_commit_goes_on_beside_what_the_loop_has_to_do_for_another_database(file: Path) -> None:
    """Nothing but the COMMIT: and that only where there is something to sync."""
    here = threading.get_ident()
    commits: list[int] = []
    async with opened(file, commits=commits) as writer:
        for fn, more_due, beside in ((add, False, False), (add, True, True), (count, True, False), (add, False, False)):
            commits.clear()
            ran_in = await told(writer, fn, more_due=more_due)
            assert fn is count or ran_in == here
            assert [commit != here for commit in commits] == [beside]


async def test_what_comes_behind_a_commit_that_is_under_way_waits_for_it(file: Path) -> None:
    """And one that fails there is rolled back: it takes nothing with it, and the next one goes on."""

    def dangle(conn: Connection) -> None:
        add(conn)
        conn.execute(text("INSERT INTO reply VALUES (777)"))

    async with opened(file) as writer:
        before = await told(writer, count)
        under_way = [
            asyncio.ensure_future(told(writer, fn, more_due=more_due))
            for fn, more_due in ((add, True), (dangle, True), (count, False))
        ]
        _, dangled, counted = await asyncio.gather(*under_way, return_exceptions=True)
        assert isinstance(dangled, IntegrityError) and counted == before + 1
        with pytest.raises(IntegrityError):
            await told(writer, dangle, more_due=True)
        assert await told(writer, count) == before + 1
        assert await told(writer, add) == threading.get_ident()


async def test_what_never_gets_to_its_commit_leaves_no_transaction_behind(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C15: whatever keeps the loop from handing it over."""

    def interrupted(*_: object) -> None:
        raise MemoryError

    async with opened(file) as writer:
        before = await told(writer, count)
        with monkeypatch.context() as patch, pytest.raises(MemoryError):
            patch.setattr(Threads, "submit", interrupted)
            await told(writer, add, more_due=True)
        assert await told(writer, count) == before
        assert await told(writer, add) == threading.get_ident()


async def test_all_run_in_the_order_in_which_they_were_given_and_are_answered_in_it(file: Path) -> None:
    begun: list[int] = []
    answered: list[int] = []
    last = asyncio.Event()

    def note(conn: Connection, number: int) -> int:
        add(conn)
        begun.append(number)
        return number

    def done(result: int, error: BaseException | None) -> None:
        assert error is None
        answered.append(result)
        if result == 39:
            last.set()

    async with opened(file) as writer:
        for number in range(40):
            # The first on the loop, the third in the thread, and then whatever is small behind it, too.
            writer.submit(note, (number,), done, small=number % 10 != 2, more_due=number % 3 == 0)
            assert number not in answered
            if number % 4 == 0:
                await asyncio.sleep(0)
        await last.wait()
    assert begun == answered == list(range(40))


async def test_after_a_slow_transaction_all_run_in_the_thread_until_that_was_quick_for_a_while(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.get_ident()
    now = 0.0
    # No transaction takes any time but one.
    monkeypatch.setattr("taskplane.storage.writer.perf_counter", lambda: now)
    go_on = threading.Event()

    def block(conn: Connection) -> bool:
        add(conn)
        # Only the loop can let it go on.
        return go_on.wait(60)

    def dawdle(conn: Connection) -> int:
        nonlocal now
        now += 0.6
        return add(conn)

    bounds = Bounds(fewest=3, mean=60, slow=60, long=0.5)
    with caplog.at_level(logging.DEBUG):
        async with opened(file, bounds) as writer:
            assert await told(writer, add) == here
            assert await told(writer, dawdle) == here
            assert "all run in their thread" in caplog.text
            blocked = asyncio.create_task(told(writer, block))
            await asyncio.sleep(0)
            go_on.set()
            assert await blocked
            assert [await told(writer, add) == here for _ in range(6)] == [False] * 5 + [True]
    assert caplog.text.count("commits are quick") == 2


async def test_a_lock_that_another_connection_holds_never_stops_the_loop(file: Path) -> None:
    async with opened(file) as writer:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [asyncio.create_task(told(writer, add)) for _ in range(2)]
            # This is done by the loop; if it waited for the lock, both would be refused.
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
        here = threading.get_ident()
        assert here not in await asyncio.gather(*waiting)
        assert await told(writer, add) == here


async def test_what_fails_on_the_loop_is_rolled_back_and_the_next_goes_on(file: Path) -> None:
    """C15: also where COMMIT fails, which must leave no transaction open behind it."""

    def half(conn: Connection) -> None:
        add(conn)
        raise LookupError(threading.get_ident())

    def dangle(conn: Connection) -> None:
        add(conn)
        conn.execute(text("INSERT INTO reply VALUES (777)"))

    async with opened(file) as writer:
        before = await told(writer, count)
        with pytest.raises(LookupError, match=str(threading.get_ident())):
            await told(writer, half)
        with pytest.raises(IntegrityError):
            await told(writer, dangle)
        assert await told(writer, count) == before
        assert await told(writer, add) == threading.get_ident()
        assert await told(writer, count) == before + 1


async def test_checkpoints_are_made_by_the_thread_and_keep_the_log_short(file: Path) -> None:
    checkpoints: list[int] = []
    log = file.with_name(f"{file.name}-wal")

    def trace(statement: str) -> None:
        if "wal_checkpoint" in statement:
            checkpoints.append(threading.get_ident())

    def listen(conn: Connection) -> None:
        driver = conn.connection.driver_connection
        assert driver is not None
        driver.set_trace_callback(trace)

    async with opened(file) as writer:
        await told(writer, listen)
        here = threading.get_ident()
        places = [await told(writer, add, 100 * PAGE) for _ in range(60)]
        assert places.count(here) > 30
        assert here not in checkpoints
        assert len(checkpoints) >= 3
        assert log.stat().st_size < 2000 * PAGE
    assert not log.exists()
    with contextlib.closing(sqlite3.connect(file)) as conn:
        assert conn.execute("SELECT count(*) FROM note").fetchone() == (61,)


async def test_a_log_that_a_reader_made_long_is_cut_again(file: Path) -> None:
    log = file.with_name(f"{file.name}-wal")

    def limit(conn: Connection) -> None:
        conn.execute(text("PRAGMA journal_size_limit = 1000000")).all()

    async with opened(file) as writer:
        await told(writer, limit)
        with contextlib.closing(connect_for_reading(file)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM note").fetchall()
            for _ in range(30):
                await told(writer, add, 100 * PAGE)
            assert log.stat().st_size > 3000 * PAGE
        for _ in range(30):
            await told(writer, add, 100 * PAGE)
        assert log.stat().st_size < 2000 * PAGE


async def test_a_stopped_writer_refuses_small_transactions_too(file: Path) -> None:
    async with opened(file) as writer:
        pass
    with pytest.raises(Unavailable, match="closing"):
        await told(writer, add)


@asynccontextmanager
async def committing(
    file: Path, apply: Callable[..., Batch[int]], commits: list[int] | None = None
) -> AsyncGenerator[Committer[int, int]]:
    """A committer of sizes above an engine that is always quick. `commits` gets the thread of each commit."""
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(opened(file, commits=commits))
        readers = Threads("reader", lambda: Transactions(connect_for_reading(file), "BEGIN"))
        stack.push_async_callback(readers.stop)
        await readers.start()
        engine = SqliteEngine(file, writer, readers)
        committer: Committer[int, int] = Committer(engine, apply, key=lambda _op: None, size=lambda op: op)
        yield await stack.enter_async_context(committer)


def apply(conn: Connection, ops: Sequence[int]) -> Batch[int]:
    return Batch([add(conn) for _ in ops])


async def test_small_batches_are_committed_on_the_loop_and_large_ones_in_the_thread(file: Path) -> None:
    here = threading.get_ident()
    async with committing(file, apply) as committer:
        assert await committer.submit(1) == here
        assert await committer.submit_all([1] * 10) == [here] * 10
        assert here not in await committer.submit_all([1] * 100)
        assert await committer.submit(1_000_000) != here
        assert await committer.submit(1) == here


async def test_of_two_databases_that_are_written_at_once_one_commits_beside_the_other(tmp_path: Path) -> None:
    """As at each new turn, whose message and task are stored at the same time; alone, either commits on the loop."""
    here = threading.get_ident()
    commits: list[int] = []
    async with (
        committing(tmp_path / "a.db", apply, commits) as one,
        committing(tmp_path / "b.db", apply, commits) as other,
    ):
        for committers, beside in (((one, other), 1), ((one,), 0), ((other, one), 1), ((other,), 0)):
            commits.clear()
            places = await asyncio.gather(*(committer.submit(1) for committer in committers))
            assert places == [here] * len(committers)
            assert len(commits) == len(committers) and sum(commit != here for commit in commits) == beside


async def test_a_failpoint_that_waits_in_a_transaction_does_not_stop_the_loop(file: Path, tmp_path: Path) -> None:
    go, reached = tmp_path / "go", tmp_path / "go.reached"
    failpoints.configure(f"append.before_commit=pause({go})")
    try:
        async with committing(file, apply) as committer:
            waiting = asyncio.create_task(committer.submit(1))
            while not reached.exists():
                await asyncio.sleep(0)
            go.touch()
            assert await waiting != threading.get_ident()
    finally:
        failpoints.configure("")
