"""The example that survives a kill: `docs/examples/book.py`, under a client that just waits."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest
from tests.repo.tree import ROOT
from tests.support.postgres import Cluster
from tests.system.plane import running
from tests.system.stores import task_store

from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub

pytestmark = pytest.mark.more

BOOK = {
    "TASKPLANE_EXECUTOR_AGENTS": "docs.examples.book:Book",
    "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
}
PAGES = [f"Page {number}\n" for number in range(1, 7)]


async def events(store: TaskStoreStub, kind: "tasks.EventKind.ValueType") -> list[tasks.Event]:
    """Returns the events of a kind of the only task, if there is one yet."""
    listed = await store.ListTasks(tasks.ListTasksRequest())
    if not listed.records:
        return []
    (record,) = listed.records
    return list((await store.ListEvents(tasks.ListEventsRequest(task_id=record.id, kinds=[kind]))).events)


@pytest.mark.one_engine
@pytest.mark.parametrize(("mode", "target"), [("one", "dev"), ("four", "executor")])
async def test_the_example_continues_after_its_checkpoint(
    mode: str, target: str, server: Cluster | None, tmp_path: Path
) -> None:
    """P7, C8, C9: after SIGKILL in the middle, the same task continues with the page after the last checkpoint; no page
    is lost, and `taskplane chat`, started before, shows the book to its end."""
    async with running(mode, tmp_path, BOOK, server=server) as plane:
        command = [sys.executable, "-m", "taskplane.cli", "chat", "--url", plane.url, "-m", "write"]
        chat = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        async with task_store(plane, service=True) as (store, _), asyncio.timeout(30):
            while len(await events(store, tasks.EVENT_KIND_CHECKPOINT)) < 2:
                await asyncio.sleep(0.02)
        await plane.kill(target)
        await plane.start(target)
        said, _ = await asyncio.wait_for(chat.communicate(), 60)
        async with task_store(plane, service=True) as (store, _):
            chunks = await events(store, tasks.EVENT_KIND_ARTIFACT)
            checkpoints = await events(store, tasks.EVENT_KIND_CHECKPOINT)
    last = max(json.loads(event.checkpoint) for event in checkpoints if event.attempt == 1)
    written = {
        attempt: re.findall(
            r"Page \d\n",
            "".join(
                part.text
                for event in chunks
                if event.attempt == attempt
                for part in event.event.artifact_update.artifact.parts
            ),
        )
        for attempt in (1, 2)
    }
    assert 2 <= last < len(PAGES)
    # The process may have been lost between a page and its checkpoint.
    assert written[1] in (PAGES[:last], PAGES[: last + 1])
    assert written[2] == PAGES[last:]
    assert said.decode() == "".join([*written[1], *written[2], "The book is written.\n"])
