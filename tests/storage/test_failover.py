"""PostgreSQL takes no writes for a while, or another server takes them: connections follow."""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import Connection, text
from tests.support.cutting import cutting
from tests.support.ports import refusing_port
from tests.support.postgres import CannotRun, Cluster, running

from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.storage.driver_errors import Fate, fate_of, spoils_connection
from taskplane.storage.engine import Engine, make_bell, open_engine, shown
from taskplane.storage.urls import hosts_of, parse


@pytest.fixture
def server() -> Generator[Cluster]:
    """A server that belongs to one test. Where it cannot run: skipped, but under CI=true an error."""
    try:
        with running(copied=True) as server:
            yield server
    except CannotRun as reason:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise
        pytest.skip(str(reason))


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Engine]:
    """An engine whose connections are all in use once."""
    async with open_engine(url) as engine:
        await engine.write(lambda conn: conn.execute(text("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY)")))
        await asyncio.gather(*(engine.read(count) for _ in range(8)), *(engine.write(count) for _ in range(8)))
        yield engine


def add(conn: Connection, number: int) -> None:
    conn.execute(text("INSERT INTO note VALUES (:id)"), {"id": number})


def count(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT count(*) FROM note")).scalar_one()
    return found


def port(conn: Connection) -> int:
    found: int = conn.execute(text("SELECT inet_server_port()")).scalar_one()
    return found


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        ("40001", Fate.RUN_AGAIN),
        ("40P01", Fate.RUN_AGAIN),
        ("25006", Fate.READ_ONLY),
        *((state, Fate.GONE) for state in ("08000", "08003", "08006", "08007", "57P01", "57P02", "57P03", "57P04")),
        *((state, Fate.GONE) for state in ("57P05", "25P03", "25P04")),
        *((state, Fate.UNAVAILABLE) for state in ("53100", "53300", "57014", "58030", "55P03", "28P01", "3D000")),
        *((state, Fate.REFUSED) for state in ("23505", "42601", "25P02", "25001", "22021", "")),
    ],
)
def test_each_answer_of_a_server_has_one_fate(state: str, fate: Fate) -> None:
    """C15."""
    assert fate_of(state) is fate
    error = Exception()
    error.sqlstate = state  # type: ignore[attr-defined]
    assert spoils_connection(error) is (fate in (Fate.READ_ONLY, Fate.GONE))


def test_a_connection_that_did_not_answer_in_time_is_dropped() -> None:
    """C15."""
    assert spoils_connection(TimeoutError()) and spoils_connection(ConnectionResetError())
    assert not spoils_connection(ValueError())


@pytest.mark.more
@pytest.mark.parametrize("scope", ["SYSTEM", "DATABASE"])
async def test_writes_work_again_after_a_time_without_writes(server: Cluster, scope: str) -> None:
    """C15: read-only by a setting of the server, which its connections learn at once; or of the database, which new
    connections begin with."""
    name = server.create()
    target = "SYSTEM" if scope == "SYSTEM" else f"DATABASE {name}"

    def switch(value: str) -> None:
        server.sql(f"ALTER {target} SET default_transaction_read_only = {value}")
        server.sql("SELECT pg_reload_conf()")
        if scope == "DATABASE":
            server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    async with opened(server.url(name)) as engine:
        await asyncio.to_thread(switch, "on")
        # A server tells its connections soon, not at once.
        with suppress(Unavailable):
            async with asyncio.timeout(20):
                while True:
                    await engine.probe()
        with pytest.raises(Unavailable) as refused:
            await engine.write(add, 1)
        assert refused.value.reason == "DATABASE_READ_ONLY"
        with pytest.raises(Unavailable) as refused:
            await engine.probe()
        assert refused.value.reason == "DATABASE_READ_ONLY"
        # It can still be read.
        assert await engine.read(count) == 0
        await asyncio.to_thread(switch, "off")
        await engine.probe()
        await asyncio.gather(*(engine.write(add, number) for number in range(8)))
        assert await engine.read(count) == 8


@pytest.mark.more
async def test_reads_and_the_bell_follow_the_writes_to_another_server(server: Cluster) -> None:
    """C15, C2: the server of before is left though it lives and answers, and a standby is not read."""
    name = server.create()
    heard = asyncio.Event()
    async with cutting("127.0.0.1", server.port) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}"
        async with opened(url) as engine:
            bell = make_bell(engine, url, "notes", lambda _: heard.set(), notifications=True)
            ringing = asyncio.create_task(bell.run())
            await heard.wait()
            with server.standby() as other:
                await wait_for_copy(server)
                proxy.aim("127.0.0.1", other.port)
                # New connections meet a standby, those of before a server that takes no writes any more.
                await asyncio.to_thread(server.configure, default_transaction_read_only="on")
                numbers = itertools.count()
                # Connections read the configuration again a moment later.
                async with asyncio.timeout(20):
                    with pytest.raises(Unavailable) as refused:
                        while True:
                            await engine.write(add, next(numbers))
                assert refused.value.reason == "DATABASE_READ_ONLY"
                with pytest.raises(Unavailable):
                    await engine.read(port)
                heard.clear()
                await asyncio.to_thread(other.promote)
                await asyncio.to_thread(other.configure, default_transaction_read_only="off")
                await engine.probe()
                await engine.write(add, next(numbers))
                assert {await engine.read(port) for _ in range(8)} == {other.port}
                async with asyncio.timeout(20):
                    await heard.wait()
                listening = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'taskplane bell%'"
                assert await asyncio.to_thread(other.sql, listening) == "1"
            ringing.cancel()
            await asyncio.gather(ringing, return_exceptions=True)


@pytest.mark.more
async def test_the_host_that_accepts_writes_is_used(server: Cluster) -> None:
    """C15: the first host is lost, or a standby. The shown URL has its hosts and not its password."""
    name = server.create()
    with refusing_port() as nobody, server.standby() as standby:
        await wait_for_copy(server)
        hosts = f"127.0.0.1:{nobody},127.0.0.1:{standby.port},127.0.0.1:{server.port}"
        url = f"postgresql://postgres:secret@{hosts}/{name}"
        assert shown(url) == f"postgresql://postgres:***@{hosts}/{name}"
        async with opened(url) as engine:
            assert await engine.write(port) == await engine.read(port) == server.port
            server.configure(synchronous_standby_names="ANY 1 (*)")
            await engine.write(add, 1)
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            await asyncio.to_thread(standby.configure, synchronous_standby_names="")
            await engine.probe()
            assert (await engine.write(port), await engine.read(count)) == (standby.port, 1)


def test_hosts_are_read_from_a_url() -> None:
    assert hosts_of("postgresql://u:p,@x@h1:1,h2,[::1]:3/db?x=a,b") == [("h1", 1), ("h2", 5432), ("::1", 3)]
    assert hosts_of("sqlite:///a,b.db") == hosts_of("postgresql:///db") == []
    assert parse("postgresql://u:p@h1:1,h2:2/db").database == "db"
    with pytest.raises(Invalid):
        parse("postgresql://u:p@h1:x,h2:2/db")


async def wait_for_copy(server: Cluster) -> None:
    """Waits until a standby streams."""
    async with asyncio.timeout(60):
        while (
            await asyncio.to_thread(server.sql, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
            != "1"
        ):
            await asyncio.sleep(0.02)
