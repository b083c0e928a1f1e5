"""The worker in Node of `docs/examples/node-worker`, which knows of the plane what its `.proto` files say."""

import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from tests.support.node import MISSING
from tests.system.plane import Plane
from tests.system.wire import raw_log, result, send, texts_of
from tests.worker import scenarios
from tests.worker.plane import Working, node_worker

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Working]:
    """A worker for the tests that do not end it."""
    async with node_worker(plane, tmp_path_factory.mktemp("worker") / "log") as started:
        yield started


async def test_p1_a_worker_in_node_answers_and_streams(worker: Working, http: httpx.AsyncClient) -> None:
    """P1, C6: also with the secret of the plane; `completed` comes when its history can be read."""
    await scenarios.answers(http)


async def test_p5_a_worker_in_node_streams_artifacts(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.makes_artifacts(http)


async def test_i1_a_worker_in_node_asks_and_goes_on(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.asks(http)


async def test_p9_a_worker_in_node_fails_with_a_reason(worker: Working, http: httpx.AsyncClient) -> None:
    await scenarios.fails(http)


async def test_c8_a_worker_in_node_answers_what_comes_meanwhile(worker: Working, http: httpx.AsyncClient) -> None:
    """C8: an end before every message was read is refused as PENDING_INPUT, and the message is answered first."""
    await scenarios.answers_a_message_that_comes_meanwhile(http)


async def test_c6_a_worker_in_node_reads_the_conversation(worker: Working, http: httpx.AsyncClient) -> None:
    """C6: what it copied for one turn is what the next turn reads."""
    first = (await send(http, "one"))["task"]
    second = (await send(http, "count", contextId=first["contextId"]))["task"]
    assert texts_of(second)[-1] == "2 messages came before."


async def test_p8_a_cancel_stops_the_run_in_node(worker: Working, http: httpx.AsyncClient) -> None:
    """P8, C11: the worker is told, wherever the cancel came in."""
    task = await scenarios.begins_slowly(http, 1000)
    await scenarios.is_canceled(http, task)
    await worker.said(f"task {task['id']} was stopped")


async def test_c9_a_worker_in_node_that_is_killed_is_followed_by_another(
    plane: Plane, http: httpx.AsyncClient, worker: Working, tmp_path: Path
) -> None:
    """C9, C14: the task of one that is killed runs again in another; one that drains ends by itself."""
    await worker.end(signal.SIGKILL)
    async with node_worker(plane, tmp_path / "first") as first:
        task = await scenarios.begins_slowly(http, 12)
        async with node_worker(plane, tmp_path / "second") as second:
            await first.end(signal.SIGKILL)
            scenarios.has_its_artifact(await scenarios.ends(http, task), 12)
            assert max(event["attempt"] for event in await raw_log(http, task["id"])) == 2
            third = await scenarios.begins_slowly(http, 3)
            assert await second.end() == 0
    scenarios.has_its_artifact(await result(http, "GetTask", {"id": third["id"]}), 3)
