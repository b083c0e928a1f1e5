"""The scenarios with an agent of ours that a `taskplane worker` runs in another process, over real gRPC."""

import os
from pathlib import Path

from tests.executor.adapters.agent_port import Ours
from tests.executor.adapters.elsewhere import working
from tests.executor.adapters.scenarios import Adapter, Gate
from tests.support.processes import Process, start


def make() -> Ours:
    """The agent, in the process of the worker."""
    return Ours(Gate(Path(os.environ["GATE"])))


async def begin(names: list[str], address: str, gate: Gate, log: Path) -> Process:
    """A worker of these agents."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")}
    settings = {"TASKPLANE_WORKER_OPS_LISTEN": "", "TASKPLANE_WORKER_RENEW_EVERY": "0.3", "GATE": str(gate.path)}
    agents = [word for name in names for word in ("--agent", f"{name}={__name__}:make")]
    return await start(["worker", *agents, "--tasks", address, "--sessions", address], kept | settings, log)


ADAPTER = Adapter("worker", working(begin))
