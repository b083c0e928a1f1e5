"""The end of a gateway: sends that it refuses are not carried out, and calls over all bindings have one deadline."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from tests.executor.scripted import Scripted
from tests.gateway.bindings import BINDINGS, HTTP_BINDINGS, Binding, Client, Framed, Grpc, Grpc03
from tests.gateway.failures import failed
from tests.gateway.plane import Behind, Json, Plane, fresh, open_behind, open_front, said, unhurried
from tests.support.half_sent import HalfSent

from taskplane.agents.agent import Change, Complete, Turn


class Deciding(Scripted):
    """An agent that decides about a turn when it is told to, answers `direct` without a task, and never ends
    another."""

    def __init__(self) -> None:
        super().__init__(self._work)
        self.asked = 0
        self.decide = asyncio.Event()

    async def route(self, turn: Turn) -> str | None:
        if turn.text == "witness":
            return None
        self.asked += 1
        await self.decide.wait()
        return "at once" if turn.text == "direct" else None

    async def _work(self, turn: Turn) -> AsyncIterator[Change]:
        await asyncio.Event().wait()
        yield Complete()


class Leaving:
    """A gateway that can be told to end, and then waits for its open calls."""

    def __init__(self, plane: Plane, leave: asyncio.Event, ended: asyncio.Event) -> None:
        self.plane = plane
        self.ended = ended
        self._leave = leave

    async def drain(self) -> None:
        """Begin the end, and wait until its streams are drained."""
        streaming = Client(self.plane, Grpc()).stream("SendStreamingMessage", {"message": said("witness")})
        async with streaming as events:
            await anext(events)
            self._leave.set()
            try:
                async for _ in events:
                    pass
            except grpc.aio.AioRpcError as error:
                assert failed(error).reason == "SHUTTING_DOWN"


@asynccontextmanager
async def leaving(behind: Behind, **settings: Any) -> AsyncGenerator[Leaving]:
    leave, ended = asyncio.Event(), asyncio.Event()
    opened: asyncio.Future[Plane] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        async with open_front(behind, **settings) as plane:
            opened.set_result(plane)
            await leave.wait()
        ended.set()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(run())
        plane = await opened
        # Clients of its own: those of the plane are closed at the end.
        async with (
            httpx.AsyncClient(base_url=plane.gateway.url, timeout=30.0, verify=False) as http,
            grpc.aio.insecure_channel(plane.public.address) as channel,
        ):
            yield Leaving(Plane(plane.gateway, http, behind, channel, plane.public), leave, ended)
        leave.set()


async def half_sent(plane: Plane, framed: Framed, key: str = "") -> HalfSent:
    """Begin a request, with an idempotency key if there is one."""
    headers = {"Idempotency-Key": key} if key else {}
    return await HalfSent.begun(plane.gateway.port, framed.verb, framed.path, framed.body, headers)


def sending(text: str) -> Json:
    return {"message": said(text)}


async def texts_in(plane: Plane) -> list[str]:
    """The first texts of all turns that became a task."""
    listed = (await plane.result("ListTasks", {"pageSize": 100, "historyLength": 100}))["tasks"]
    return sorted(task["history"][0]["parts"][0]["text"] for task in listed)


async def test_a_streaming_send_that_a_drain_refuses_was_not_carried_out(tmp_path: Path) -> None:
    """C14, D11: with a key or without one, over each binding; the same send is carried out by the next gateway."""
    keyed = {binding.name: fresh() for binding in BINDINGS}
    async with open_behind(tmp_path, ("a", Deciding())) as behind:
        async with leaving(behind, shutdown_timeout=30) as front:
            halves = [
                await half_sent(front.plane, binding.frame("SendStreamingMessage", sending(binding.name)), key)
                for binding in HTTP_BINDINGS
                for key in ("", keyed[binding.name])
            ]
            await front.drain()
            for over_grpc in (Grpc(), Grpc03()):
                client = Client(front.plane, over_grpc)
                for headers in ({}, {"idempotency_key": keyed[over_grpc.name]}):
                    refused = await client.error("SendStreamingMessage", sending(over_grpc.name), **headers)
                    assert (refused.reason, refused.code) == ("SHUTTING_DOWN", 0)
            assert ["SHUTTING_DOWN" in await half.rest() for half in halves] == [True] * len(halves)
        async with open_front(behind) as plane:
            assert await texts_in(plane) == ["witness"]
            await asyncio.gather(*[begin(plane, binding, keyed[binding.name]) for binding in BINDINGS])


async def begin(plane: Plane, binding: Binding, key: str) -> None:
    params = sending("witness")
    async with Client(plane, binding).stream("SendStreamingMessage", params, idempotency_key=key) as events:
        (kind,) = (await anext(events)).result
    assert kind == "task"


async def test_a_send_in_flight_when_the_drain_begins_tells_its_task_or_its_answer(tmp_path: Path) -> None:
    """C14: it was carried out, so its client must know of it."""
    agent = Deciding()
    async with open_behind(tmp_path, ("a", agent)) as behind, leaving(behind, shutdown_timeout=30) as front:
        sends = [
            asyncio.create_task(first_kind(front.plane, binding, text))
            for binding in BINDINGS
            for text in ("direct", "task")
        ]
        while agent.asked < len(sends):
            await asyncio.sleep(0.01)
        await front.drain()
        agent.decide.set()
        assert await asyncio.gather(*sends) == ["message", "task"] * len(BINDINGS)


async def first_kind(plane: Plane, binding: Binding, text: str) -> str:
    """The kind of the only event of a stream that the drain ends."""
    found: list[str] = []
    try:
        async with Client(plane, binding).stream("SendStreamingMessage", sending(text)) as events:
            async for event in events:
                found += event.result
    except grpc.aio.AioRpcError as error:
        assert failed(error).reason == "SHUTTING_DOWN" and text == "task"
    (kind,) = found
    return kind


async def test_a_send_that_is_open_at_the_end_is_told_to_repeat_it_under_its_key(tmp_path: Path) -> None:
    """C14, D11: over HTTP as over gRPC; the repeat to the next gateway gets the task, and there is only one."""
    agent = Deciding()
    later = {"configuration": {"returnImmediately": True}}
    cases = [(binding, way) for binding in BINDINGS for way in ("SendMessage", "SendStreamingMessage")]
    texts = [f"{binding.name} {way}" for binding, way in cases]
    params = [
        sending(text) | (later if way == "SendMessage" else {}) for text, (_, way) in zip(texts, cases, strict=True)
    ]
    async with open_behind(tmp_path, ("a", agent)) as behind:
        async with leaving(behind, shutdown_timeout=1) as front:
            sends = [
                asyncio.create_task(Client(front.plane, binding).error(way, sent, idempotency_key=text))
                for (binding, way), sent, text in zip(cases, params, texts, strict=True)
            ]
            while agent.asked < len(sends):
                await asyncio.sleep(0.01)
            await front.drain()
            refused = await asyncio.gather(*sends)
        assert [one.reason for one in refused] == ["SHUTTING_DOWN"] * len(cases)
        agent.decide.set()
        async with open_front(behind) as plane:
            for (binding, way), sent, text in zip(cases, params, texts, strict=True):
                if way == "SendMessage":
                    await Client(plane, binding).result(way, sent, idempotency_key=text)
                else:
                    async with Client(plane, binding).stream(way, sent, idempotency_key=text) as events:
                        await anext(events)
            assert await texts_in(plane) == sorted([*texts, "witness"])


async def test_a_route_of_api_that_is_open_at_the_end_answers_503(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, leaving(behind, shutdown_timeout=0) as front:
        half = await half_sent(front.plane, Framed("POST", "/api/sessions", {"agent_ref": "demo"}))
        await front.drain()
        reply = await half.rest(send=False)
    assert "503" in reply.splitlines()[0]
    assert '"code":"SHUTTING_DOWN"' in reply


async def test_large_answers_on_their_way_arrive_whole(tmp_path: Path) -> None:
    """C14: the thread that writes them ends after the calls."""
    async with open_behind(tmp_path) as behind, leaving(behind, shutdown_timeout=30) as front:
        stub: Any = A2AServiceStub(front.plane.channel)  # type: ignore[no-untyped-call]
        task_id = (await front.plane.send("echo " + "x" * 1_500_000))["id"]
        half = await half_sent(front.plane, HTTP_BINDINGS[0].frame("SendMessage", sending("hello")))
        await front.drain()
        reading = [asyncio.ensure_future(stub.GetTask(sdk.GetTaskRequest(id=task_id))) for _ in range(20)]
        await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
        assert "SHUTTING_DOWN" in await half.rest()
        found = await asyncio.gather(*reading, return_exceptions=True)
        # Calls that come too late are refused.
        assert {failed(one).reason for one in found if isinstance(one, grpc.aio.AioRpcError)} <= {"NOT_READY"}
        assert {one.id for one in found if isinstance(one, sdk.Task)} == {task_id}


async def test_both_servers_end_by_one_deadline(tmp_path: Path) -> None:
    """C14: a request that does not arrive, and a stream that is not read, are cut off together."""
    async with (
        open_behind(tmp_path) as behind,
        leaving(behind, shutdown_timeout=2) as front,
        unhurried(front.plane.public) as channel,
    ):
        stub: Any = A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, parts=[sdk.Part(text="message " + "x" * 10**6)])
        unread = stub.SendStreamingMessage(sdk.SendMessageRequest(message=message))
        await unread.initial_metadata()
        half = await half_sent(front.plane, HTTP_BINDINGS[0].frame("SendMessage", sending("hello")))
        await front.drain()
        began = asyncio.get_running_loop().time()
        assert "SHUTTING_DOWN" in await half.rest(send=False)
        await front.ended.wait()
        # 2 s for both, 1 s for the last statuses, 0.5 s of the server, and time for a slow machine.
        assert 3.0 <= asyncio.get_running_loop().time() - began < 3.9
        with pytest.raises(grpc.aio.AioRpcError) as cut:
            await unread.read()
        assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
