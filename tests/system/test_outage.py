"""PostgreSQL is unavailable for longer than a lease: nothing wrong is acknowledged, no run is lost, streams stay
open."""

import asyncio
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.support.postgres import CannotRun, Cluster
from tests.support.postgres import running as running_cluster
from tests.system.judge import held, judge
from tests.system.plane import BOUND, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client

pytestmark = pytest.mark.more

# Seconds; several lease times.
OUTAGE = 5.0


@pytest.fixture
def server() -> Generator[Cluster]:
    """A server that syncs to disk and belongs to one test. If it cannot run, the test is skipped; with CI=true it
    fails."""
    try:
        with running_cluster(fsync=True) as server:
            yield server
    except CannotRun as reason:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise
        pytest.skip(str(reason))


@pytest.mark.timeout(180)
async def test_an_outage_of_the_database_loses_no_run_and_no_acknowledged_send(server: Cluster, tmp_path: Path) -> None:
    """C15, C2, C8: the server crashes in mid-stream and comes back after 5 lease times."""
    async with running("one", tmp_path, server=server) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        async with asyncio.TaskGroup() as group:
            async with recorder.load():
                texts = ("slow 16", "rerun 16", "slow 30")
                followers = [group.create_task(recorder.follow(text)) for text in texts]
                async with asyncio.timeout(20):
                    while len(recorder.records) < 3 or min(len(each.generations) for each in recorder.records) < 4:
                        await asyncio.sleep(0.02)
                group.create_task(recorder.converse())
                await asyncio.to_thread(server.stop, "immediate")
                acknowledged = len(recorder.acknowledged)
                # The others may all be waiting for earlier tasks.
                group.create_task(recorder.send("echo too early"))
                # Each of three may still get one committed answer; nothing else may come.
                await asyncio.sleep(OUTAGE)
                assert len(recorder.acknowledged) <= acknowledged + 3
                before = len(recorder.acknowledged)
                await asyncio.to_thread(server.start)
                await plane.ready()
                async with asyncio.timeout(30):
                    while len(recorder.acknowledged) < before + 5:
                        await asyncio.sleep(0.02)
            async with asyncio.timeout(30):
                await asyncio.gather(*followers)
        async with asyncio.timeout(BOUND):
            while judge(await held(plane), {}, ()).findings():
                await asyncio.sleep(0.1)
        await plane.stop()
    found = await held(plane)
    verdict = judge(found, recorder.seen(), recorder.acknowledged)
    print(
        f"{verdict}, {len(recorder.acknowledged)} acknowledged, {before} before the server was back,"
        f" refused {dict(recorder.refusals)}, reconnects {[record.reconnects for record in recorder.records]}"
    )
    assert verdict.findings() == []
    assert recorder.faults() == []
    assert {record.state for record in recorder.records} == {COMPLETED}
    assert [record.reconnects for record in recorder.records] == [0, 0, 0]
    # No run was taken over: every task of these clients ran under one lease.
    uids = {row["id"]: row["uid"] for row in found.tasks}
    for record in recorder.records:
        assert {event.fence for event in found.logs[uids[record.task_id]] if event.fence} == {1}
    assert sum(recorder.refusals.values()) > 0
