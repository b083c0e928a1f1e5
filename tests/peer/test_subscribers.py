"""Many subscribers: idle ones cost one poll together, and cancelled ones leave nothing. The SDK's poll one by one."""

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from a2a.server.cluster import DatabaseTaskEventStream, TaskVersion
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import RequestHandler
from a2a.types import SubscribeToTaskRequest
from tests.conformance.test_task_store_cost import statements
from tests.peer.peers import Executions, Held, begun, database
from tests.support.databases import TASKS as TASKS_PACKAGE
from tests.support.schemas import copy_schema
from tests.support.sdk_server import sdk_server
from tests.system.wire import client
from tests.tasks.plane import Plane, chunk, opened, until

from taskplane.tasks.settings import TasksSettings

SUBSCRIBERS = 1_000
TASKS = 20
POLL_EVERY = 0.1


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A task store that polls often."""
    await copy_schema(TASKS_PACKAGE, tmp_path / "tasks.db")
    url = f"sqlite:///{tmp_path}/tasks.db"
    async with opened(url, lease_ttl=60.0, sweep_every=60.0, poll_every=POLL_EVERY) as plane:
        yield plane


async def test_w12_a_thousand_idle_subscribers_are_one_poll(plane: Plane, tmp_path: Path) -> None:
    """W12: one statement each time, whatever their number, and by default a poll is seconds away. There each
    subscriber reads for itself, without a limit."""
    runs = [await plane.create(working=True) for _ in range(TASKS)]
    streams = [plane.watch(run.id) for run in runs for _ in range(SUBSCRIBERS // TASKS)]
    await asyncio.gather(*(anext(aiter(stream)) for stream in streams))
    waiting = [asyncio.ensure_future(anext(aiter(stream))) for stream in streams]
    plane.engine.reads.clear()
    start = time.monotonic()
    await until(lambda: plane.engine.reads.count("heads") >= 5)
    assert plane.engine.reads.count("heads") <= (time.monotonic() - start) / POLL_EVERY + 1
    for each in waiting:
        each.cancel()
    assert TasksSettings().poll_every >= 1.0
    async with database(tmp_path / "sdk.db") as engine:
        events = DatabaseTaskEventStream(engine, poll_interval_s=POLL_EVERY)
        await events.initialize()
        names = [f"task-{number}" for number in range(TASKS)]
        with statements() as seen:
            idle = [asyncio.ensure_future(anext(events.subscribe(name, after=TaskVersion(1)))) for name in names]
            await until(lambda: len(seen) >= 4 * TASKS)
            for subscriber in idle:
                subscriber.cancel()
        polls = [(statement, given) for statement, given in seen if "task_events.event_data" in statement]
        assert {given[0] for _, given in polls} == set(names)
        assert not any("LIMIT" in statement for statement, _ in polls)


async def leave(plane: Plane, task_id: str, kind: str) -> None:
    """Subscribe, and be cancelled at a random moment."""
    stream = plane.watch(task_id, kind=kind)

    async def reading() -> None:
        async for _ in stream:
            pass

    task = asyncio.create_task(reading())
    for _ in range(random.randrange(30)):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stream.cancel()


def held(plane: Plane) -> tuple[int, int, int]:
    """The numbers of asyncio tasks, of file descriptors and of watched tasks. The engine keeps connections to its
    database for later reads."""
    opened = [target for each in os.scandir("/proc/self/fd") if ".db" not in (target := link(each.path))]
    return len(asyncio.all_tasks()), len(opened), len(plane.service.watched)


def link(path: str) -> str:
    """The target of a link; empty if it is gone, as the descriptor of the listing itself."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


async def test_w16_a_cancelled_subscriber_ends_and_leaves_nothing(plane: Plane) -> None:
    """W16: of a thousand, over a socket and in the process, each ends with CancelledError; the next one is served.
    There a cancelled one returns as if its stream had ended."""
    run = await plane.create(working=True)
    for kind in ("socket", "inprocess"):
        await leave(plane, run.id, kind)
    await until(lambda: not len(plane.service.watched))
    before = held(plane)
    for kind in ("socket", "inprocess"):
        for _ in range(SUBSCRIBERS // 100):
            await asyncio.gather(*(leave(plane, run.id, kind) for _ in range(50)))
    await until(lambda: all(now <= then for now, then in zip(held(plane), before, strict=True)))
    stream = plane.watch(run.id, run.at(2), kind="socket")
    await run.append(chunk())
    assert (await anext(aiter(stream))).events.events[0].generation == 3
    stream.cancel()
    assert not await is_told_of_its_cancellation_by_the_sdk()


async def is_told_of_its_cancellation_by_the_sdk() -> bool:
    """Whether a subscriber of the SDK's server, once it is cancelled, ends as cancelled."""
    async with sdk_server(Held(Executions())) as peer, client(peer.url) as http:
        task = await begun(http, "wait")
        told = asyncio.Event()

        async def reading(handler: RequestHandler) -> None:
            events = handler.on_subscribe_to_task(SubscribeToTaskRequest(id=task["id"]), ServerCallContext())
            async with aclosing(events) as coming:
                async for _ in coming:
                    told.set()

        subscriber = asyncio.create_task(reading(peer.handler))
        await told.wait()
        await asyncio.sleep(0)
        subscriber.cancel()
        await asyncio.wait([subscriber])
        return subscriber.cancelled()
