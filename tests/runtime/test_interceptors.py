"""Every call has one log line, one count and a request id: unary or a stream, on a socket or in process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import cast

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from prometheus_client import REGISTRY
from tests.runtime.conftest import LOOK, SAY, SERVICE, TELL, Dial, as_alice, echo_services, say_back

from taskplane.runtime import errors, interceptors, logs, metrics
from taskplane.runtime.interceptors import Context

HELLO = BytesValue(value=b"hello")
LOGGER = "taskplane.runtime.interceptors"


def counted(method: str, code: str) -> float:
    return REGISTRY.get_sample_value("taskplane_rpc_calls_total", {"method": method, "code": code}) or 0.0


async def test_a_valid_request_id_is_passed_on_and_an_invalid_one_replaced(dial: Dial) -> None:
    seen: list[str] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(logs.request_id.get())
        return request

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield await say(request, context)

    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        token = logs.request_id.set("from-the-gateway")
        try:
            await stub.Say(HELLO)
            assert [reply async for reply in stub.Tell(HELLO)]
        finally:
            logs.request_id.reset(token)
        await stub.Say(HELLO)
        await stub.Say(HELLO, metadata=(("x-request-id", "not an id"),))
        await stub.Say(HELLO, metadata=(("x-request-id", "x" * 129),))
    assert seen[:2] == ["from-the-gateway"] * 2
    assert all(len(made) == 16 for made in seen[2:])
    assert len(set(seen[2:])) == 3


async def test_every_call_has_one_line_at_info_after_a_failure_else_at_debug(
    dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    """A lookup that finds nothing is not a failure."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        if request.value == b"refused":
            raise errors.Refused("ended", reason="TERMINAL")
        return request

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        raise errors.NotFound("no such task", reason="TASK")

    caplog.set_level(logging.DEBUG, LOGGER)
    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        await stub.Say(HELLO)
        with pytest.raises(errors.Refused):
            await stub.Say(BytesValue(value=b"refused"))
        with pytest.raises(errors.NotFound):
            async for _ in stub.Tell(HELLO):
                pass
    lines = [record for record in caplog.records if record.name == LOGGER]
    assert [(line.levelname, vars(line)["method"], vars(line)["code"], vars(line)["reason"]) for line in lines] == [
        ("DEBUG", SAY, "OK", None),
        ("INFO", SAY, "FAILED_PRECONDITION", "TERMINAL"),
        ("DEBUG", TELL, "NOT_FOUND", "TASK"),
    ]
    assert all(vars(line)["actor"] == "user:alice" and vars(line)["ms"] >= 0 for line in lines)
    assert "hello" not in caplog.text


async def test_a_slow_call_is_seen_at_info(
    dial: Dial, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interceptors, "SLOW", 0.0)
    caplog.set_level(logging.INFO, LOGGER)
    async with dial(echo_services()) as channel:
        await as_alice(channel).Say(HELLO)
    assert [(record.levelname, vars(record)["code"]) for record in caplog.records] == [("INFO", "OK")]


async def test_calls_are_counted_by_method_and_code(dial: Dial) -> None:
    hold = asyncio.Event()
    begun = asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise errors.Refused("ended", reason="TERMINAL")

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        begun.set()
        await hold.wait()
        yield request

    refused, told = counted(SAY, "FAILED_PRECONDITION"), counted(TELL, "OK")
    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        with pytest.raises(errors.Refused):
            await stub.Say(HELLO)
        stream = stub.Tell(HELLO)
        await begun.wait()
        assert REGISTRY.get_sample_value("taskplane_rpc_open_streams", {"method": TELL}) == 1
        hold.set()
        assert [reply async for reply in stream] == [HELLO]
        assert REGISTRY.get_sample_value("taskplane_rpc_open_streams", {"method": TELL}) == 0
    assert counted(SAY, "FAILED_PRECONDITION") == refused + 1
    assert counted(TELL, "OK") == told + 1
    text, content_type = metrics.exposition()
    assert content_type.startswith("text/plain")
    assert f'taskplane_rpc_calls_total{{code="FAILED_PRECONDITION",method="{SAY}"}}'.encode() in text
    assert f'taskplane_rpc_seconds_bucket{{le="0.001",method="{SAY}"}}'.encode() in text


async def test_a_client_that_leaves_is_counted_as_cancelled(dial: Dial) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().call_soon(ended.set)
        return request

    before = counted(SAY, "CANCELLED")
    async with dial(echo_services(say)) as channel:
        call = asyncio.ensure_future(as_alice(channel).Say(HELLO))
        await begun.wait()
        call.cancel()
        await ended.wait()
    assert counted(SAY, "CANCELLED") == before + 1


@dataclass
class Call:
    """The details of a call by which a generic handler finds its method."""

    method: str
    invocation_metadata: tuple[()] = ()


class Server:
    """Records the handlers that a gRPC server would be given."""

    def __init__(self) -> None:
        self.given: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        self.given += handlers

    def handler(self, path: str) -> object:
        (found,) = (each.service(cast("grpc.HandlerCallDetails", Call(path))) for each in self.given)
        return found


def test_handlers_are_wrapped_once_and_every_server_gets_the_same() -> None:
    services = echo_services()
    assert sorted(services.handlers) == sorted((SAY, LOOK, TELL))
    assert services.names == [SERVICE]
    given: object = services.handlers[SAY].unary_unary
    assert given is not say_back
    first, second = Server(), Server()
    for server in (first, second):
        services.register(cast("grpc.aio.Server", server))
    for path, wrapped in services.handlers.items():
        assert first.handler(path) is second.handler(path) is wrapped
