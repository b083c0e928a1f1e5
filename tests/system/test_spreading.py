"""Two executors and two task stores behind lists of addresses: all get calls, and one that leaves loses none."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.support.ports import free_port
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, Plane, four_processes
from tests.system.wire import client, send, sse_log

SENDERS = 8
SOME = 40
# One line of this for each task that a store makes.
CREATED = '"method":"/taskplane.api.tasks.v1.TaskStore/CreateTask","code":"OK"'


@asynccontextmanager
async def lists(data: Path, database_url: str) -> AsyncGenerator[Plane]:
    """One of each process, ready, whose addresses name two stores and two executors; `tasks2` and `executor2` are those
    that do not run yet."""
    tasks, executor = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    extra = {f"TASKPLANE_{store}_DATABASE_URL": database_url for store in ("TASKS", "SESSIONS")}
    plane = four_processes(data, {**STEADY, **extra, "TASKPLANE_TASKS_LOG_LEVEL": "DEBUG"})
    both = {
        "TASKPLANE_EXECUTOR_TASKS": f"{plane.tasks_target},{tasks}",
        "TASKPLANE_GATEWAY_TASKS": f"{plane.tasks_target},{tasks}",
        "TASKPLANE_GATEWAY_EXECUTOR": f"{plane.executor_target},{executor}",
    }
    plane.environment = plane.environment | both
    plane.tasks_target, plane.executor_target = tasks, executor
    try:
        await plane.start()
        plane.commands |= {"tasks2": ["serve", "tasks"], "executor2": ["serve", "executor"]}
        yield plane
    finally:
        await plane.stop()


class Load:
    """Blocking sends, one after the other from each sender; a failed one fails the test."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._stopped = asyncio.Event()
        self.tasks: list[str] = []

    async def run(self) -> None:
        """Sends until it is stopped."""
        async with asyncio.TaskGroup() as group:
            for _ in range(SENDERS):
                group.create_task(self._send())

    def stop(self) -> None:
        self._stopped.set()

    async def _send(self) -> None:
        while not self._stopped.is_set():
            task = (await send(self._http, "hello"))["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
            self.tasks.append(task["id"])

    async def more(self) -> list[str]:
        """Waits for some more sends; their tasks."""
        first = len(self.tasks)
        await until(lambda: len(self.tasks) >= first + SOME)
        return self.tasks[first : first + SOME]

    async def executors(self) -> Counter[str]:
        """Which executors ran the next tasks."""
        logs = await asyncio.gather(*(sse_log(self._http, task) for task in await self.more()))
        return Counter(log[-1].data["actor"] for log in logs)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.mark.skipif(not os.environ.get("THOROUGH"), reason="takes half a minute")
async def test_what_is_started_later_gets_its_share_and_what_leaves_loses_no_send(
    cluster: Cluster, tmp_path: Path
) -> None:
    """C14: one of two executors and one of two stores are started and stopped under load."""
    async with lists(tmp_path, cluster.url(cluster.create())) as plane, client(plane.url) as http:
        load = Load(http)

        def created(store: str) -> int:
            return (tmp_path / f"{store}.log").read_text(errors="replace").count(CREATED)

        async def change() -> None:
            assert len(await load.executors()) == 1
            await plane.start("executor2", TASKPLANE_EXECUTOR_LISTEN=plane.executor_target)
            async with asyncio.timeout(60):
                while min((shares := await load.executors()).values()) < SOME / 4 or len(shares) < 2:
                    pass
            await plane.start("tasks2", TASKPLANE_TASKS_LISTEN=plane.tasks_target)
            await until(lambda: created("tasks2") > 0)
            before = {store: created(store) for store in ("tasks", "tasks2")}
            await load.more()
            made = {store: created(store) - before[store] for store in before}
            assert min(made.values()) >= SOME / 4, made
            assert await plane.terminate("executor") == 0
            assert len(await load.executors()) == 1
            assert await plane.terminate("tasks") == 0
            await load.more()
            load.stop()

        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            group.create_task(change())
