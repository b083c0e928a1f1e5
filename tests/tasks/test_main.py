"""The task store as a process of its own."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.tasks.plane import EXECUTOR, creation, eventually

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import Invalid, PlaneError
from taskplane.runtime.settings import load
from taskplane.tasks.settings import PREFIX, TasksSettings


def test_settings_come_from_the_environment_and_are_checked() -> None:
    settings = load(TasksSettings, PREFIX, {"TASKPLANE_TASKS_LEASE_TTL": "1", "TASKPLANE_TASKS_RENEW_EVERY": "0.3"})
    assert (settings.lease_ttl, settings.renew_every, settings.sweep_every) == (1.0, 0.3, 2.0)
    wrong = [
        {"LEASE_TTL": "6"},
        {"POLL_EVERY": "0"},
        {"QUEUE_LIMIT": "-1"},
        {"PAUSE_LIMIT": "nan"},
        {"PAUSE_LIMIT": "1e10"},
    ]
    for environ in ({PREFIX + name: value for name, value in each.items()} for each in wrong):
        with pytest.raises(Invalid) as refused:
            load(TasksSettings, PREFIX, environ)
        assert refused.value.reason == "BAD_SETTING"


async def test_the_process_serves_migrates_and_ends_cleanly_with_a_watch_open(tmp_path: Path) -> None:
    """C14: exit code 0; the next start finds what was committed."""
    address = f"unix:{tmp_path}/socket"
    environ = {
        **os.environ,
        "TASKPLANE_TASKS_DATABASE_URL": f"sqlite:///{tmp_path}/tasks.db",
        "TASKPLANE_TASKS_LISTEN": address,
        "TASKPLANE_TASKS_OPS_LISTEN": "127.0.0.1:0",
    }
    task_id = ""
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "taskplane.tasks", env=environ)
        async with connect(address) as channel:
            store = pb_grpc.TaskStoreStub(client(channel, identity=EXECUTOR))

            async def answers(store: pb_grpc.TaskStoreStub = store) -> bool:
                try:
                    await store.ListTasks(pb.ListTasksRequest())
                except PlaneError:
                    return False
                return True

            await eventually(answers, bool, 60.0)
            task_id = task_id or (await store.CreateTask(creation())).record.id
            stream = aiter(store.WatchTask(pb.WatchTaskRequest(task_id=task_id)))
            assert (await anext(stream)).snapshot.record.id == task_id
            process.send_signal(signal.SIGTERM)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        assert await asyncio.wait_for(process.wait(), 60.0) == 0
