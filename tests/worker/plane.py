"""A plane that serves the card of an agent without running its tasks, and workers in separate processes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.node import MISSING, WORKER
from tests.support.node import NODE as NODE_PROGRAM
from tests.support.processes import Process, start
from tests.system.plane import FAST, Plane, running

SECRET = "between ourselves"
AGENT = "far"
RENEW_EVERY = FAST["TASKPLANE_EXECUTOR_RENEW_EVERY"]
# The kinds of workers.
NODE = pytest.param("node", marks=pytest.mark.skipif(bool(MISSING), reason=MISSING))
KINDS = ["python", NODE]
CARD = {
    "name": "Far",
    "description": "Runs elsewhere.",
    "version": "1",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "talk", "name": "Talk", "description": "Talks.", "tags": ["talk"]}],
}


@asynccontextmanager
async def serving_card(data: Path) -> AsyncGenerator[Plane]:
    """A `taskplane dev` with an internal secret and a default agent that runs in workers."""
    card = data / "card.json"
    card.write_text(json.dumps(CARD))
    settings = {
        "TASKPLANE_TASKS_INTERNAL_SECRET": SECRET,
        "TASKPLANE_EXECUTOR_WORKER_ON_ORPHAN": "rerun",
    }
    async with running("one", data, settings, "--agent", f"{AGENT}=worker:{card}") as plane:
        yield plane


class Working:
    """A started worker, and its log."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """The whole log of the worker."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def logged(self, text: str, timeout: float = 30.0) -> None:
        """Waits until the log has this text."""
        async with asyncio.timeout(timeout):
            while text not in self.log:
                assert self.process.returncode is None, self.log[-4000:]
                await asyncio.sleep(0.02)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal, and returns the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def working(
    kind: str,
    plane: Plane,
    log: Path,
    *,
    ready: str = "worker ready",
    secret: str = SECRET,
    drain_timeout: float = 15.0,
    **settings: str,
) -> AsyncGenerator[Working]:
    """A worker that has logged `ready`, `python` with the demo agent or `node`; killed at the end of the block.
    `settings` are further variables."""
    start_one = _start_in_node if kind == "node" else _start_in_python
    worker = Working(await start_one(plane, log, secret, str(drain_timeout), settings), log)
    try:
        await worker.logged(ready)
        yield worker
    finally:
        await worker.end(signal.SIGKILL)


async def _start_in_node(
    plane: Plane, log: Path, secret: str, drain_timeout: str, settings: Mapping[str, str]
) -> Process:
    environment = os.environ | {
        "NAME": AGENT,
        "TASKS": plane.tasks_target,
        "SESSIONS": plane.sessions_target,
        "INTERNAL_SECRET": secret,
        "RENEW_EVERY": RENEW_EVERY,
        "DRAIN_TIMEOUT": drain_timeout,
        **settings,
    }
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            NODE_PROGRAM,
            str(WORKER / "main.mjs"),
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


async def _start_in_python(
    plane: Plane, log: Path, secret: str, drain_timeout: str, settings: Mapping[str, str]
) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")} | {
        "TASKPLANE_WORKER_INTERNAL_SECRET": secret,
        "TASKPLANE_WORKER_RENEW_EVERY": RENEW_EVERY,
        "TASKPLANE_WORKER_DRAIN_TIMEOUT": drain_timeout,
        "TASKPLANE_WORKER_OPS_LISTEN": "",
        **settings,
    }
    stores = ("--tasks", plane.tasks_target, "--sessions", plane.sessions_target)
    return await start(["worker", "--agent", f"{AGENT}=demo", *stores], environment, log)
