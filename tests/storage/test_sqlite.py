"""What only SQLite has: a writer thread, settings read back, one process per file."""

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from tests.support.damage import damage

from taskplane.runtime.errors import DataLoss, Refused, Unavailable
from taskplane.storage.engine import Engine, open_engine
from taskplane.storage.file_guard import LONGEST_KEPT
from taskplane.storage.sqlite import version_warning
from taskplane.storage.writer import connect, driver_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "what is #1, 100%.db"


@pytest.fixture
async def engine(file: Path) -> AsyncGenerator[Engine, None]:
    async with open_engine(f"sqlite:///{file}") as engine:
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")))
        yield engine


def add(conn: Connection, number: int, body: str = "x") -> None:
    conn.execute(text("INSERT INTO note VALUES (:id, :body)"), {"id": number, "body": body})


def count(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT count(*) FROM note")).scalar_one()
    return found


def pragma(conn: Connection, name: str) -> object:
    return conn.execute(text(f"PRAGMA {name}")).scalar_one()


@contextlib.asynccontextmanager
async def process(code: str, *arguments: str) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A Python process that runs `code`, killed at the end."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


async def test_the_settings_that_promises_rest_on_are_in_force(engine: Engine) -> None:
    """C2 (an acknowledged commit is synced) and the foreign keys of the log's invariants."""
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "mmap_size": 0}
    assert {name: await engine.write(pragma, name) for name in wanted} == wanted
    for _ in range(4):
        assert await engine.read(pragma, "query_only") == 1
        assert await engine.read(pragma, "mmap_size") == 0


async def test_relaxed_durability_syncs_less(file: Path) -> None:
    async with open_engine(f"sqlite:///{file}", durability="relaxed") as engine:
        assert await engine.write(pragma, "synchronous") == 1


def test_a_setting_that_does_not_take_is_refused() -> None:
    """C2: a database in memory cannot keep a write-ahead log, so opening it stands for every weak answer."""
    with pytest.raises(Refused, match="journal_mode = memory") as refused:
        connect(Path(":memory:"), "full")
    assert "PostgreSQL" in refused.value.suggestion


async def test_all_transactions_run_in_one_thread_on_one_connection_in_the_order_of_the_calls(engine: Engine) -> None:
    seen: list[int] = []

    def note(conn: Connection, number: int) -> tuple[int, int]:
        seen.append(number)
        return threading.get_ident(), id(conn.connection.driver_connection)

    places = await asyncio.gather(*(engine.write(note, number) for number in range(50)))
    assert len(set(places)) == 1
    assert places[0][0] != threading.get_ident()
    assert seen == list(range(50))


async def test_a_transaction_holds_the_write_lock_from_its_beginning(engine: Engine, file: Path) -> None:
    def intrude(conn: Connection) -> str:
        count(conn)
        with contextlib.closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                return str(error)
        return "came in"

    assert await engine.write(intrude) == "database is locked"


async def test_a_second_engine_on_the_file_is_refused_and_names_the_way_out(engine: Engine, file: Path) -> None:
    with pytest.raises(Refused, match="in use by another process") as refused:
        async with open_engine(f"sqlite:///{file}"):
            pass
    assert "postgresql://" in refused.value.suggestion
    await engine.write(add, 1)


_HOLD = """
import asyncio, sys
from sqlalchemy import text
from taskplane.storage.engine import open_engine

TABLE = text("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT)")

async def main():
    async with open_engine("sqlite:///" + sys.argv[1]) as engine:
        await engine.write(lambda c: c.execute(TABLE))
        number = 0
        while True:
            await engine.write(lambda c: c.execute(text("INSERT INTO note VALUES (:n, 'x')"), {"n": number}))
            print(number, flush=True)
            number += 1

asyncio.run(main())
"""


async def test_a_second_process_is_refused_until_the_first_is_dead_and_then_finds_every_acknowledged_commit(
    file: Path,
) -> None:
    """C2: SIGKILL loses nothing that was acknowledged; the lock dies with its process."""
    async with process(_HOLD, str(file)) as child:
        assert child.stdout is not None
        acknowledged = -1
        for _ in range(20):
            acknowledged = int(await child.stdout.readline())
        with pytest.raises(Refused, match="in use by another process"):
            async with open_engine(f"sqlite:///{file}"):
                pass
        child.send_signal(signal.SIGKILL)
        for line in (await child.stdout.read()).split():
            acknowledged = int(line)
        await child.wait()
    async with open_engine(f"sqlite:///{file}") as engine:
        assert await engine.read(count) >= acknowledged + 1


async def test_writes_on_a_full_disk_are_unavailable_until_there_is_space(engine: Engine) -> None:
    """C15: a fault around the database is not a fault of the statement."""
    pages = await engine.write(pragma, "page_count")
    await engine.write(pragma, f"max_page_count = {pages}")
    with pytest.raises(Unavailable):
        await engine.write(add, 1, "x" * 100_000)
    await engine.write(pragma, "max_page_count = 1000000")
    await engine.write(add, 1, "x" * 100_000)
    assert await engine.read(count) == 1


async def test_a_file_that_is_gone_is_unavailable_to_the_probe(engine: Engine, file: Path) -> None:
    await engine.probe()
    os.unlink(file)
    with pytest.raises(Unavailable):
        await engine.probe()


async def test_damage_that_a_read_finds_stops_the_writes(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C15: for good; what is sound can be read."""
    async with open_engine(f"sqlite:///{file}") as engine:
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE note (id, body)")))
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE sound (id)")))
    damage(file, "note")
    async with open_engine(f"sqlite:///{file}") as engine:
        await engine.probe()
        for failing in (engine.read(count), engine.write(pragma, "user_version"), engine.probe(), engine.read(count)):
            with pytest.raises(DataLoss) as caught:
                await failing
            assert (caught.value.reason, caught.value.retry_after) == ("DATABASE_DAMAGED", None)
        await engine.read(lambda conn: conn.execute(text("SELECT * FROM sound")).all())
    assert [record.levelname for record in caplog.records if "is damaged" in record.getMessage()] == ["CRITICAL"]


async def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "taken").symlink_to(tmp_path / "nowhere" / "plane.db")
    with pytest.raises(Unavailable):
        async with open_engine(f"sqlite:///{tmp_path}/taken"):
            pass


async def test_a_waiting_write_of_a_cancelled_caller_is_not_executed(engine: Engine) -> None:
    began, go_on = threading.Event(), threading.Event()

    def block(_conn: Connection) -> None:
        began.set()
        go_on.wait()

    blocking = asyncio.create_task(engine.write(block))
    await asyncio.to_thread(began.wait)
    waiting = asyncio.create_task(engine.write(add, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await blocking
    await engine.write(add, 2)
    assert await engine.read(count) == 1


async def test_a_deferred_constraint_refuses_prepared_rows_at_the_commit(engine: Engine) -> None:
    """C15: as for statements of SQLAlchemy; the next transaction works."""
    reply = "CREATE TABLE reply (note INTEGER REFERENCES note DEFERRABLE INITIALLY DEFERRED)"
    await engine.write(lambda conn: conn.execute(text(reply)))
    with pytest.raises(IntegrityError):
        await engine.write(lambda conn: driver_of(conn).execute("INSERT INTO reply VALUES (7)"))
    await engine.write(add, 7)
    await engine.write(lambda conn: driver_of(conn).execute("INSERT INTO reply VALUES (7)"))
    assert await engine.read(count) == 1


async def test_reads_go_on_while_a_write_is_running(engine: Engine) -> None:
    began, go_on = threading.Event(), threading.Event()

    def block(conn: Connection) -> None:
        add(conn, 1)
        began.set()
        go_on.wait()

    blocking = asyncio.create_task(engine.write(block))
    await asyncio.to_thread(began.wait)
    assert await engine.read(count) == 0
    go_on.set()
    await blocking
    assert await engine.read(count) == 1


async def test_closing_finishes_given_transactions_and_merges_the_log(file: Path) -> None:
    async with open_engine(f"sqlite:///{file}") as engine:
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")))
        late = [asyncio.ensure_future(engine.write(add, number)) for number in range(20)]
        await asyncio.sleep(0)
    await asyncio.gather(*late)
    assert not file.with_name(f"{file.name}-wal").exists()
    with contextlib.closing(sqlite3.connect(file)) as conn:
        assert conn.execute("SELECT count(*) FROM note").fetchone() == (20,)


def test_an_old_library_has_a_warning() -> None:
    assert "3.51.2 is older than 3.51.3" in version_warning((3, 51, 2))
    assert version_warning((3, 51, 3)) == ""


async def test_opening_a_database_logs_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Details of the storage are logged at DEBUG, so that the start of a plane stays readable."""
    with caplog.at_level(logging.INFO):
        async with open_engine(f"sqlite:///{file}"):
            pass
    assert caplog.records == []


async def test_repeated_writes_do_not_make_the_log_longer(engine: Engine, file: Path) -> None:
    """SQLite copies the log into the database by itself, about every 1,000 pages."""
    log = file.with_name(f"{file.name}-wal")
    for number in range(40):
        await engine.write(add, number, "x" * 400_000)
    assert 0 < log.stat().st_size < 12_000_000


async def test_a_log_that_became_long_is_cut_by_sqlite_alone(engine: Engine, file: Path) -> None:
    """C2: a log that SQLite has begun anew may become shorter, down to a length; one that it goes on with may not."""
    log = file.with_name(f"{file.name}-wal")
    await engine.write(add, 0, "x" * (LONGEST_KEPT + 4_000_000))
    assert log.stat().st_size > LONGEST_KEPT + 4_000_000
    await engine.write(add, 1)
    assert log.stat().st_size == LONGEST_KEPT
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
        # What it sees keeps the log from being begun anew.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM note").fetchall()
        await engine.write(add, 2, "x" * (LONGEST_KEPT + 4_000_000))
        os.truncate(log, LONGEST_KEPT + 2_000_000)
        with pytest.raises(Unavailable):
            await engine.write(add, 3)


async def test_a_log_truncated_within_a_transaction_acknowledges_nothing(engine: Engine, file: Path) -> None:
    """C2: though what is written then makes it as long again."""
    log = file.with_name(f"{file.name}-wal")

    def lose(conn: Connection) -> None:
        add(conn, 1)
        os.truncate(log, 0)

    await engine.write(add, 0)
    before = log.stat().st_size
    with pytest.raises(Unavailable):
        await engine.write(lose)
    assert log.stat().st_size > before
    with pytest.raises(Unavailable):
        await engine.write(add, 2)
