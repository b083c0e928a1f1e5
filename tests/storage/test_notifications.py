"""The bell between processes on PostgreSQL: what one rings the others hear, and a silent one comes back."""

import asyncio
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager

import asyncpg
import pytest
from tests.support.postgres import Cluster

from taskplane.storage.bell import Bell, key_of
from taskplane.storage.engine import make_bell, open_engine
from taskplane.storage.notifications import NotifyingBell

Heard = Set[str] | None
KILL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'taskplane bell plane'"


class Process:
    """A bell that runs, and what it heard, in order."""

    def __init__(self, url: str, name: str = "plane") -> None:
        self.rings: asyncio.Queue[Heard] = asyncio.Queue()
        self.bell = NotifyingBell(url, name, self.hear)

    def hear(self, keys: Heard) -> None:
        self.rings.put_nowait(keys)

    async def heard(self) -> Heard:
        async with asyncio.timeout(30.0):
            return await self.rings.get()


@asynccontextmanager
async def ringing(*processes: Process) -> AsyncGenerator[None, None]:
    """They run beside the body, and have heard that anything may have changed, as each does when it listens."""
    running = [asyncio.create_task(process.bell.run()) for process in processes]
    for process in processes:
        assert await process.heard() is None
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.wait(running)


@pytest.fixture
def url(cluster: Cluster) -> str:
    return cluster.url(cluster.create())


async def test_a_notification_reaches_the_other_processes_only(url: str) -> None:
    one, two, three = Process(url), Process(url), Process(url)
    async with ringing(one, two, three):
        one.bell.ring(["a", "b"])
        assert await two.heard() == await three.heard() == {"a", "b"}
        two.bell.ring(["c"])
        assert await one.heard() == await three.heard() == {"c"}
        assert one.rings.empty() and two.rings.empty()


async def test_keys_during_a_notify_are_sent_in_one_notification(url: str) -> None:
    one, two = Process(url), Process(url)
    async with ringing(one, two):
        for number in range(100):
            one.bell.ring([f"k{number}", "same"])
        assert await two.heard() == {"same", *(f"k{number}" for number in range(100))}
        one.bell.ring(["last"])
        assert await two.heard() == {"last"}


async def test_keys_that_do_not_fit_into_a_payload_notify_of_everything(url: str) -> None:
    """For any number of keys; the next notification has keys again."""
    one, two = Process(url), Process(url)
    async with ringing(one, two):
        for number in range(20_000):
            one.bell.ring([key_of(str(number))])
        assert await two.heard() is None
        one.bell.ring([key_of(str(number)) for number in range(800)])
        assert await two.heard() == {key_of(str(number)) for number in range(800)}


async def test_rooms_and_schemas_have_channels_of_their_own(url: str) -> None:
    """Several planes may share a database."""
    admin = await asyncpg.connect(url)
    await admin.execute("CREATE SCHEMA other")
    await admin.close()
    one, room = Process(url), Process(url, "sessions")
    schema, same = Process(f"{url}?options=-csearch_path%3Dother"), Process(url)
    async with ringing(one, room, schema, same):
        one.bell.ring(["a"])
        assert await same.heard() == {"a"}
        for other in (room, schema):
            other.bell.ring(["b"])
        one.bell.ring(["c"])
        assert await same.heard() == {"c"}
        assert room.rings.empty() and schema.rings.empty() and one.rings.empty()


async def test_a_killed_connection_is_replaced_and_everything_is_notified_then(url: str, cluster: Cluster) -> None:
    """Notifications of others are lost while there is no connection."""
    one, two = Process(url), Process(url)
    database = url.rpartition("/")[2]
    async with ringing(one, two):
        for _ in range(3):
            assert cluster.sql(f"{KILL} AND datname = '{database}'") == "2"
            one.bell.ring(["a"])
            assert await one.heard() is None
            assert await two.heard() is None
            one.bell.ring(["b"])
            keys = await two.heard()
            while keys is not None and "b" not in keys:
                keys = await two.heard()
            assert keys is not None and keys <= {"a", "b"}


async def test_a_bell_waits_for_a_server_that_is_not_there_yet(url: str) -> None:
    """It rings nothing and raises nothing meanwhile; who rings never waits."""
    gone = Process(url.rpartition("/")[0] + "/nowhere")
    running = asyncio.create_task(gone.bell.run())
    gone.bell.ring(["a"])
    await asyncio.wait({running}, timeout=0.3)
    assert not running.done() and gone.rings.empty()
    running.cancel()
    await asyncio.wait({running})


async def test_a_store_on_sqlite_or_without_the_setting_notifies_nobody(dsn: str) -> None:
    async with open_engine(dsn) as engine:
        for notifications in (True, False):
            bell = make_bell(engine, dsn, "plane", lambda _: None, notifications=notifications)
            assert isinstance(bell, NotifyingBell) == (notifications and engine.dialect.name == "postgresql")
        silent = Bell()
        silent.ring(["a"])
        await silent.run()
