"""Processes are killed in mid-stream; what clients saw stays, every task comes to rest, streams go on with their id.

The number of kills per case is KILLS in the environment (2 by default, so that the suite stays short).
"""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest
from tests.system.judge import judge, logs
from tests.system.plane import LEASE_TTL, running
from tests.system.recorder import Recorder
from tests.system.wire import client, result, send

KILLS = int(os.environ.get("KILLS", "2"))
CASES = [("one", "dev"), ("four", "tasks"), ("four", "executor"), ("four", "gateway"), ("four", "sessions")]


@pytest.mark.timeout(120 + 30 * KILLS)
@pytest.mark.parametrize(("mode", "target"), CASES)
async def test_a_kill_in_mid_stream_loses_nothing(mode: str, target: str, tmp_path: Path) -> None:
    """C1, C2, C5, C6, C8, C9, P12: after SIGKILL nothing seen is lost, no gap, nothing stuck, nothing uncopied."""
    rng = random.Random(f"{mode}-{target}")
    acknowledged: list[str] = []
    counted = 0
    async with running(mode, tmp_path) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        while counted < KILLS:
            acknowledged.append((await send(http, f"echo round {counted}"))["task"]["id"])
            texts = ["slow 8", "rerun 8", "slow 30", "flood 400"]
            followers = [asyncio.create_task(recorder.follow(text)) for text in texts]
            await asyncio.sleep(rng.uniform(0.1, 1.2))
            counts = recorder.grew_within(0.2)
            await plane.kill(target)
            await plane.start(target)
            ready = time.monotonic()
            counted += counts
            async with asyncio.timeout(LEASE_TTL + 5.0 + 9.0):
                await asyncio.gather(*followers)
            print(f"{mode}/{target} kill {counted}: at rest {time.monotonic() - ready:.1f} s after the restart")
        async with asyncio.timeout(LEASE_TTL + 5.0):
            while uncopied := judge(plane.tasks_db, plane.sessions_db, {}, ()).uncopied:
                await asyncio.sleep(0.1)
        await plane.stop()
    verdict = judge(plane.tasks_db, plane.sessions_db, recorder.seen(), acknowledged)
    assert not uncopied
    assert verdict.findings() == []
    assert [fault for record in recorder.records for fault in record.faults] == []
    assert sum(record.resyncs for record in recorder.records) == 0
    assert all(r.state == "TASK_STATE_COMPLETED" for r in recorder.records if r.text.startswith("rerun"))
    print(f"{mode}/{target}: {counted} kills, {verdict.tasks} tasks, {verdict.events} events, 0 findings")


async def test_a_rerun_is_completed_by_its_second_attempt(tmp_path: Path) -> None:
    """C9: `rerun 20` killed in the middle."""
    async with running("four", tmp_path) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        follower = asyncio.create_task(recorder.follow("rerun 20"))
        async with asyncio.timeout(20):
            while not (recorder.records and len(recorder.records[0].generations) > 6):
                await asyncio.sleep(0.02)
        await plane.kill("executor")
        await plane.start("executor")
        record = await asyncio.wait_for(follower, 30)
        task = await result(http, "GetTask", {"id": record.task_id})
        await plane.stop()
    assert record.state == "TASK_STATE_COMPLETED"
    assert record.faults == []
    assert len(task["artifacts"]) == 1
    events = next(iter(logs(plane.tasks_db).values()))
    assert len({event.fence for event in events if event.fence}) >= 2
