"""Processes are killed in mid-stream: shown events stay, every task comes to rest, and streams continue with their last
id. KILLS in the environment is the number of kills per case (by default 1, so that the suite stays short), and
FAULT_SEED the seed of the random moments."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest
from tests.support.postgres import Cluster
from tests.system.judge import at_rest, held, judge, logs
from tests.system.plane import BOUND, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client, result, send

pytestmark = pytest.mark.more

KILLS = int(os.environ.get("KILLS", "1"))
CASES = [("one", "dev"), ("four", "tasks"), ("four", "executor"), ("four", "gateway"), ("four", "sessions")]
LONGEST_RUN = 7.5


@pytest.mark.timeout(120 + 30 * KILLS)
@pytest.mark.parametrize(("mode", "target"), CASES)
async def test_a_kill_in_mid_stream_loses_nothing(
    mode: str, target: str, server: Cluster | None, tmp_path: Path
) -> None:
    """C1, C2, C5, C6, C8, C9, P12, W4: after SIGKILL no shown or acknowledged event is lost, without gaps, and no task
    is stuck."""
    seed = int(os.environ.get("FAULT_SEED", random.randrange(2**32)))
    rng = random.Random(seed)
    print(f"{mode}/{target}: seed {seed}")
    # A turn that was sent just before the kill may begin after it.
    bound = BOUND + LONGEST_RUN
    kills = counted = 0
    wanted = KILLS if server is None or KILLS > 2 else 1
    async with running(mode, tmp_path, server=server) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        while counted < wanted:
            # A restarted plane serves at once after it reports ready.
            first = (await send(http, "echo first"))["task"]
            assert first["status"]["state"] == COMPLETED, first["status"]
            recorder.acknowledged.append(first["id"])
            texts = ["slow 8", "rerun 8", "slow 30", "flood 400"]
            async with asyncio.TaskGroup() as group:
                async with recorder.load(senders=1):
                    clients = [group.create_task(recorder.follow(text)) for text in texts]
                    await asyncio.sleep(rng.uniform(0.1, 1.2))
                    group.create_task(recorder.converse())
                    await asyncio.sleep(rng.uniform(0.0, 0.1))
                    kills += 1
                    counted += recorder.grew_within(0.2)
                    await plane.kill(target)
                    await plane.start(target)
                ready = time.monotonic()
                async with asyncio.timeout(bound):
                    await asyncio.gather(*clients)
            print(f"{mode}/{target} kill {kills}: at rest {time.monotonic() - ready:.1f} s after the restart")
        await at_rest(plane)
        await plane.stop()
    verdict = judge(await held(plane), recorder.seen(), recorder.acknowledged)
    reconnects = sum(record.reconnects for record in recorder.records)
    print(
        f"{mode}/{target}: {counted} kills counted of {kills}, {verdict}, {len(recorder.acknowledged)} acknowledged,"
        f" {reconnects} reconnects, refused {dict(recorder.refusals)}"
    )
    assert verdict.findings() == []
    assert recorder.faults() == []
    assert all(record.state == COMPLETED for record in recorder.records if record.text.startswith("rerun"))


async def test_a_rerun_is_completed_by_its_second_attempt(server: Cluster | None, tmp_path: Path) -> None:
    """C9, W4: `rerun 20` is killed in the middle."""
    async with running("four", tmp_path, server=server) as plane, client(plane.url) as http:
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
    assert record.state == COMPLETED
    assert record.faults == []
    assert len(task["artifacts"]) == 1
    (events,) = (await logs(plane)).values()
    assert len({event.fence for event in events if event.fence}) >= 2
    assert max(event.attempt for event in events) == 2
