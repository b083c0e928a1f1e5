"""The official Python client over gRPC, unchanged, and the program in the documentation."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from a2a.client import Client
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2 as sdk
from a2a.utils import errors as official
from tests.executor.scripted import Scripted
from tests.gateway.plane import Plane, fresh, open_all
from tests.repo.reader import BLOCKS
from tests.repo.tree import ROOT
from tests.support.official_python import official_python

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.agents.demo import Demo
from taskplane.api.message_metadata import CURSOR

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def script(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("I am the other one.")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    folder = tmp_path_factory.mktemp("plane")
    async with open_all(folder, ("demo", Demo()), ("other", Scripted(script))) as plane:
        yield plane


@asynccontextmanager
async def calling(plane: Plane, path: str = "", *, streaming: bool = True) -> AsyncGenerator[Client, None]:
    """A client of the agent at a path, made of its card."""
    async with official_python(plane.gateway.url + path, "GRPC", streaming=streaming) as (client, _):
        yield client


def saying(text: str, **fields: Any) -> sdk.SendMessageRequest:
    message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, parts=[sdk.Part(text=text)], **fields)
    return sdk.SendMessageRequest(message=message)


def beside(**parameters: str) -> ClientCallContext:
    return ClientCallContext(service_parameters={name.replace("_", "-"): value for name, value in parameters.items()})


async def test_it_sends_streams_reads_lists_and_cancels(plane: Plane) -> None:
    async with calling(plane) as client, calling(plane, streaming=False) as waiting:
        (answer,) = [event async for event in waiting.send_message(saying("hello"))]
        assert answer.task.status.state == sdk.TASK_STATE_COMPLETED
        events = [event async for event in client.send_message(saying("chunks 3 2"))]
        assert [event.WhichOneof("payload") for event in events] == (
            ["task", "status_update", *["artifact_update"] * 3, "status_update"]
        )
        (message,) = [event async for event in client.send_message(saying("message hi"))]
        assert message.message.parts[0].text == "hi"
        assert (await client.get_task(sdk.GetTaskRequest(id=answer.task.id))).id == answer.task.id
        listed = await client.list_tasks(sdk.ListTasksRequest(context_id=answer.task.context_id))
        assert [task.id for task in listed.tasks] == [answer.task.id]
        (asked,) = [event async for event in waiting.send_message(saying("ask"))]
        assert asked.task.status.state == sdk.TASK_STATE_INPUT_REQUIRED
        (answered,) = [event async for event in waiting.send_message(saying("Ann", task_id=asked.task.id))]
        assert (answered.task.id, answered.task.status.state) == (asked.task.id, sdk.TASK_STATE_COMPLETED)
        (asked,) = [event async for event in waiting.send_message(saying("ask"))]
        canceled = await client.cancel_task(sdk.CancelTaskRequest(id=asked.task.id))
        assert canceled.status.state == sdk.TASK_STATE_CANCELED


async def test_it_knows_each_error_by_its_reason(plane: Plane) -> None:
    """a2a I5, K11."""
    async with calling(plane) as client, calling(plane, streaming=False) as waiting:
        (done,) = [event async for event in waiting.send_message(saying("hello"))]
        with pytest.raises(official.TaskNotFoundError):
            await client.get_task(sdk.GetTaskRequest(id="none"))
        with pytest.raises(official.TaskNotCancelableError):
            await client.cancel_task(sdk.CancelTaskRequest(id=done.task.id))
        with pytest.raises(official.UnsupportedOperationError):
            await anext(client.subscribe(sdk.SubscribeToTaskRequest(id=done.task.id)))
        with pytest.raises(official.InvalidParamsError) as wrong:
            await client.get_task(sdk.GetTaskRequest(id="t", history_length=-1))
        error: Any = wrong.value
        assert "historyLength" in str(error.data)
        with pytest.raises(official.PushNotificationNotSupportedError):
            await client.get_task_push_notification_config(
                sdk.GetTaskPushNotificationConfigRequest(task_id=done.task.id, id="c")
            )


async def test_it_resumes_at_every_place_and_repeats_a_send_by_service_parameters(plane: Plane) -> None:
    """P12, C10, a2a K7, K15: without a change of the client."""
    async with calling(plane) as client:
        request, key = saying("chunks 20 2"), fresh()
        events = [event async for event in client.send_message(request, context=beside(idempotency_key=key))]
        held = [getattr(event, event.WhichOneof("payload")) for event in events]
        subscription = sdk.SubscribeToTaskRequest(id=held[0].id)
        for index, one in enumerate(held):
            context = beside(last_event_id=one.metadata[CURSOR])
            assert [event async for event in client.subscribe(subscription, context=context)] == events[index + 1 :]
        context = beside(idempotency_key=key, last_event_id=held[4].metadata[CURSOR])
        assert [event async for event in client.send_message(request, context=context)] == events[5:]


async def test_the_card_of_an_agent_leads_to_that_agent(plane: Plane) -> None:
    """a2a K8."""
    async with calling(plane, "/agents/other", streaming=False) as client:
        (answer,) = [event async for event in client.send_message(saying("hello"))]
        assert answer.task.status.message.parts[0].text == "I am the other one."
        assert (await client.get_task(sdk.GetTaskRequest(id=answer.task.id))).id == answer.task.id


async def test_the_program_in_the_documentation_works(plane: Plane, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "grpc.md").read_text()
    (block,) = [each["content"] for each in BLOCKS.finditer(page) if each["language"] == "python"]
    program = tmp_path / "program.py"
    program.write_text(re.sub(r"http://127\.0\.0\.1:\d+", plane.gateway.url, block))
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert "TASK_STATE_COMPLETED" in out.decode()
