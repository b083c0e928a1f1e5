"""A new message is saved before the agent decides about it, and then answered directly or made a task, once for all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.system.file_agents import Question
from tests.system.plane import STEADY, Plane, running
from tests.system.wire import Json, client, data, result, send, until

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2_grpc as rpc
from taskplane.runtime.channel import client as wrapped
from taskplane.runtime.channel import connect
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.more


@asynccontextmanager
async def hesitant(folder: Path, seconds: float) -> AsyncGenerator[Plane]:
    """A plane with the agent that waits for its answers; outside a task at most that long."""
    longest = str(min(seconds, 25.0))
    extra = {
        **STEADY,
        "TASKPLANE_EXECUTOR_ROUTE_TIMEOUT": str(seconds),
        "TASKPLANE_EXECUTOR_UNARY_ROUTE_TIMEOUT": longest,
    }
    arguments = ("--agent", "tests.system.file_agents:Hesitant")
    async with running("one", folder, extra, *arguments) as started:
        yield started


async def thinking(question: Question) -> None:
    """Waits until the agent thinks about it."""

    async def asked() -> bool:
        return question.asked

    await until(asked)


async def saved(plane: Plane, context: str) -> list[str]:
    """Returns the messages in the session history, read through its stub."""
    local = Principal("default", "local", "local")
    async with connect(plane.tasks_target) as channel:
        stub = rpc.SessionHistoryStub(wrapped(channel, identity=local))
        entries = (await stub.ListEntries(pb.ListEntriesRequest(context_id=context))).entries
    return [entry.message.parts[0].text for entry in entries if entry.kind == pb.ENTRY_KIND_MESSAGE]


async def tasks(http: httpx.AsyncClient, context: str) -> list[Json]:
    return list((await result(http, "ListTasks", {"contextId": context}))["tasks"])


async def test_a_message_is_saved_before_the_routing_decision_and_a_direct_answer_makes_no_task(
    tmp_path: Path,
) -> None:
    """P2, S7: the answer is a Message without a task id."""
    context, file = uuid4().hex, tmp_path / "file"
    async with hesitant(tmp_path, 60.0) as plane, client(plane.url) as http:
        sending = asyncio.create_task(send(http, str(file), contextId=context))
        await thinking(Question(file))
        assert await saved(plane, context) == [str(file)]
        assert (await data(http, f"/api/sessions/{context}"))["session"]["name"]
        assert not sending.done()
        Question(file).decide("directly")
        answer = await sending
        assert list(answer) == ["message"]
        assert answer["message"]["parts"] == [{"text": "directly"}]
        assert "taskId" not in answer["message"]
        assert await tasks(http, context) == []


async def test_a_late_routing_decision_stays_in_its_task(tmp_path: Path) -> None:
    """P2: a late direct answer becomes the completion of the task."""
    context, file, late = uuid4().hex, tmp_path / "file", tmp_path / "late"
    Question(file).decide("")
    async with hesitant(tmp_path, 0.5) as plane, client(plane.url) as http:
        task = (await send(http, str(file), contextId=context))["task"]
        assert task["status"]["message"]["parts"] == [{"text": "made a task of it"}]
        sending = asyncio.create_task(send(http, str(late), contextId=context))

        async def begun() -> bool:
            return len(await tasks(http, context)) == 2

        await until(begun)
        Question(late).decide("directly, if late")
        second = (await sending)["task"]
        assert second["status"]["state"] == "TASK_STATE_COMPLETED"
        assert second["status"]["message"]["parts"] == [{"text": "directly, if late"}]
        assert {each["id"] for each in await tasks(http, context)} == {task["id"], second["id"]}
