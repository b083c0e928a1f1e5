"""A plane of processes with one executor that serves an agent of every kind, and workers in separate processes."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.scenarios.agent_remote import URL
from tests.scenarios.script import GATES
from tests.support.node import MISSING, NODE
from tests.support.ports import free_port
from tests.support.processes import Process, start
from tests.system.plane import Plane, four_processes
from tests.system.wire import client, until

# The result of a task of each agent after its process is lost. Each kind of agent is served without a policy, which is
# to fail unless its adapter decides otherwise, and with a policy under which its tasks run again.
KINDS: Final = ("port", "function", "blocking-function", "pydantic-ai", "adk", "langgraph", "a2a-sdk")
ON_ORPHAN: Final = {
    **dict.fromkeys(KINDS, "fail"),
    **{f"{kind}-again": "rerun" for kind in KINDS},
    "remote": "resume",
    "remote-again": "rerun",
    # By the setting of the executor that serves their cards.
    "worker": "rerun",
    "node": "rerun",
}
WORKERS: Final = ("worker", "node")
AGENTS: Final = tuple(agent for agent in ON_ORPHAN if not agent.endswith("-again"))


@dataclass
class Served:
    """The plane, and the running workers, by the names of their agents."""

    plane: Plane
    folder: Path
    # Where the executor and the worker in Python have their figures.
    operators: Mapping[str, str]
    workers: dict[str, Process] = field(default_factory=dict[str, Process])
    logs: dict[str, Path] = field(default_factory=dict[str, Path])

    async def start_workers(self) -> None:
        """Starts the workers that can run here, and waits until they are ready."""
        for name in WORKERS:
            if not (name == "node" and MISSING):
                await self._start_worker(name)

    async def kill_workers(self) -> None:
        for process in self.workers.values():
            if process.returncode is None:
                process.send_signal(9)
            await process.wait()

    async def stopped(self, agent: str, task_id: str) -> None:
        """Returns once the process of an agent has no run of the agent any more; in Node, of that task."""
        address = self.operators["worker" if agent == "worker" else "executor"]
        async with client(f"http://{address}") as operator:

            async def idle() -> bool:
                if agent == "node":
                    return f"task {task_id} was stopped" in _text(self.logs[agent])
                return f'taskplane_runs{{agent="{agent}"}} 0.0' in (await operator.get("/metrics")).text

            await until(idle)

    async def _start_worker(self, name: str) -> None:
        log = self.folder / f"{name}-{len(list(self.folder.glob(f'{name}-*.log')))}.log"
        process = self.workers[name] = await (self._node(log) if name == "node" else self._python(log))
        self.logs[name] = log

        async def ready() -> bool:
            assert process.returncode is None, _text(log)
            return "worker ready" in _text(log)

        await until(ready, 30)

    async def _python(self, log: Path) -> Process:
        settings = {"TASKPLANE_WORKER_OPS_LISTEN": self.operators["worker"], "TASKPLANE_WORKER_RENEW_EVERY": "0.3"}
        stores = ("--tasks", self.plane.tasks_target, "--sessions", self.plane.sessions_target)
        command = ["worker", "--agent", "worker=tests.scenarios.agent_port:agent", *stores]
        return await start(command, self.plane.environment | settings, log)

    async def _node(self, log: Path) -> Process:
        program = Path(__file__).with_name("agent_node.mjs")
        stores = (self.plane.tasks_target, self.plane.sessions_target)
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                NODE, str(program), os.environ[GATES], *stores, "node", stdout=output, stderr=output
            )


def _text(log: Path) -> str:
    return log.read_text() if log.exists() else ""


@asynccontextmanager
async def serving(folder: Path, remote: str) -> AsyncGenerator[Served]:
    """All agents served and ready, those of another server by its URL; killed at the end of the block."""
    card = folder / "card.json"
    card.write_text(json.dumps({"name": "Elsewhere"}))
    modules = [
        f"{kind}{suffix}=tests.scenarios.agent_{kind.replace('-', '_')}:{attribute}"
        for kind in KINDS
        for suffix, attribute in (("", "agent"), ("-again", "again"))
    ]
    others = [f"remote={remote}", "remote-again=tests.scenarios.agent_remote:again"]
    agents = [*modules, *others, *(f"{name}=worker:{card}" for name in WORKERS)]
    operators = {name: f"127.0.0.1:{free_port()}" for name in ("executor", "worker")}
    settings = {
        "TASKPLANE_EXECUTOR_OPS_LISTEN": operators["executor"],
        "TASKPLANE_EXECUTOR_AGENTS": ",".join(agents),
        "TASKPLANE_EXECUTOR_WORKER_ON_ORPHAN": "rerun",
        # A process that the machine does not come to for a while is not lost.
        "TASKPLANE_TASKS_LEASE_TTL": "5.0",
        URL: remote,
    }
    plane = four_processes(folder, settings)
    served = Served(plane, folder, operators)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(served.kill_workers)
        stack.push_async_callback(plane.stop)
        await plane.start()
        await served.start_workers()
        yield served
