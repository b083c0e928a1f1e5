"""A blocked event loop is no death; a stopped process is; what it writes afterwards is refused."""

import asyncio
import signal
import time
from pathlib import Path

import pytest
from tests.system.judge import judge, logs
from tests.system.plane import running
from tests.system.recorder import Recorder
from tests.system.wire import client, send

BLOCK = 6


@pytest.mark.timeout(120)
async def test_a_blocked_event_loop_is_not_declared_lost(tmp_path: Path) -> None:
    """C8: `block` for several lease times in a one-process plane."""
    async with running("one", tmp_path) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        began = time.monotonic()
        record = await recorder.follow(f"block {BLOCK}")
        assert time.monotonic() - began >= BLOCK
        assert record.state == "TASK_STATE_COMPLETED"
        await plane.stop()
    assert len({event.fence for log in logs(plane.tasks_db).values() for event in log if event.fence}) == 1


@pytest.mark.timeout(120)
async def test_a_stopped_executor_is_replaced_and_its_late_writes_are_refused(tmp_path: Path) -> None:
    """C8, C9: SIGSTOP, takeover by another executor, SIGCONT."""
    async with running("four", tmp_path) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        follower = asyncio.create_task(recorder.follow("rerun 12"))
        async with asyncio.timeout(20):
            while not (recorder.records and len(recorder.records[0].generations) > 5):
                await asyncio.sleep(0.02)
        plane.send_signal("executor", signal.SIGSTOP)
        plane.environment = plane.environment | {"TASKPLANE_EXECUTOR_LISTEN": "127.0.0.1:0"}
        plane.commands["second"] = ["serve", "executor"]
        await plane.start("second", wait=False)
        record = await asyncio.wait_for(follower, 40)
        plane.send_signal("executor", signal.SIGCONT)
        await send(http, "echo alive")
        await asyncio.sleep(1.5)
        await plane.stop()
    assert record.state == "TASK_STATE_COMPLETED"
    assert record.faults == []
    verdict = judge(plane.tasks_db, plane.sessions_db, recorder.seen(), ())
    assert [line for line in verdict.findings() if not line.startswith("uncopied")] == []
