"""A plane dies after a message was saved and before its task was created: the message must not stay in every next
prompt."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from tests.repo.tree import ROOT
from tests.support.postgres import Cluster
from tests.system.judge import held, judge
from tests.system.plane import CODE, Plane, running
from tests.system.wire import Json, client, request, result, text_message, until

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.runtime.channel import client as wrapped
from taskplane.runtime.channel import connect
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.more

KEY = {"Idempotency-Key": "order-17"}
FAILPOINT = {"TASKPLANE_FAILPOINTS": f"submit.after_outcome=exit({CODE})"}
SOON = "0.5"
AGENT = {
    "TASKPLANE_EXECUTOR_AGENTS": "tests.system.recalling:Recalling",
    "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
}


async def conversation(plane: Plane) -> list[str]:
    """Returns the conversation of the session."""
    async with connect(plane.executor_target) as channel:
        stub = SessionHistoryStub(wrapped(channel, identity=Principal("default", "local", "local")))
        page = await stub.ListEntries(pb.ListEntriesRequest(context_id="c", effective=True))
    return [entry.message.parts[0].text for entry in page.entries]


async def send(http: httpx.AsyncClient, message: Json, **headers: str) -> tuple[str, str]:
    """Returns the id of the completed task, and the conversation that its agent had."""
    task = (await result(http, "SendMessage", {"message": message}, **headers))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    return task["id"], task["status"]["message"]["parts"][0]["text"]


async def dies_of(plane: Plane, http: httpx.AsyncClient, message: Json) -> None:
    """Sends a message that its process does not survive."""
    headers = {"A2A-Version": "1.0", **KEY}
    sending = asyncio.create_task(http.post("/", json=request("SendMessage", {"message": message}), headers=headers))
    assert await plane.death("dev") == CODE
    sending.cancel()
    with suppress(asyncio.CancelledError, httpx.HTTPError):
        await sending


async def test_a_send_with_a_key_interrupted_by_a_crash_is_voided_and_its_repeat_runs_once(
    server: Cluster | None, tmp_path: Path
) -> None:
    """C10, C6: on both engines; a first repeat is interrupted in the same way."""
    lost = text_message("lost", contextId="c")
    async with running("one", tmp_path, AGENT | FAILPOINT, server=server) as plane, client(plane.url) as http:

        async def is_voided() -> bool:
            return "lost" not in await conversation(plane)

        assert (await send(http, text_message("first", contextId="c")))[1] == "nothing"
        await dies_of(plane, http, lost)
        await plane.start(TASKPLANE_FAILPOINTS="")
        assert await conversation(plane) == ["first", "nothing", "lost"]
        await plane.kill("dev")
        await plane.start(TASKPLANE_EXECUTOR_ABANDONED_AFTER=SOON)
        await until(is_voided)
        await dies_of(plane, http, lost)
        await plane.start(TASKPLANE_FAILPOINTS="", TASKPLANE_EXECUTOR_ABANDONED_AFTER=SOON)
        await until(is_voided)
        assert (await send(http, text_message("next", contextId="c")))[1] == "first, nothing"
        answers = await asyncio.gather(*(send(http, lost, **KEY) for _ in range(5)))
        assert set(answers) == {(answers[0][0], "first, nothing, next, first, nothing")}
        shown = await conversation(plane)
        await plane.stop()
    assert shown == ["first", "nothing", "lost", answers[0][1], "next", "first, nothing"]
    found = await held(plane)
    assert judge(found, {}, ()).findings() == []
    assert len(found.tasks) == 3
    assert all(event.attempt <= 1 for log in found.logs.values() for event in log)
