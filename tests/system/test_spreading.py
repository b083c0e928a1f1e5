"""Two executors, task stores and session histories, by any kind of address: all get calls, and a process that leaves
loses none."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import httpx
import pytest
from tests.support.databases import take
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH
from tests.system.plane import STEADY
from tests.system.replicas import ROOMS, Form, Replicas, replicas
from tests.system.wire import client, send

pytestmark = pytest.mark.more

thorough = pytest.mark.skipif(not THOROUGH, reason="takes half a minute for each kind of address")

SENDERS = 8
SENDS = 100
# Calls of each send; each is a line in the log of a replica.
CALLS = {
    "executor": "AgentExecutor/Submit",
    "tasks": "TaskStore/CreateTask",
    "sessions": "SessionHistory/AppendEntries",
}
# Seconds until a replica that is started later has its share; through a balancer two connections end before.
LATER = {"list": 15.0, "name": 15.0, "balancer": 22.0}


@asynccontextmanager
async def two_of_each(form: Form, cluster: Cluster, data: Path) -> AsyncGenerator[Replicas]:
    """A plane in which only the first replica of each service runs."""
    debug = {f"TASKPLANE_{room.upper()}_LOG_LEVEL": "DEBUG" for room in ROOMS}
    url = cluster.url(await take(cluster))
    async with replicas(form, data, url, {**STEADY, **debug}, *ROOMS) as made:
        yield made


class Load:
    """Blocking sends, one after the other from each sender; a failed one fails the test."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._stopped = asyncio.Event()
        self.done = 0

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
            self.done += 1

    async def more(self, sends: int) -> None:
        """Waits for so many more sends."""
        enough = self.done + sends
        async with asyncio.timeout(60):
            while self.done < enough:
                await asyncio.sleep(0.02)


class Shares:
    """Counts the calls of each send per replica."""

    def __init__(self, made: Replicas, load: Load) -> None:
        self._folder = made.plane.data
        self._load = load

    async def next(self, sends: int) -> dict[str, Counter[str]]:
        """The shares of the next sends, by service."""
        before = {room: self._calls(room) for room in ROOMS}
        await self._load.more(sends)
        return {room: self._calls(room) - before[room] for room in ROOMS}

    def _calls(self, room: str) -> Counter[str]:
        found = Counter[str]()
        for name in (room, f"{room}2"):
            log = self._folder / f"{name}.log"
            if log.exists():
                found[name] = log.read_text(errors="replace").count(f'{CALLS[room]}","code":"OK"')
        return found

    async def all_used(self, form: Form) -> float:
        """Waits until both replicas of each service have had calls; returns the seconds. Through a balancer only the
        executors count: stores have several clients, and the balancer may give their connections to any replica."""
        begun = monotonic()
        rooms = ("executor",) if form == "balancer" else ROOMS
        while any(len(+self._calls(room)) < 2 for room in rooms):
            assert monotonic() - begun < LATER[form]
            await self._load.more(1)
        return monotonic() - begun


@asynccontextmanager
async def under_load(http: httpx.AsyncClient) -> AsyncGenerator[Load]:
    """Sends during the body, and answers all of them at its end."""
    load = Load(http)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        yield load
        load.stop()


@pytest.mark.parametrize(
    "form", ["list", pytest.param("name", marks=thorough), pytest.param("balancer", marks=thorough)]
)
async def test_replicas_started_later_get_their_share(cluster: Cluster, tmp_path: Path, form: Form) -> None:
    """C14: of a hundred sends both executors, both task stores and both session histories have many."""
    async with (
        two_of_each(form, cluster, tmp_path) as made,
        client(made.plane.url) as http,
        under_load(http) as load,
    ):
        shares = Shares(made, load)
        assert all(len(+found) == 1 for found in (await shares.next(SENDERS)).values())
        await made.add(*ROOMS)
        seconds = await shares.all_used(form)
        print(f"shares: {form}, all used after {seconds:.1f} s")
        if form == "balancer":
            # Each client has one connection.
            return
        found = await shares.next(SENDS)
        print("shares:", found)
        assert all(min(share.values()) >= SENDS / 5 for share in found.values()), found


@thorough
@pytest.mark.parametrize("form", ["list", "name", "balancer"])
async def test_a_replica_ended_by_sigterm_loses_no_send(cluster: Cluster, tmp_path: Path, form: Form) -> None:
    """C14: one of two executors, task stores and session histories, each under load."""
    async with (
        two_of_each(form, cluster, tmp_path) as made,
        client(made.plane.url) as http,
        under_load(http) as load,
    ):
        shares = Shares(made, load)
        await made.add(*ROOMS)
        await shares.all_used(form)
        for room in ("executor", "tasks", "sessions"):
            assert await made.plane.terminate(room) == 0
            found = (await shares.next(2 * SENDERS))[room]
            assert len(+found) == 1, found
