"""A standby of PostgreSQL is promoted under load, or a database refuses writes for a while: the plane recovers."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.support.cutting import CuttingProxy, cutting
from tests.support.postgres import CannotRun, Cluster
from tests.support.postgres import running as running_cluster
from tests.support.thorough import THOROUGH
from tests.system.judge import at_rest, held, judge
from tests.system.plane import Plane, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client

pytestmark = pytest.mark.more


@pytest.fixture
def server() -> Generator[Cluster]:
    """A server that syncs to disk, for one test. If it cannot run, the test is skipped; with CI=true it fails."""
    try:
        with running_cluster(fsync=True, copied=True) as server:
            yield server
    except CannotRun as reason:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise
        pytest.skip(str(reason))


@asynccontextmanager
async def behind(proxy: CuttingProxy, server: Cluster, folder: Path) -> AsyncGenerator[Plane]:
    """A plane of four processes with a proxy in front of its databases."""
    urls = {
        f"TASKPLANE_{store}_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{proxy.port}/{server.create()}"
        for store in ("TASKS", "SESSIONS")
    }
    async with running("four", folder, urls) as plane:
        yield plane


async def until_unready(plane: Plane) -> httpx.Response:
    """Waits until the plane is not ready; returns that answer."""
    async with httpx.AsyncClient(verify=False) as http, asyncio.timeout(30):
        while (answer := await http.get(f"{plane.url}/readyz")).status_code == 200:
            await asyncio.sleep(0.05)
        return answer


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "ends",
    [
        "stops",
        "is cut off",
        # The old primary lives on, so a commit there waits seven seconds for its standby.
        pytest.param("lives on", marks=pytest.mark.skipif(not THOROUGH, reason="it takes half a minute")),
    ],
)
async def test_a_standby_promoted_under_load_has_all_acknowledged_data(
    server: Cluster, tmp_path: Path, ends: str
) -> None:
    """C2, C8, C15: with synchronous replication, without a restart of the plane.

    The old primary stops, loses its connections, or runs on with its old connections.
    """
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(cutting("127.0.0.1", server.port))
        plane = await stack.enter_async_context(behind(proxy, server, tmp_path))
        http = await stack.enter_async_context(client(plane.url))
        standby = stack.enter_context(server.standby())
        async with asyncio.timeout(60):
            while await asyncio.to_thread(server.sql, "SELECT count(*) FROM pg_stat_replication") != "1":
                await asyncio.sleep(0.05)
        await asyncio.to_thread(server.configure, synchronous_standby_names="ANY 1 (*)")
        recorder = Recorder(http)
        async with asyncio.TaskGroup() as group:
            async with recorder.load(senders=4):
                followers = [group.create_task(recorder.follow(text)) for text in ("slow 24", "rerun 24")]
                async with asyncio.timeout(30):
                    while (
                        len(recorder.acknowledged) < 20
                        or min((len(each.generations) for each in recorder.records), default=0) < 3
                    ):
                        await asyncio.sleep(0.02)
                if ends == "stops":
                    await asyncio.to_thread(server.stop, "immediate")
                await asyncio.to_thread(standby.promote)
                proxy.aim("127.0.0.1", standby.port)
                if ends == "is cut off":
                    proxy.cut()
                promoted = time.monotonic()
                await asyncio.to_thread(standby.configure, synchronous_standby_names="")
                before = len(recorder.acknowledged)
                async with asyncio.timeout(60):
                    while len(recorder.acknowledged) < before + 8:
                        await asyncio.sleep(0.01)
                recovered = time.monotonic() - promoted
            async with asyncio.timeout(60):
                await asyncio.gather(*followers)
        await plane.ready()
        await at_rest(plane, 30)
        verdict = judge(await held(plane), recorder.seen(), recorder.acknowledged)
        print(
            f"primary {ends}: recovered {recovered:.1f} s after the promotion, {verdict},"
            f" {len(recorder.acknowledged)} acknowledged, refused {dict(recorder.refusals)}"
        )
        await plane.stop()
    assert verdict.findings() == []
    assert recorder.faults() == []
    assert recorder.records[1].state == COMPLETED


@pytest.mark.timeout(180)
@pytest.mark.parametrize("scope", ["SYSTEM", "DATABASE"])
async def test_a_plane_with_a_read_only_database_is_not_ready_until_writes_work(
    server: Cluster, tmp_path: Path, scope: str
) -> None:
    """C15, C8: `/readyz` names the database. Afterwards sends work, leases are renewed and runs continue, without a
    restart."""
    async with running("four", tmp_path, server=server) as plane, client(plane.url) as http:
        names = [url.rpartition("/")[2] for url in (plane.tasks_url, plane.sessions_url)]

        def switch(value: str) -> None:
            for target in ["SYSTEM"] if scope == "SYSTEM" else [f"DATABASE {name}" for name in names]:
                server.sql(f"ALTER {target} SET default_transaction_read_only = {value}")
            server.sql("SELECT pg_reload_conf()")
            if scope == "DATABASE":
                server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres'")

        recorder = Recorder(http)
        async with asyncio.TaskGroup() as group:
            async with recorder.load():
                follower = group.create_task(recorder.follow("slow 24"))
                async with asyncio.timeout(20):
                    while not recorder.records[:1] or len(recorder.records[0].generations) < 3:
                        await asyncio.sleep(0.02)
                await asyncio.to_thread(switch, "on")
                answer = await until_unready(plane)
                assert answer.status_code == 503
                assert set(answer.json()["why"].values()) == {
                    "DATABASE_READ_ONLY: the database is read-only at the moment"
                }, answer.text
                await asyncio.to_thread(switch, "off")
                await plane.ready()
                before = len(recorder.acknowledged)
                async with asyncio.timeout(30):
                    while len(recorder.acknowledged) < before + 8:
                        await asyncio.sleep(0.01)
            async with asyncio.timeout(30):
                await follower
        await at_rest(plane)
        verdict = judge(await held(plane), recorder.seen(), recorder.acknowledged)
        print(f"{scope}: {verdict}, refused {dict(recorder.refusals)}")
        await plane.stop()
    assert verdict.findings() == []
    assert recorder.faults() == []
    assert recorder.records[0].state == COMPLETED
