"""The HTTP port for operators of several workers on one host."""

import os
import re
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from tests.support.processes import start
from tests.system.plane import Plane
from tests.worker.plane import AGENT, SECRET, Working

from taskplane.worker.settings import WorkerSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")


@contextmanager
def taken(address: str) -> Generator[None]:
    """Listens on an address, unless another process does."""
    host, _, port = address.rpartition(":")
    with socket.socket() as listener:
        with suppress(OSError):
            listener.bind((host, int(port)))
            listener.listen()
        yield


async def _worker(plane: Plane, log: Path, **settings: str) -> Working:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKPLANE_")} | settings
    stores = ("--tasks", plane.tasks_target, "--sessions", plane.sessions_target)
    secret = {"TASKPLANE_WORKER_INTERNAL_SECRET": SECRET}
    return Working(await start(["worker", "--agent", f"{AGENT}=demo", *stores], environment | secret, log), log)


async def test_a_worker_takes_a_free_port_if_the_default_one_is_taken(plane: Plane, tmp_path: Path) -> None:
    default = WorkerSettings().ops_listen
    with taken(default):
        worker = await _worker(plane, tmp_path / "log")
        try:
            await worker.logged("worker ready")
            found = re.search(r"operators (http://127\.0\.0\.1:\d+)", worker.log)
            assert found is not None, worker.log
            assert not found[1].endswith(default)
            async with httpx.AsyncClient() as http:
                assert (await http.get(f"{found[1]}/healthz")).status_code == 200
        finally:
            assert await worker.end(signal.SIGTERM) == 0


async def test_a_chosen_port_is_not_replaced(plane: Plane, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        worker = await _worker(plane, tmp_path / "log", TASKPLANE_WORKER_OPS_LISTEN=address)
        assert await worker.process.wait() != 0
    assert "CANNOT_LISTEN" in worker.log
