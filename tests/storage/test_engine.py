"""What both engines promise to store functions."""

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from taskplane.runtime.errors import Internal, Invalid, PlaneError, Unavailable
from taskplane.storage.engine import Engine, open_engine, shown


@pytest.fixture
async def engine(dsn: str) -> AsyncGenerator[Engine, None]:
    async with open_engine(dsn) as engine:
        await engine.write(create)
        yield engine


def create(conn: Connection) -> None:
    conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"))
    conn.execute(
        text("CREATE TABLE reply (note_id INTEGER NOT NULL REFERENCES note (id) DEFERRABLE INITIALLY DEFERRED)")
    )


def add(conn: Connection, number: int, body: str = "x") -> int:
    conn.execute(text("INSERT INTO note VALUES (:id, :body)"), {"id": number, "body": body})
    return number


def count(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT count(*) FROM note")).scalar_one()
    return found


def count_to(conn: Connection, last: int) -> int:
    """Keeps the database busy in one statement: for minutes, where `last` is large."""
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :last) SELECT max(i) FROM n"
    found: int = conn.execute(text(query), {"last": last}).scalar_one()
    return found


async def test_a_write_is_committed_when_it_returns_and_seen_by_the_next_read(engine: Engine) -> None:
    assert await engine.write(add, 1, body="hello") == 1
    assert await engine.read(count) == 1


async def test_an_exception_of_a_store_function_rolls_back_and_reaches_the_caller(engine: Engine) -> None:
    def half(conn: Connection) -> None:
        add(conn, 1)
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        await engine.write(half)
    assert await engine.read(count) == 0


async def test_a_constraint_refuses_with_integrity_error_and_the_next_write_goes_on(engine: Engine) -> None:
    await engine.write(add, 1)
    with pytest.raises(IntegrityError):
        await engine.write(add, 1)
    await engine.write(add, 2)
    assert await engine.read(count) == 2


async def test_a_deferred_constraint_refuses_at_commit_and_the_next_write_goes_on(engine: Engine) -> None:
    """C15: a COMMIT that fails must leave no transaction open behind it."""

    def dangle(conn: Connection) -> None:
        add(conn, 1)
        conn.execute(text("INSERT INTO reply VALUES (7)"))

    with pytest.raises(IntegrityError):
        await engine.write(dangle)
    assert await engine.read(count) == 0
    await engine.write(add, 2)
    assert await engine.read(count) == 1


async def test_a_statement_the_database_does_not_understand_is_a_fault_of_ours(engine: Engine) -> None:
    with pytest.raises(Internal, match="refused a statement"):
        await engine.write(lambda conn: conn.execute(text("SELEKT 1")))
    with pytest.raises(Internal):
        await engine.read(lambda conn: conn.execute(text("SELECT * FROM nowhere")))


async def test_a_read_sees_one_snapshot_during_commits(engine: Engine) -> None:
    """Reads continue during writes, and a read never sees a part of the commits between its statements."""
    await engine.write(add, 1)
    first = threading.Event()
    loop = asyncio.get_running_loop()
    written: asyncio.Future[None] = loop.create_future()
    here = threading.get_ident()
    heard = threading.Event()

    def twice(conn: Connection) -> tuple[int, int]:
        before = count(conn)
        first.set()
        if threading.get_ident() == here:
            wait_for(conn, written)
        else:
            heard.wait()
        return before, count(conn)

    reading = asyncio.create_task(engine.read(twice))
    await asyncio.to_thread(first.wait)
    await engine.write(add, 2)
    written.set_result(None)
    heard.set()
    assert await reading == (1, 1)
    assert await engine.read(count) == 2


def wait_for(conn: Connection, future: "asyncio.Future[None]") -> None:
    """Waits for `future` inside a store function that is being read."""
    from sqlalchemy.util import await_only

    await_only(asyncio.shield(future))


async def test_a_read_cannot_write(engine: Engine) -> None:
    with pytest.raises(PlaneError):
        await engine.read(add, 1)
    assert await engine.read(count) == 0


async def test_a_read_of_a_cancelled_caller_is_interrupted_and_its_connection_stays_usable(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        started = threading.Event()

        def busy(conn: Connection, started: threading.Event) -> int:
            started.set()
            return count_to(conn, 10**9)

        reading = asyncio.create_task(engine.read(busy, started))
        await asyncio.to_thread(started.wait)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    async with asyncio.timeout(60):
        # More reads than connections: all of them are free again.
        assert await asyncio.gather(*(engine.read(count) for _ in range(12))) == [0] * 12
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_concurrent_writers_lose_nothing(engine: Engine) -> None:
    await engine.write(add, 0)

    def raise_by_one(conn: Connection) -> None:
        lock = " FOR UPDATE" if engine.dialect.name == "postgresql" else ""
        body = conn.execute(text(f"SELECT body FROM note WHERE id = 0{lock}")).scalar_one()
        following = 1 if body == "x" else int(body) + 1
        conn.execute(text("UPDATE note SET body = :body WHERE id = 0"), {"body": str(following)})

    await asyncio.gather(*(engine.write(raise_by_one) for _ in range(40)))
    assert await engine.read(lambda conn: conn.execute(text("SELECT body FROM note")).scalar_one()) == "40"


async def test_probe_returns_true(engine: Engine) -> None:
    await engine.probe()


async def test_a_closed_engine_refuses(dsn: str) -> None:
    async with open_engine(dsn) as engine:
        pass
    with pytest.raises(Unavailable, match="closing"):
        await engine.write(create)
    with pytest.raises(Unavailable, match="closing"):
        await engine.read(count)


async def test_durability_relaxed_is_logged_at_each_start(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    """C2: an operator whose plane may lose commits must know it."""
    for _ in range(2):
        caplog.clear()
        async with open_engine(dsn, durability="relaxed"):
            assert "durability is relaxed" in caplog.text


@pytest.mark.parametrize(
    ("url", "why"),
    [("mysql://u:secret@host/db", "is not supported"), ("sqlite://", "must be a file"), ("nonsense", "parsed")],
)
async def test_a_url_of_no_engine_is_refused_without_repeating_it(url: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        async with open_engine(url):
            pass
    assert "secret" not in str(refused.value)
    assert "sqlite:///" in str(refused.value.suggestion)


def test_a_shown_url_has_no_password() -> None:
    assert shown("postgresql://me:s3cret@host/db") == "postgresql://me:***@host/db"
    assert "s3cret" not in shown("postgresql://host/db?user=me&password=s3cret&sslpassword=s3cret")
    assert shown("postgresql://me:s3cret@[::1/db") == "a malformed URL"
