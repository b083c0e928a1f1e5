"""What only PostgreSQL has: a server that can be gone, stopped or slow, and transactions that lose."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Generator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only
from tests.support.postgres import Cluster, running

from taskplane.runtime.errors import Conflict, Refused, Unavailable
from taskplane.storage.engine import Engine, open_engine


@pytest.fixture
def url(cluster: Cluster) -> Generator[str, None, None]:
    database = cluster.create()
    yield cluster.url(database)
    cluster.drop(database)


@pytest.fixture
async def engine(url: str) -> AsyncGenerator[Engine, None]:
    async with open_engine(url) as engine:
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")))
        yield engine


def add(conn: Connection, number: int) -> None:
    conn.execute(text("INSERT INTO note VALUES (:id, 'x')"), {"id": number})


def count(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT count(*) FROM note")).scalar_one()
    return found


def show(conn: Connection, *names: str) -> list[str]:
    return [conn.execute(text(f"SHOW {name}")).scalar_one() for name in names]


_SETTINGS = ("transaction_isolation", "transaction_read_only", "statement_timeout")


async def test_transactions_have_the_isolation_and_limits_they_promise(engine: Engine) -> None:
    """C15: no statement runs longer than 5 s, no idle transaction longer than 10 s."""
    assert await engine.write(show, *_SETTINGS) == ["read committed", "off", "5s"]
    assert await engine.read(show, *_SETTINGS) == ["repeatable read", "on", "5s"]
    assert await engine.write(show, "idle_in_transaction_session_timeout", "synchronous_commit") == ["10s", "on"]


async def test_a_server_that_acknowledges_before_it_syncs_is_refused(url: str, cluster: Cluster) -> None:
    """C2: synchronous_commit is read back; only relaxed durability takes a weaker one."""
    cluster.sql(f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    with pytest.raises(Refused, match="synchronous_commit = off") as refused:
        async with open_engine(url):
            pass
    assert "relaxed" in refused.value.suggestion
    async with open_engine(url, durability="relaxed") as engine:
        assert await engine.write(show, "synchronous_commit") == ["off"]


async def test_a_backend_that_dies_under_a_write_is_unavailable_and_the_next_write_goes_on(engine: Engine) -> None:
    """C15: the transaction is tried again on new connections, at most three times, then given up."""
    runs = 0

    def suicide(conn: Connection) -> None:
        nonlocal runs
        runs += 1
        add(conn, 1)
        conn.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(Unavailable):
        await engine.write(suicide)
    assert runs == 4
    await engine.write(add, 2)
    assert await engine.read(count) == 1


async def test_connections_that_died_while_idle_are_noticed_by_nobody(
    engine: Engine, cluster: Cluster, url: str
) -> None:
    await asyncio.gather(*(engine.read(count) for _ in range(8)), *(engine.write(count) for _ in range(4)))
    killed = cluster.sql(
        f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{url.rpartition('/')[2]}'"
    )
    assert int(killed) > 2
    await engine.write(add, 1)
    assert await engine.read(count) == 1


async def test_a_stopped_server_is_unavailable_at_once_and_is_used_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C15: no hidden long retries; and nothing has to be restarted."""
    with running() as own:
        async with open_engine(own.url(own.create())) as engine:
            await engine.write(lambda conn: conn.execute(text("CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")))
            await asyncio.to_thread(own.stop, "immediate")
            begun = time.monotonic()
            with pytest.raises(Unavailable):
                await engine.write(add, 1)
            with pytest.raises(Unavailable):
                await engine.read(count)
            with pytest.raises(Unavailable):
                await engine.probe()
            assert time.monotonic() - begun < 20
            await asyncio.to_thread(own.start)
            await engine.probe()
            await engine.write(add, 1)
            assert await engine.read(count) == 1


async def test_a_server_that_never_answers_is_unavailable_after_two_seconds() -> None:
    """C15: connecting takes at most 2 s."""

    tries = 0

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        with contextlib.closing(writer):
            await closing.wait()

    closing = asyncio.Event()
    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            async with open_engine(f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/x"):
                pass
        assert tries == 1 and 1.5 < time.monotonic() - begun < 20
        closing.set()


async def test_a_statement_that_takes_too_long_is_unavailable(engine: Engine) -> None:
    def slow(conn: Connection) -> None:
        conn.execute(text("SET LOCAL statement_timeout = '50ms'"))
        conn.execute(text("SELECT pg_sleep(30)"))

    with pytest.raises(Unavailable):
        await engine.write(slow)
    await engine.write(add, 1)


async def test_a_transaction_after_a_conflict_is_run_again_at_most_three_times(engine: Engine) -> None:
    """C15: serialization failures (40001) and deadlocks (40P01)."""
    runs = 0

    def lose(conn: Connection, times: int) -> int:
        nonlocal runs
        runs += 1
        add(conn, times + runs)
        if runs <= times:
            conn.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))
        return runs

    assert await engine.write(lose, 3) == 4
    assert await engine.read(count) == 1
    runs = 0
    with pytest.raises(Conflict):
        await engine.write(lose, 99)
    assert runs == 4


async def test_two_transactions_in_a_deadlock_both_succeed(engine: Engine) -> None:
    await engine.write(add, 1)
    await engine.write(add, 2)
    both = asyncio.Barrier(2)
    met = False

    async def meet() -> None:
        nonlocal met
        if not met:
            await both.wait()
            met = True

    def update(conn: Connection, first: int, second: int) -> None:
        conn.execute(text("UPDATE note SET body = body || 'y' WHERE id = :id"), {"id": first})
        await_only(meet())
        conn.execute(text("UPDATE note SET body = body || 'y' WHERE id = :id"), {"id": second})

    await asyncio.gather(engine.write(update, 1, 2), engine.write(update, 2, 1))
    assert await engine.read(lambda c: c.execute(text("SELECT body FROM note")).scalars().all()) == ["xyy", "xyy"]


async def test_a_read_of_a_cancelled_caller_also_ends_on_the_server(engine: Engine, cluster: Cluster, url: str) -> None:
    running_now = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'"
        f" AND datname = '{url.rpartition('/')[2]}'"
    )
    reading = asyncio.create_task(engine.read(lambda conn: conn.execute(text("SELECT pg_sleep(60)"))))
    await until(cluster, running_now, "1")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await until(cluster, running_now, "0")


async def until(cluster: Cluster, query: str, wanted: str) -> None:
    """Waits until the server answers `query` so; it tells nobody when its activity changes."""
    async with asyncio.timeout(60):
        while await asyncio.to_thread(cluster.sql, query) != wanted:
            await asyncio.sleep(0.02)


async def test_of_transactions_that_lock_the_same_name_one_continues(
    engine: Engine, cluster: Cluster, url: str
) -> None:
    order: list[str] = []
    held = asyncio.Event()
    go_on = asyncio.Event()

    def hold(conn: Connection) -> None:
        engine.dialect.exclusive(conn, "name")
        held.set()
        await_only(go_on.wait())
        order.append("first")

    def follow(conn: Connection) -> None:
        engine.dialect.exclusive(conn, "name")
        order.append("second")

    async with open_engine(url) as other:
        first = asyncio.create_task(engine.write(hold))
        await held.wait()
        second = asyncio.create_task(other.write(follow))
        await other.write(lambda conn: other.dialect.exclusive(conn, "another name"))
        await until(cluster, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", "1")
        go_on.set()
        await asyncio.gather(first, second)
    assert order == ["first", "second"]


async def test_the_password_is_in_no_log_and_no_repr(
    cluster: Cluster, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "correct-horse"
    with caplog.at_level(logging.DEBUG):
        async with open_engine(url.replace("postgres@", f"postgres:{secret}@"), durability="relaxed") as engine:
            shown = f"{engine!r} {engine.url} {vars(engine)}"
            with pytest.raises(Unavailable) as failure:
                await engine.write(lambda conn: conn.execute(text("SELECT pg_terminate_backend(pg_backend_pid())")))
        with pytest.raises(Unavailable) as unreachable:
            async with open_engine(f"postgresql://me:{secret}@127.0.0.1:1/db"):
                pass
    assert secret not in f"{shown} {caplog.text} {failure.value!r} {unreachable.value!r}"
    assert "***" in engine.url
