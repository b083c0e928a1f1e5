"""SIGTERM under load: processes exit 0 in time, streams end between two events, and clients lose nothing."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.support.postgres import Cluster
from tests.system.judge import at_rest, held, judge
from tests.system.plane import BOUND, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client

pytestmark = pytest.mark.more

# Seconds that runs may take to finish. Some of them need longer.
DRAIN = 1.0
# Seconds. A process restarts faster than this, even on a busy machine.
LEASE = 4.0
SETTINGS = {
    "TASKPLANE_TASKS_LEASE_TTL": str(LEASE),
    "TASKPLANE_EXECUTOR_DRAIN_TIMEOUT": str(DRAIN),
    "TASKPLANE_EXECUTOR_CANCEL_GRACE": "1.0",
    "TASKPLANE_GATEWAY_DRAIN_DELAY": "0.3",
}
# Seconds until a process must have ended. Its watchdog would end the process later, with another exit code.
DEADLINE = 6.0


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("mode", "targets"), [("one", ("dev",)), ("four", ("gateway", "executor", "sessions", "tasks"))]
)
async def test_a_drain_under_load_ends_in_time_and_loses_nothing(
    mode: str, targets: tuple[str, ...], server: Cluster | None, tmp_path: Path
) -> None:
    """C14: one process after another; exit 0, `retry:` at an event boundary, resumed streams, every task at rest.

    On SQLite each process is a new interpreter, not a fork of the test's copy server, so it ends as in production.
    """
    async with (
        running(mode, tmp_path, SETTINGS, server=server, afresh=server is None) as plane,
        client(plane.url) as http,
    ):
        for target in targets:
            recorder = Recorder(http)
            async with asyncio.TaskGroup() as group:
                async with recorder.load():
                    followers = [
                        group.create_task(recorder.follow(text)) for text in ("slow 16", "rerun 16", "flood 300")
                    ]
                    async with asyncio.timeout(20):
                        while len(recorder.records) < 3 or min(len(each.generations) for each in recorder.records) < 4:
                            await asyncio.sleep(0.02)
                    group.create_task(recorder.converse())
                    began = time.monotonic()
                    code = await plane.terminate(target)
                    elapsed = time.monotonic() - began
                    await plane.start(target)
                async with asyncio.timeout(20):
                    await asyncio.gather(*followers)
            await at_rest(plane, LEASE + BOUND)
            verdict = judge(await held(plane), recorder.seen(), recorder.acknowledged)
            retries = [record.retries for record in recorder.records]
            print(
                f"{mode}/{target}: exit {code} after {elapsed:.1f} s, {verdict}, {len(recorder.acknowledged)}"
                f" acknowledged, retry {retries}, refused {dict(recorder.refusals)}"
            )
            assert code == 0
            assert elapsed < DEADLINE
            assert verdict.findings() == []
            assert recorder.faults() == []
            states = {record.text: record.state for record in recorder.records}
            assert states["rerun 16"] == COMPLETED
            if target in ("dev", "gateway"):
                assert retries[1], "the stream of a task that went on was not ended with `retry:`"
            if target in ("gateway", "sessions", "tasks"):
                assert set(states.values()) == {COMPLETED}
        await plane.stop()
