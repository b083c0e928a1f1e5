"""The official client library, 1.0 and in its 0.3 mode, sends, streams, polls, cancels and subscribes over JSON-RPC."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError
from tests.system.plane import Plane
from tests.system.wire import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
both_versions = pytest.mark.parametrize("version", ["1.0", "0.3"])


@asynccontextmanager
async def official(plane: Plane, version: str, *, streaming: bool, polling: bool = False) -> AsyncGenerator[Client]:
    """A client made from our card; for 0.3 from the card's 0.3 interface alone."""
    async with httpx.AsyncClient(timeout=30.0, headers={"A2A-Version": "1.0"}) as http:
        card = await A2ACardResolver(http, plane.url).get_agent_card()
        if version == "0.3":
            headerless = httpx.AsyncClient(timeout=30.0)
            card = await A2ACardResolver(headerless, plane.url).get_agent_card()
            await headerless.aclose()
            legacy = [each for each in card.supported_interfaces if each.protocol_version.startswith("0.3")]
            assert legacy, "the hybrid card names no 0.3 interface"
            del card.supported_interfaces[:]
            card.supported_interfaces.extend(legacy)
            http.headers.pop("A2A-Version")
        config = ClientConfig(streaming=streaming, polling=polling, httpx_client=http)
        yield ClientFactory(config).create(card)


def message(text: str, **ids: str) -> SendMessageRequest:
    made = Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)])
    for name, value in ids.items():
        setattr(made, name, value)
    return SendMessageRequest(message=made)


async def answers(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [each async for each in client.send_message(request)]


@both_versions
async def test_the_client_sends_and_gets_the_finished_task(plane: Plane, version: str) -> None:
    """P1, T1: by a blocking send."""
    async with official(plane, version, streaming=False) as client:
        (answer,) = await answers(client, message("echo hello there"))
    assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
    assert answer.task.status.message.parts[0].text == "hello there"


@both_versions
async def test_the_client_gets_a_direct_message(plane: Plane, version: str) -> None:
    """P2: without a task."""
    async with official(plane, version, streaming=False) as client:
        (answer,) = await answers(client, message("message just this"))
    assert answer.message.parts[0].text == "just this"


@both_versions
async def test_the_client_streams(plane: Plane, version: str) -> None:
    """P1, T1: a Task first, then updates, the last of them terminal."""
    async with official(plane, version, streaming=True) as client:
        events = await answers(client, message("chunks 50 64"))
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds[0] == "task"
    assert kinds.count("artifact_update") == 50
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    text = "".join(e.artifact_update.artifact.parts[0].text for e in events if e.HasField("artifact_update"))
    assert len(text) == 50 * 64


@both_versions
async def test_the_client_polls(plane: Plane, version: str) -> None:
    """P1, a2a C1, K13: the answer comes at once with the task, which the client polls."""
    async with official(plane, version, streaming=False, polling=True) as client:
        (answer,) = await answers(client, message("slow 2"))
        assert answer.task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)

        async def ended() -> bool:
            task = await client.get_task(GetTaskRequest(id=answer.task.id))
            return task.status.state == TaskState.TASK_STATE_COMPLETED

        await until(ended)


@both_versions
async def test_the_client_cancels(plane: Plane, version: str) -> None:
    """P8: a second cancel is refused with the typed error."""
    async with official(plane, version, streaming=False, polling=True) as client:
        (answer,) = await answers(client, message("slow 100"))
        canceled = await client.cancel_task(CancelTaskRequest(id=answer.task.id))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=answer.task.id))


@both_versions
async def test_the_client_subscribes(plane: Plane, version: str) -> None:
    """P12, a2a C11, C22, K7: the snapshot first, then the rest up to the end."""
    async with (
        official(plane, version, streaming=False) as client,
        official(plane, version, streaming=True) as watcher,
        asyncio.timeout(30),
    ):
        (asked,) = await answers(client, message("ask"))
        events = watcher.subscribe(SubscribeToTaskRequest(id=asked.task.id))
        first = await anext(events)
        await answers(client, message("blue", task_id=asked.task.id))
        rest = [each async for each in events]
    assert first.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert {each.WhichOneof("payload") for each in rest} == {"status_update"}
    assert rest[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@both_versions
async def test_the_client_resumes_with_its_last_event_id(plane: Plane, version: str) -> None:
    """P12, a2a K15: call-level parameters carry the cursor without a patch of the library."""
    async with official(plane, version, streaming=False, polling=True) as client:
        (answer,) = await answers(client, message("slow 2"))

        async def ended() -> bool:
            task = await client.get_task(GetTaskRequest(id=answer.task.id))
            return task.status.state == TaskState.TASK_STATE_COMPLETED

        await until(ended)
        async with httpx.AsyncClient(base_url=plane.url) as http:
            lines = (await http.get(f"/api/tasks/{answer.task.id}/events")).text.splitlines()
        second = [line[3:].strip() for line in lines if line.startswith("id:")][1]
        context = ClientCallContext(service_parameters={"Last-Event-ID": second})
        request = SubscribeToTaskRequest(id=answer.task.id)
        async with official(plane, version, streaming=True) as watcher:
            rest = [each async for each in watcher.subscribe(request, context=context)]
    assert [each.WhichOneof("payload") for each in rest] == ["artifact_update", "artifact_update", "status_update"]


@both_versions
async def test_the_client_answers_a_question_and_refers_to_the_task(plane: Plane, version: str) -> None:
    """I1, I2, I5: ask, answer on the same task, then a new task that refers to it in the same context."""
    async with official(plane, version, streaming=False) as client:
        (asked,) = await answers(client, message("ask"))
        first = asked.task
        assert first.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        (answered,) = await answers(client, message("blue", task_id=first.id))
        assert answered.task.id == first.id
        assert answered.task.context_id == first.context_id
        assert answered.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert "blue" in answered.task.status.message.parts[0].text
        shorter = message("make it shorter", context_id=first.context_id)
        shorter.message.reference_task_ids.append(first.id)
        (second,) = await answers(client, shorter)
        assert second.task.id != first.id
        assert second.task.context_id == first.context_id


@both_versions
async def test_the_client_rewinds_and_continues(plane: Plane, version: str) -> None:
    """R4, R6, T8: one Task with its history, then the updates of the new turn, with an unchanged library."""
    async with official(plane, version, streaming=False) as client:
        (first,) = await answers(client, message("one"))
        context = first.task.context_id
        (second,) = await answers(client, message("two", context_id=context))
    rewind = message("three", context_id=context)
    turn = second.task.history[0].metadata["kagent_invocation_id"]
    rewind.message.metadata.update({"kagent_rewind_before_invocation_id": turn})
    async with official(plane, version, streaming=True) as client:
        task, begun, *rest = await answers(client, rewind)
    assert (task.task.id, [each.parts[0].text for each in task.task.history]) == (context, ["one", "one"])
    assert begun.status_update.status.state == TaskState.TASK_STATE_SUBMITTED
    assert {each.WhichOneof("payload") for each in rest} == {"status_update"}
    assert rest[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert rest[-1].status_update.status.message.parts[0].text == "three"


async def test_the_client_lists(plane: Plane) -> None:
    """The 1.0 client lists the tasks of a context."""
    async with official(plane, "1.0", streaming=False) as client:
        (answer,) = await answers(client, message("echo one"))
        await answers(client, message("echo two", context_id=answer.task.context_id))
        listed = await client.list_tasks(ListTasksRequest(context_id=answer.task.context_id))
    assert listed.total_size == 2
    assert [task.status.state for task in listed.tasks] == [TaskState.TASK_STATE_COMPLETED] * 2
