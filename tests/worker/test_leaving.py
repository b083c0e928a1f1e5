"""Workers that come and go, behind a plane that only serves the card of their agent."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
from tests.system.plane import Plane
from tests.system.wire import raw_log, result, text_message, until
from tests.worker import scenarios
from tests.worker.plane import SECRET, python_worker

from taskplane.cli.exits import UNAUTHORIZED

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_c9_a_worker_that_is_killed_is_followed_by_another(
    plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """C9: by `worker_on_orphan` its task runs again, and is one task with one artifact."""
    async with python_worker(plane, tmp_path / "first") as first:
        task = await scenarios.begins_slowly(http, 12)
        async with python_worker(plane, tmp_path / "second"):
            await first.end(signal.SIGKILL)
            done = await scenarios.ends(http, task)
    scenarios.has_its_artifact(done, 12)
    log = await raw_log(http, task["id"])
    assert max(event["attempt"] for event in log) == 2
    assert len({event["actor"] for event in log if event["actor"].startswith("worker:")}) == 2


async def test_c14_a_worker_that_drains_finishes_what_it_can(
    plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """C14: SIGTERM lets a run finish, and the process ends well; what is sent meanwhile waits for another worker."""
    async with python_worker(plane, tmp_path / "first") as first:
        task = await scenarios.begins_slowly(http, 4)
        first.process.send_signal(signal.SIGTERM)
        await first.said("draining")
        params = {"message": text_message("hi"), "configuration": {"returnImmediately": True}}
        later = (await result(http, "SendMessage", params))["task"]
        assert await first.process.wait() == 0
    done = await result(http, "GetTask", {"id": task["id"]})
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await result(http, "GetTask", {"id": later["id"]}))["status"]["state"] == "TASK_STATE_SUBMITTED"
    async with python_worker(plane, tmp_path / "second"):
        assert (await scenarios.ends(http, later))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_c14_a_worker_that_must_leave_releases_its_tasks(
    plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """C14: what does not end within `drain_timeout` is given back at once, and goes on in another worker."""
    async with python_worker(plane, tmp_path / "first", TASKPLANE_WORKER_DRAIN_TIMEOUT="0.1") as first:
        task = await scenarios.begins_slowly(http, 1000)
        async with python_worker(plane, tmp_path / "second") as second:
            assert await first.end() == 0

            async def taken() -> bool:
                request = {"id": task["id"]}
                found = await result(http, "GetTask", request)
                return "released" in first.log and bool(found.get("artifacts"))

            await until(taken)
            await scenarios.is_canceled(http, task)
            assert second.process.returncode is None


async def test_s2_a_worker_without_the_secret_gets_nothing(
    plane: Plane, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    """S2, C8: the queue takes nobody for a service who does not know the secret; it says so and ends, and is never
    ready."""
    async with python_worker(plane, tmp_path / "guessing", ready="does not take", secret="guessed") as guessing:
        params = {"message": text_message("hi"), "configuration": {"returnImmediately": True}}
        task = (await result(http, "SendMessage", params))["task"]
        async with asyncio.timeout(30):
            assert await guessing.process.wait() == UNAUTHORIZED
        assert "set TASKPLANE_WORKER_INTERNAL_SECRET" in guessing.log and "worker ready" not in guessing.log
        assert (await result(http, "GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_SUBMITTED"
        async with python_worker(plane, tmp_path / "knowing", secret=SECRET):
            assert (await scenarios.ends(http, task))["status"]["state"] == "TASK_STATE_COMPLETED"
