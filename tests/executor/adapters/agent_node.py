"""The scenarios with an agent in Node, in the worker of `docs/examples/node-worker`, over real gRPC."""

import asyncio
from pathlib import Path

import pytest
from tests.executor.adapters.elsewhere import working
from tests.executor.adapters.scenarios import Adapter, Gate
from tests.support.node import MISSING, NODE
from tests.support.processes import Process


async def begin(names: list[str], address: str, gate: Gate, log: Path) -> Process:
    """A worker of these agents."""
    if MISSING:
        pytest.skip(MISSING)
    program = Path(__file__).with_suffix(".mjs")
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            NODE, str(program), str(gate.path), address, *names, stdout=output, stderr=output, start_new_session=True
        )


ADAPTER = Adapter("node", working(begin))
