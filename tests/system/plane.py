"""A whole plane in processes of its own, which tests start, kill and start again."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from tests.conftest import ENGINES
from tests.support.databases import SESSIONS, TASKS, take
from tests.support.ports import free_port
from tests.support.postgres import Cluster
from tests.support.processes import Process, start

# Short leases and sweeps: seconds in production are tenths here.
FAST: Mapping[str, str] = {
    "TASKPLANE_TASKS_LEASE_TTL": "1.0",
    "TASKPLANE_TASKS_RENEW_EVERY": "0.3",
    "TASKPLANE_TASKS_SWEEP_EVERY": "0.2",
    "TASKPLANE_TASKS_POLL_EVERY": "0.2",
    "TASKPLANE_EXECUTOR_RENEW_EVERY": "0.3",
    "TASKPLANE_EXECUTOR_UNCOPIED_EVERY": "0.5",
    "TASKPLANE_EXECUTOR_ALLOW_CRASH": "true",
    "TASKPLANE_TASKS_OPS_LISTEN": "127.0.0.1:0",
    "TASKPLANE_SESSIONS_OPS_LISTEN": "127.0.0.1:0",
    "TASKPLANE_EXECUTOR_OPS_LISTEN": "127.0.0.1:0",
}
LEASE_TTL = 1.0
# Seconds until a plane is at rest after a loss (C9): twice the time of a busy machine.
BOUND = LEASE_TTL + 5.0
# For planes in which no lease may expire: a process that the machine delays for a while is not lost.
STEADY: Mapping[str, str] = {"TASKPLANE_TASKS_LEASE_TTL": "30.0"}

# For modules with tests of the fixture `plane`: all of them run on SQLite and then on PostgreSQL.
on_both_engines = pytest.mark.parametrize("plane", ENGINES, indirect=True, scope="module")


# The exit code of a process that ends at a failpoint.
CODE = 9


@dataclass
class Plane:
    """The processes of one plane, by name: `dev`, or `tasks`, `sessions`, `executor` and `gateway`.

    `tasks_url` and `sessions_url` name the databases of the stores, `data` has the logs. `afresh` as in `processes`.
    """

    data: Path
    commands: dict[str, list[str]]
    environment: dict[str, str]
    url: str
    tasks_target: str
    sessions_target: str
    executor_target: str
    tasks_url: str
    sessions_url: str
    afresh: bool = False
    processes: dict[str, Process] = field(default_factory=dict[str, Process])

    async def start(self, *names: str, wait: bool = True, **extra: str) -> None:
        """Starts the named processes (all by default), with more settings, and waits until the plane is ready."""
        for name in names or tuple(self.commands):
            self.processes[name] = await start(
                self.commands[name], self.environment | extra, self.data / f"{name}.log", afresh=self.afresh
            )
        if wait:
            await self.ready()

    async def ready(self, timeout: float = 30.0) -> None:
        """Returns once the gateway reports itself and all services as ready."""
        # Certificates take long to load, and plain HTTP has no use for them.
        async with httpx.AsyncClient(verify=False) as client, asyncio.timeout(timeout):
            while True:
                for name, process in self.processes.items():
                    if process.returncode is not None:
                        raise AssertionError(f"{name} ended with {process.returncode}:\n{self.log(name)}")
                try:
                    answer = await client.get(f"{self.url}/readyz")
                    if answer.status_code == 200 and not answer.json()["degraded"]:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.02)

    def log(self, name: str) -> str:
        """The last lines that a process wrote."""
        return (self.data / f"{name}.log").read_text(errors="replace")[-4000:]

    async def kill(self, name: str) -> None:
        """SIGKILL; the process has ended when this returns."""
        process = self.processes[name]
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()

    async def arm(self, name: str, place: str, nth: int = 1) -> None:
        """Kills a process and starts it again, to end with `CODE` at the `nth` passage of a failpoint.

        Renewals pass by themselves: if the process ends before the plane is ready, it is started once more.
        """
        while True:
            await self.kill(name)
            await self.start(name, wait=False, TASKPLANE_FAILPOINTS=f"{place}=exit({CODE})@{nth}")
            try:
                return await self.ready()
            except AssertionError:
                if self.processes[name].returncode != CODE:
                    raise

    async def terminate(self, name: str) -> int:
        """SIGTERM; the exit code."""
        process = self.processes[name]
        process.send_signal(signal.SIGTERM)
        return await process.wait()

    def send_signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    async def death(self, name: str, timeout: float = 30.0) -> int:
        """Waits until a process has ended by itself; its exit code."""
        async with asyncio.timeout(timeout):
            return await self.processes[name].wait()

    async def logged(self, name: str, text: str, timeout: float = 10.0) -> None:
        """Waits until a process has written `text` to its log."""
        async with asyncio.timeout(timeout):
            log = self.data / f"{name}.log"
            # A process opens its log at its start.
            while not log.exists() or text not in log.read_text(errors="replace"):
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        for name in self.processes:
            await self.kill(name)

    @property
    def tasks_db(self) -> Path:
        return self.data / "tasks.db"

    @property
    def sessions_db(self) -> Path:
        return self.data / "sessions.db"


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")}
    return kept | dict(FAST) | dict(extra)


def _files(data: Path) -> tuple[str, str]:
    return f"sqlite:///{data}/tasks.db", f"sqlite:///{data}/sessions.db"


def one_process(data: Path, extra: Mapping[str, str], *arguments: str) -> Plane:
    """`taskplane dev` on SQLite files in `data`, unless the arguments name another database."""
    port, grpc_port = free_port(), free_port()
    command = ["dev", "--port", str(port), "--grpc-port", str(grpc_port), *arguments]
    tasks_url, sessions_url = _files(data)
    if "--database-url" in arguments:
        tasks_url = sessions_url = arguments[arguments.index("--database-url") + 1]
    else:
        command += ["--data", str(data)]
    target = f"127.0.0.1:{grpc_port}"
    url = f"http://127.0.0.1:{port}"
    return Plane(data, {"dev": command}, _environment(extra), url, target, target, target, tasks_url, sessions_url)


def four_processes(data: Path, extra: Mapping[str, str]) -> Plane:
    """Each service on its own, on SQLite files in `data` unless the settings name another database."""
    tasks_url, sessions_url = _files(data)
    tasks, sessions, executor, gateway = (free_port() for _ in range(4))
    environment = {
        "TASKPLANE_TASKS_LISTEN": f"127.0.0.1:{tasks}",
        "TASKPLANE_TASKS_DATABASE_URL": tasks_url,
        "TASKPLANE_SESSIONS_LISTEN": f"127.0.0.1:{sessions}",
        "TASKPLANE_SESSIONS_DATABASE_URL": sessions_url,
        "TASKPLANE_EXECUTOR_LISTEN": f"127.0.0.1:{executor}",
        "TASKPLANE_EXECUTOR_TASKS": f"127.0.0.1:{tasks}",
        "TASKPLANE_EXECUTOR_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_PORT": str(gateway),
        "TASKPLANE_GATEWAY_GRPC_PORT": "0",
        "TASKPLANE_GATEWAY_TASKS": f"127.0.0.1:{tasks}",
        "TASKPLANE_GATEWAY_SESSIONS": f"127.0.0.1:{sessions}",
        "TASKPLANE_GATEWAY_EXECUTOR": f"127.0.0.1:{executor}",
    }
    commands = {name: ["serve", name] for name in ("tasks", "sessions", "executor", "gateway")}
    values = environment | dict(extra)
    return Plane(
        data,
        commands,
        _environment(values),
        f"http://127.0.0.1:{gateway}",
        f"127.0.0.1:{tasks}",
        f"127.0.0.1:{sessions}",
        f"127.0.0.1:{executor}",
        values["TASKPLANE_TASKS_DATABASE_URL"],
        values["TASKPLANE_SESSIONS_DATABASE_URL"],
    )


@asynccontextmanager
async def running(
    mode: str,
    data: Path,
    extra: Mapping[str, str] | None = None,
    *arguments: str,
    server: Cluster | None = None,
    afresh: bool = False,
) -> AsyncGenerator[Plane]:
    """A plane of `mode` (`one` or `four`), ready; processes that still run at the end are killed. `arguments` are given
    to `taskplane dev`. With a `server` it is on fresh databases there with their schemas, else on SQLite files."""
    settings = dict(extra or {})
    if mode == "one":
        if server is not None:
            arguments = (*arguments, "--database-url", server.url(await take(server)))
        plane = one_process(data, settings, *arguments)
    else:
        if server is not None:
            for store, package in (("TASKS", TASKS), ("SESSIONS", SESSIONS)):
                settings[f"TASKPLANE_{store}_DATABASE_URL"] = server.url(await take(server, package))
        plane = four_processes(data, settings)
    plane.afresh = afresh
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()
