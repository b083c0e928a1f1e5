"""Workers in Python and in Node that start and stop, with a plane that only serves the card of their agent."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
from tests.system.plane import Plane
from tests.system.wire import result, until
from tests.worker.plane import KINDS, working
from tests.worker.turns import begins_slowly, begun, ends, is_canceled, state

from taskplane.cli.exits import UNAUTHORIZED

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.parametrize("kind", KINDS)]


async def test_c14_a_draining_worker_finishes_its_run_and_takes_no_new_task(
    kind: str, plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """C14: after SIGTERM the process exits with 0. A later message waits for another worker."""
    async with working(kind, plane, tmp_path / "first") as first:
        task = await begins_slowly(http, 4)
        first.process.send_signal(signal.SIGTERM)
        await first.logged("draining")
        later = await begun(http, "hi")
        assert await first.process.wait() == 0
    assert await state(http, task) == "TASK_STATE_COMPLETED"
    assert await state(http, later) == "TASK_STATE_SUBMITTED"
    async with working(kind, plane, tmp_path / "second"):
        assert (await ends(http, later))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_c14_a_worker_releases_a_run_that_exceeds_the_drain_timeout(
    kind: str, plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """C14: the task is released at once; with `rerun` it continues in another worker."""
    async with working(kind, plane, tmp_path / "first", drain_timeout=0.1) as first:
        task = await begins_slowly(http, 1000)
        async with working(kind, plane, tmp_path / "second") as second:
            assert await first.end() == 0
            assert "released" in first.log

            async def taken() -> bool:
                return bool((await result(http, "GetTask", {"id": task["id"]})).get("artifacts"))

            await until(taken)
            await is_canceled(http, task)
            assert second.process.returncode is None


async def test_s2_a_worker_without_the_secret_gets_no_task(
    kind: str, plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S2, C8: the calls of the worker are refused. A worker in Python exits with the setting to change, and never
    becomes ready."""
    refused = "refuses this worker" if kind == "python" else "not signed with the secret of this service"
    async with working(kind, plane, tmp_path / "guessing", ready=refused, secret="guessed") as guessing:
        task = await begun(http, "hi")
        if kind == "python":
            async with asyncio.timeout(30):
                assert await guessing.process.wait() == UNAUTHORIZED
            assert "set TASKPLANE_WORKER_INTERNAL_SECRET" in guessing.log and "worker ready" not in guessing.log
        assert await state(http, task) == "TASK_STATE_SUBMITTED"
        async with working(kind, plane, tmp_path / "knowing"):
            assert (await ends(http, task))["status"]["state"] == "TASK_STATE_COMPLETED"
