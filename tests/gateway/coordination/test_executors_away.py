"""Documents and events that runtimes save while executors drain, and while none is available."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import grpc
import pytest
from tests.executor.plane import eventually, until
from tests.gateway.conversing import data
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front

from taskplane.api.executor.v1 import executor_pb2
from taskplane.gateway import server
from taskplane.runtime.channel import connect
from taskplane.runtime.server import serving

AGENT = {"X-Agent-Name": "a"}


class Away:
    """A plane with an executor on a socket of its own, which can be stopped and started."""

    def __init__(self, plane: Plane, channel: grpc.aio.Channel, process: AsyncExitStack, address: str) -> None:
        self.plane = plane
        self._channel = channel
        self._process = process
        self._address = address

    async def drain(self) -> asyncio.Task[None]:
        """Begin a drain that waits for a task, and wait until the gateway notices."""
        await self.plane.send("slow 400", returnImmediately=True)
        draining = asyncio.create_task(self.plane.behind.executor.drain())
        await until(lambda: self._channel.get_state() is grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        return draining

    async def leave(self) -> None:
        """Stop the executor's server, and wait until the gateway notices."""
        await self._process.aclose()
        await until(lambda: self._channel.get_state(True) is grpc.ChannelConnectivity.TRANSIENT_FAILURE)

    async def come_back(self) -> None:
        await self._process.enter_async_context(serving(self.plane.behind.services, self._address))


@asynccontextmanager
async def open_away(directory: Path) -> AsyncGenerator[Away]:
    async with open_behind(directory, executor={"drain_timeout": 60.0}) as behind, AsyncExitStack() as process:
        ready = behind.executor.ready
        listening = await process.enter_async_context(
            serving(behind.services, "127.0.0.1:0", ready=ready, period=0.02, grace=0.1)
        )
        async with (
            connect(listening.address, executor_pb2.DESCRIPTOR) as channel,
            open_front(behind, runs=channel) as plane,
        ):
            yield Away(plane, channel, process, listening.address)


@pytest.fixture
async def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Away]:
    # Limit the time that a call waits for an executor.
    monkeypatch.setattr(server, "PATIENCE", 0.1)
    async with open_away(tmp_path) as away:
        assert (await away.plane.send("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
        yield away


def document(context: str, turn: str, **fields: object) -> Json:
    said = {"messageId": f"{context}-{turn}", "role": "user", "parts": [{"kind": "text", "text": turn}]}
    return {
        "id": f"{context}-{turn}",
        "contextId": context,
        "status": {"state": "completed"},
        "history": [said],
        "metadata": {"kagent_invocation_id": turn},
        **fields,
    }


async def put(plane: Plane, task: Json) -> None:
    reply = await plane.http.post("/api/tasks", json=task, headers=AGENT)
    assert reply.status_code == 201, reply.text


async def event(plane: Plane, context: str, turn: str, **actions: str) -> None:
    text = json.dumps({"invocationId": turn, "actions": actions})
    reply = await plane.http.post(f"/api/sessions/{context}/events", json={"id": fresh(), "data": text}, headers=AGENT)
    assert reply.status_code == 201, reply.text


async def listed(plane: Plane, context: str) -> list[str]:
    """Return the turns of the tasks that the session shows."""
    return [task["id"].removeprefix(f"{context}-") for task in await data(plane, f"/api/sessions/{context}/tasks")]


async def saves_everything(plane: Plane) -> str:
    """Save data of every kind, and return the id of a session with a rewind that its tasks do not show yet."""
    context = fresh()
    await put(plane, document(context, "i1"))
    await event(plane, context, "i1")
    for turn in ("i2", "i3"):
        await event(plane, context, turn)
        await put(plane, document(context, turn))
    assert await listed(plane, context) == ["i1", "i2", "i3"]
    await event(plane, context, "back", rewindBeforeInvocationId="i2")
    await put(plane, document(context, "i3"))
    read = await data(plane, f"/api/sessions/{context}?order=asc")
    assert [json.loads(each["data"])["invocationId"] for each in read["events"]] == ["i1", "i2", "i3", "back"]

    whole, kept = fresh(), {"messageId": "kept", "role": "user", "parts": [{"kind": "text", "text": "kept"}]}
    await put(plane, document(whole, "i1"))
    await put(plane, document(whole, "i2", id=whole, history=[kept]))
    pushed = await plane.http.put(
        f"/api/sessions/{whole}/effective_history", json=[{**kept, "messageId": "other"}], headers=AGENT
    )
    assert pushed.status_code == 200, pushed.text
    assert (await plane.http.delete(f"/api/tasks/{whole}-i1")).status_code == 204
    assert (await plane.http.get(f"/api/tasks/{whole}-i1")).status_code == 404
    return context


async def test_documents_and_events_are_stored_during_a_drain(away: Away) -> None:
    """T4, R10: new and repeated documents and events, and those that rewind."""
    draining = await away.drain()
    await saves_everything(away.plane)
    assert not draining.done()
    await away.leave()
    (running,) = (await away.plane.result("ListTasks", {"status": "TASK_STATE_WORKING"}))["tasks"]
    await away.plane.result("CancelTask", {"id": running["id"]})
    await draining


async def test_a_rewind_without_an_executor_is_applied_after_one_starts(away: Away) -> None:
    """T4, R10: the rewind is stored at once, and applied to the tasks as soon as an executor is available."""
    await away.leave()
    context = await saves_everything(away.plane)
    await away.come_back()

    async def cut() -> list[str]:
        """Return the tasks of the cut turns that are still listed, after saving a further turn."""
        await put(away.plane, document(context, fresh()))
        return [turn for turn in await listed(away.plane, context) if turn in ("i2", "i3")]

    assert await eventually(cut, lambda turns: turns == []) == []
