"""A blocked event loop is not lost; a lost run and a stopped process are, and their later writes are refused."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from tests.support.postgres import Cluster
from tests.system.judge import at_rest, held, judge, logs
from tests.system.plane import BOUND, LEASE_TTL, running
from tests.system.recorder import COMPLETED, Recorder
from tests.system.wire import client, result, send

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.channel import client as wrapped
from taskplane.runtime.channel import connect
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.more

# Seconds; many lease times.
BLOCK = int(os.environ.get("BLOCK", "6"))


@pytest.mark.timeout(120)
async def test_a_blocked_event_loop_is_not_declared_lost(server: Cluster | None, tmp_path: Path) -> None:
    """C8: `block` for several lease times in a one-process plane."""
    async with running("one", tmp_path, server=server) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        began = time.monotonic()
        record = await recorder.follow(f"block {BLOCK}")
        elapsed = time.monotonic() - began
        await plane.stop()
    print(f"blocked for {elapsed:.1f} s with a lease of {LEASE_TTL} s: {record.state}")
    assert elapsed >= BLOCK
    assert record.state == COMPLETED
    assert len({event.fence for log in (await logs(plane)).values() for event in log if event.fence}) == 1


@pytest.mark.parametrize(
    ("text", "attempts", "reason"), [("once", 1, "EXECUTOR_LOST"), ("again", 2, ""), ("always", 3, "POISON")]
)
async def test_a_lost_run_in_a_living_process_is_taken_over(
    text: str, attempts: int, reason: str, server: Cluster | None, tmp_path: Path
) -> None:
    """C8, C9: the run of an agent ends while its process lives; its policy decides about the task."""
    arguments = ("--agent", "tests.system.lossy:Lossy")
    async with running("one", tmp_path, None, *arguments, server=server) as plane, client(plane.url) as http:
        recorder = Recorder(http)
        record = await asyncio.wait_for(recorder.follow(text), BOUND)
        task = await result(http, "GetTask", {"id": record.task_id})
        await at_rest(plane)
        await plane.stop()
    assert record.state == ("TASK_STATE_FAILED" if reason else COMPLETED)
    assert task["status"]["message"]["metadata"].get("reason", "") == reason
    assert recorder.faults() == []
    assert judge(await held(plane), recorder.seen(), ()).findings() == []
    (log,) = (await logs(plane)).values()
    assert max(event.attempt for event in log) == attempts


async def test_a_lease_unknown_to_its_living_process_expires(server: Cluster | None, tmp_path: Path) -> None:
    """C8, C9: a task leased to the executor of a one-process plane without its knowledge."""
    async with (
        running("one", tmp_path, server=server) as plane,
        client(plane.url) as http,
        connect(plane.tasks_target) as channel,
    ):
        recorder = Recorder(http)
        busy = asyncio.create_task(recorder.follow("slow 20"))
        async with asyncio.timeout(20):
            while not (holders := {row["lease_owner"] for row in (await held(plane)).tasks} - {None}):
                await asyncio.sleep(0.02)
        store = rpc.TaskStoreStub(wrapped(channel, identity=Principal("default", "local", "local", service=True)))
        request = pb.CreateTaskRequest(
            invocation_id="lost",
            request_hash=bytes(32),
            task_id="lost",
            context_id="lost",
            agent="demo",
            message=a2a.Message(message_id="m", role=a2a.ROLE_USER, parts=[a2a.Part(text="echo found")]),
            on_orphan=pb.ON_ORPHAN_RERUN,
            max_attempts=3,
            claim_for=holders.pop(),
        )
        created = await store.CreateTask(request)
        assert created.fence == 1
        async with asyncio.timeout(BOUND):
            while (await result(http, "GetTask", {"id": "lost"}))["status"]["state"] != COMPLETED:
                await asyncio.sleep(0.05)
        record = await busy
        await plane.stop()
    assert record.state == COMPLETED
    log = (await logs(plane))[created.record.uid]
    assert {event.fence for event in log} == {1, 3}
    others = [event.fence for uid, log in (await logs(plane)).items() if uid != created.record.uid for event in log]
    assert set(others) == {1}


@pytest.mark.timeout(120)
async def test_a_stopped_executor_is_replaced_and_its_late_writes_are_refused(
    server: Cluster | None, tmp_path: Path
) -> None:
    """C8, C9: SIGSTOP during a write, takeover, SIGCONT; the write arrives and is refused, and the run ends."""
    gate = tmp_path / "gate"
    async with running("four", tmp_path, server=server) as plane, client(plane.url) as http:
        # The run has checked its lease and sends; its fourth write stops there.
        await plane.kill("executor")
        await plane.start("executor", TASKPLANE_FAILPOINTS=f"append.before_send=pause({gate})@4")
        recorder = Recorder(http)
        follower = asyncio.create_task(recorder.follow("rerun 12"))
        async with asyncio.timeout(20):
            while not gate.with_name("gate.reached").exists():
                await asyncio.sleep(0.02)
        plane.send_signal("executor", signal.SIGSTOP)
        plane.commands["second"] = ["serve", "executor"]
        await plane.start("second", wait=False, TASKPLANE_EXECUTOR_LISTEN="127.0.0.1:0")
        (record,) = recorder.records
        before = len(record.generations)
        async with asyncio.timeout(20):
            while len(record.generations) < before + 4:
                await asyncio.sleep(0.02)
        plane.send_signal("executor", signal.SIGCONT)
        gate.touch()
        await plane.logged("executor", "was refused: FENCED")
        await asyncio.wait_for(follower, 20)
        # The process works like any other again.
        recorder.acknowledged.append((await send(http, "echo alive"))["task"]["id"])
        await plane.stop()
    assert record.state == COMPLETED
    verdict = judge(await held(plane), recorder.seen(), recorder.acknowledged)
    assert verdict.findings() == []
    assert recorder.faults() == []
    (log,) = (log for log in (await logs(plane)).values() if len(log) > 6)
    # The first attempt's four writes, the store's event of its loss, and all of the second attempt.
    chunks = [event.attempt for event in log if event.response.HasField("artifact_update")]
    assert chunks == sorted(chunks)
    assert chunks.count(2) == 12
