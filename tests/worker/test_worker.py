"""`taskplane worker` in a process of its own, with an internal secret, behind a plane that only serves the card."""

import re
from collections.abc import AsyncGenerator

import httpx
import pytest
import pytest_asyncio
from tests.system.plane import Plane
from tests.system.wire import until
from tests.worker import scenarios
from tests.worker.plane import AGENT, CARD, Working, python_worker

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Working]:
    """A worker for the tests that do not end it."""
    async with python_worker(plane, tmp_path_factory.mktemp("worker") / "log") as started:
        yield started


async def test_the_card_of_a_worker_is_served(plane: Plane, http: httpx.AsyncClient) -> None:
    """P2: clients see the card, with the addresses of the gateway, whether or not a worker is there."""
    card = (await http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    assert card["name"] == CARD["name"] and card["description"] == CARD["description"]
    named = (await http.get(f"/agents/{AGENT}/.well-known/agent-card.json")).json()
    assert named["name"] == CARD["name"]


async def test_p1_a_worker_answers_and_streams(worker: Working, http: httpx.AsyncClient) -> None:
    """P1, C6: the whole path of a message over real gRPC; `completed` comes when its history can be read."""
    await scenarios.answers(http)


async def test_p5_a_worker_streams_artifacts(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.makes_artifacts(http)


async def test_i1_a_worker_asks_and_goes_on_in_the_same_task(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.asks(http)


async def test_p9_a_worker_fails_with_a_reason(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.fails(http)


async def test_c8_a_worker_answers_a_message_that_comes_meanwhile(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.answers_a_message_that_comes_meanwhile(http)


async def test_p8_a_cancel_stops_the_run_in_its_worker(worker: Working, http: httpx.AsyncClient) -> None:
    """P8, C11: the worker is told, wherever the cancel came in, and runs nothing of the task any more."""
    task = await scenarios.begins_slowly(http, 1000)
    await scenarios.is_canceled(http, task)
    found = re.search(r"operators (\S+)\"", worker.log)
    assert found is not None
    async with httpx.AsyncClient(base_url=found.group(1), verify=False) as ops:
        assert (await ops.get("/readyz")).status_code == 200

        async def idle() -> bool:
            return f'taskplane_runs{{agent="{AGENT}"}} 0.0' in (await ops.get("/metrics")).text

        await until(idle)
