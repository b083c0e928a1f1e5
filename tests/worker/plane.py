"""A plane that serves the card of an agent and runs none of its tasks, and workers in processes of their own."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.node import NODE, WORKER
from tests.support.processes import Process, start
from tests.system.plane import FAST, Plane, running

SECRET = "between ourselves"
AGENT = "far"
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
    """A `taskplane dev` with an internal secret whose default agent is run by workers."""
    card = data / "card.json"
    card.write_text(json.dumps(CARD))
    settings = {
        "TASKPLANE_TASKS_INTERNAL_SECRET": SECRET,
        "TASKPLANE_EXECUTOR_WORKER_ON_ORPHAN": "rerun",
    }
    async with running("one", data, settings, "--agent", f"{AGENT}=worker:{card}") as plane:
        yield plane


class Working:
    """A worker that was started, and its log."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        """All that it said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def said(self, text: str, timeout: float = 30.0) -> None:
        """Waits until it has said this."""
        async with asyncio.timeout(timeout):
            while text not in self.log:
                assert self.process.returncode is None, self.log[-4000:]
                await asyncio.sleep(0.02)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal; the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def node_worker(plane: Plane, log: Path, **settings: str) -> AsyncGenerator[Working]:
    """A worker in Node that has said it is ready; killed when this is left."""
    environment = os.environ | {
        "NAME": AGENT,
        "TASKS": plane.tasks_target,
        "SESSIONS": plane.sessions_target,
        "INTERNAL_SECRET": SECRET,
        "RENEW_EVERY": FAST["TASKPLANE_EXECUTOR_RENEW_EVERY"],
        **settings,
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            NODE, str(WORKER / "main.mjs"), env=environment, stdout=output, stderr=output, start_new_session=True
        )
    working = Working(process, log)
    try:
        await working.said("worker ready")
        yield working
    finally:
        await working.end(signal.SIGKILL)


@asynccontextmanager
async def python_worker(
    plane: Plane, log: Path, *, ready: str = "worker ready", secret: str = SECRET, **settings: str
) -> AsyncGenerator[Working]:
    """A `taskplane worker` of the demo agent that has said it is `ready`; killed when this is left."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")} | {
        "TASKPLANE_WORKER_INTERNAL_SECRET": secret,
        "TASKPLANE_WORKER_RENEW_EVERY": FAST["TASKPLANE_EXECUTOR_RENEW_EVERY"],
        "TASKPLANE_WORKER_OPS_LISTEN": "127.0.0.1:0",
        **settings,
    }
    command = ["worker", "--agent", f"{AGENT}=demo", "--tasks", plane.tasks_target]
    process = await start([*command, "--sessions", plane.sessions_target], environment, log)
    working = Working(process, log)
    try:
        await working.said(ready)
        yield working
    finally:
        await working.end(signal.SIGKILL)
