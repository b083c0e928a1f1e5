"""The official client of A2A, unmodified, behind a proxy that cuts its connections: no event is missing or repeated."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.client import A2AClientError, Client, ClientCallContext
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, TaskState
from a2a.utils.errors import InvalidParamsError
from tests.gateway.plane import Plane, fresh, open_all
from tests.support.cutting import CuttingProxy
from tests.support.official_python import official_python
from tests.support.ports import free_port

from taskplane.client import Unreachable
from taskplane.client.resuming import resumed
from taskplane.gateway.errors import status_grpc, status_grpc_0_3
from taskplane.runtime.errors import Internal
from taskplane.runtime.status import code_of, trailers

pytestmark = pytest.mark.asyncio(loop_scope="module")
_EVENTS = 200
_EVERY = 20
_CURSOR = "taskplane.dev/cursor"


@asynccontextmanager
async def official(
    plane: Plane, port: int, binding: str, version: str = "1.0", patience: float = 10.0
) -> AsyncGenerator[Client]:
    """The official client over a binding of a version, at the gateway or what stands before it on this port."""
    async with official_python(plane.gateway.url, binding, version, port=port, patience=patience) as (client, _):
        yield client


def request(text: str, **fields: Any) -> SendMessageRequest:
    message = Message(message_id=secrets.token_hex(8), role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
    return SendMessageRequest(message=message)


def generations(events: list[StreamResponse]) -> list[int]:
    payloads = [getattr(event, event.WhichOneof("payload") or "") for event in events]
    return [int(each.metadata.fields[_CURSOR].string_value.rpartition("-")[2]) for each in payloads]


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_p12_a_stream_of_the_official_client_that_is_cut_every_20_events_has_each_event_once(
    plane: Plane, proxy: CuttingProxy, binding: str, version: str
) -> None:
    proxy.cut_every = _EVERY
    if binding == "GRPC":
        proxy.aim("127.0.0.1", plane.public.port)
        # Over gRPC the cut comes in the next event, at its cursor.
        proxy.cut_every, proxy.event_end = _EVERY + 1, _CURSOR.encode()
    key, sent = fresh(), request(f"chunks {_EVENTS - 3} 8")
    async with official(plane, proxy.port, binding, version) as client:
        events = [event async for event in resumed(client, sent, key=key)]
        assert generations(events) == list(range(1, _EVENTS + 1))
        assert proxy.cuts >= _EVENTS // _EVERY - 1
        # A program that starts again under its key gets the same task, as it is.
        proxy.cut_every = None
        (again,) = [event async for event in resumed(client, sent, key=key)]
        assert (again.task.id, again.task.status.state) == (events[0].task.id, TaskState.TASK_STATE_COMPLETED)
    tasks = await plane.result("ListTasks", {"contextId": events[0].task.context_id})
    assert len(tasks["tasks"]) == 1


async def test_a_cut_before_the_first_event_sends_under_the_same_key(plane: Plane, proxy: CuttingProxy) -> None:
    """D12: the message is done once."""
    proxy.cut_after = 40
    sent = request("chunks 5 8", context_id=(context := fresh()))
    async with official(plane, proxy.port, "JSONRPC") as client:
        events = [event async for event in resumed(client, sent)]
    assert proxy.cuts == 1
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED or len(events) == 1
    assert len((await plane.result("ListTasks", {"contextId": context}))["tasks"]) == 1


class FailsOnce(grpc.GenericRpcHandler):
    """Fails the first call, and passes the others on to a gateway. `bare`: with this status alone, in place of an
    internal error."""

    def __init__(self, plane: Plane, bare: grpc.StatusCode | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self._bare = bare
        self._channel: Any = plane.channel

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method = handler_call_details.method

        async def serve(request: bytes, context: Any) -> AsyncIterator[bytes]:
            metadata = [pair for pair in context.invocation_metadata() if pair[0] not in ("user-agent", "te")]
            self.calls.append((method.rpartition("/")[2], dict(metadata).get("idempotency-key", "")))
            if len(self.calls) == 1 and self._bare is not None:
                await context.abort(self._bare)
            elif len(self.calls) == 1:
                told = (status_grpc_0_3 if method.startswith("/a2a.v1") else status_grpc)(
                    Internal("internal error"), "r"
                )
                await context.abort(code_of(told), told.message, trailing_metadata=trailers(told))
            async for reply in self._channel.unary_stream(method)(request, metadata=metadata):
                yield reply

        made: Any = serve
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(made)
        return handler


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("bare", [None, grpc.StatusCode.CANCELLED], ids=["internal", "cancelled"])
async def test_an_internal_error_and_a_cancellation_by_the_server_over_grpc_are_no_refusals(
    plane: Plane, bare: grpc.StatusCode | None, version: str
) -> None:
    """D12: the message is sent again under its key. A server that stops cancels the calls of that moment."""
    fails, key = FailsOnce(plane, bare), fresh()
    server = grpc.aio.server(handlers=[fails])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with official(plane, port, "GRPC", version) as client:
            events = [event async for event in resumed(client, request("chunks 5 8"), key=key)]
    finally:
        await server.stop(0.5)
    assert generations(events) == list(range(1, 9))
    assert fails.calls == [("SendStreamingMessage", key)] * 2


async def test_a_question_ends_the_events_and_a_direct_answer_is_all(plane: Plane) -> None:
    context = ClientCallContext(service_parameters={"A2A-Extensions": "https://unknown"})
    async with official(plane, plane.gateway.port, "HTTP+JSON") as client:
        asked = [event async for event in resumed(client, request("ask"), context=context)]
        assert asked[-1].status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        answer = request("Ann", task_id=asked[0].task.id, context_id=asked[0].task.context_id)
        done = [event async for event in resumed(client, answer)]
        assert done[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        (direct,) = [event async for event in resumed(client, request("message hi"))]
        assert direct.message.parts[0].text == "hi"
    assert context.service_parameters == {"A2A-Extensions": "https://unknown"}


async def test_a_refusal_is_that_of_the_client_and_a_server_that_is_away_is_told(plane: Plane) -> None:
    async with official(plane, plane.gateway.port, "JSONRPC") as client:
        with pytest.raises(InvalidParamsError):
            await anext(resumed(client, SendMessageRequest(message=Message(role=Role.ROLE_USER))))
    async with official(plane, free_port(), "JSONRPC") as client:
        with pytest.raises(Unreachable):
            await anext(resumed(client, request("hi"), give_up_after=0.3))


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_server_that_accepts_and_says_nothing_is_given_up(plane: Plane, binding: str) -> None:
    """The time before the client notices it, here more than the longest pause, is no success."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, asyncio.timeout(20), official(plane, port, binding, patience=1.2) as client:
        with pytest.raises(Unreachable) as away:
            await anext(resumed(client, request("hi"), give_up_after=2.0))
    assert away.value.reason == "SILENT"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_request_that_is_too_large_for_grpc_is_refused_at_once(plane: Plane, version: str) -> None:
    async with asyncio.timeout(30), official(plane, plane.public.port, "GRPC", version) as client:
        with pytest.raises(A2AClientError, match="RESOURCE_EXHAUSTED"):
            await anext(resumed(client, request("x" * 5_000_000)))


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_limit_of_streams_is_waited_for(tmp_path: Path, binding: str) -> None:
    async with (
        open_all(tmp_path, max_streams_per_principal=1) as plane,
        official(plane, plane.public.port if binding == "GRPC" else plane.gateway.port, binding) as client,
    ):
        first = resumed(client, request("slow 200"))
        await anext(first)
        with pytest.raises(Unreachable):
            await anext(resumed(client, request("hi"), give_up_after=0.3))
        await first.aclose()
