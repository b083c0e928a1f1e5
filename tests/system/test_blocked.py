"""Processes with an event loop that an agent blocks: SIGTERM ends them all the same, and so does a limit."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.system.plane import Plane, running
from tests.system.wire import client, send
from tests.worker.plane import serving_card, working

from taskplane.runtime.guard import EXIT_STUCK

pytestmark = pytest.mark.more

SOON = {
    "TASKPLANE_EXECUTOR_DRAIN_TIMEOUT": "0.1",
    "TASKPLANE_EXECUTOR_CANCEL_GRACE": "0.1",
    "TASKPLANE_EXECUTOR_BLOCKED_AFTER": "0.1",
    "TASKPLANE_TASKS_DRAIN_TIMEOUT": "0.1",
}
OF_WORKER = {
    "TASKPLANE_WORKER_ALLOW_CRASH": "true",
    "TASKPLANE_WORKER_CANCEL_GRACE": "0.1",
    "TASKPLANE_WORKER_BLOCKED_AFTER": "0.1",
}
NOTICED = "has blocked the event loop"


@asynccontextmanager
async def blocking(plane: Plane) -> AsyncGenerator[None]:
    """Has the demo agent block its process for longer than the test takes. The answer may not come before that."""
    async with client(plane.url) as http:
        sending = asyncio.create_task(send(http, "block 600"))
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize(("mode", "name"), [("one", "dev"), ("four", "executor")])
async def test_a_process_that_an_agent_blocks_ends_after_sigterm(tmp_path: Path, mode: str, name: str) -> None:
    """C14: at its deadline, with code 3."""
    async with running(mode, tmp_path, SOON) as plane, blocking(plane):
        await plane.logged(name, NOTICED)
        assert await plane.terminate(name) == EXIT_STUCK
        assert "drain timeout" in plane.log(name)


async def test_a_worker_that_an_agent_blocks_ends_after_sigterm(tmp_path: Path) -> None:
    """C14: with the same code."""
    async with (
        serving_card(tmp_path) as plane,
        working("python", plane, tmp_path / "worker.log", drain_timeout=0.1, **OF_WORKER) as worker,
        blocking(plane),
    ):
        await worker.logged(NOTICED)
        assert await worker.end() == EXIT_STUCK


async def test_a_process_that_an_agent_blocks_beyond_the_limit_ends(tmp_path: Path) -> None:
    """P9: so that a supervisor starts another one; the log names the limit."""
    async with running("four", tmp_path, SOON | {"TASKPLANE_EXECUTOR_BLOCKED_LIMIT": "0.5"}) as plane, blocking(plane):
        assert await plane.death("executor") == EXIT_STUCK
        assert "BLOCKED_LIMIT" in plane.log("executor")
