"""The span of a call that is served: its parent, how long it lasts and what it says of a failure; on both channels."""

from collections.abc import AsyncIterator

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.runtime.conftest import SERVICE, Dial, as_alice, echo_services
from tests.support.spans import ONE, id_of, install, parent_of

from taskplane.runtime import errors, tracing
from taskplane.runtime.interceptors import Context

HELLO = BytesValue(value=b"hello")


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    return install(monkeypatch)


async def test_a_call_and_a_stream_are_children_of_the_span_they_are_made_in(
    dial: Dial, exported: InMemorySpanExporter
) -> None:
    seen: list[str] = []

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        seen.append(tracing.trace_id())

    async with dial(echo_services(tell=tell)) as channel:
        stub = as_alice(channel)
        with tracing.span("caller", {}):
            trace_id = tracing.trace_id()
            await stub.Say(HELLO)
            assert [reply async for reply in stub.Tell(HELLO)] == [HELLO]
    found = {span.name: span for span in exported.get_finished_spans()}
    assert set(found) == {f"{SERVICE}/Say", f"{SERVICE}/Tell", "caller"}
    caller = found.pop("caller")
    assert seen == [trace_id]
    for name, span in found.items():
        assert (span.kind, parent_of(span), span.status.status_code) == (
            SpanKind.SERVER,
            id_of(caller),
            StatusCode.UNSET,
        )
        assert span.attributes == {"rpc.system.name": "grpc", "rpc.method": name}


async def test_nothing_of_one_call_is_seen_in_the_next(dial: Dial, exported: InMemorySpanExporter) -> None:
    async with dial(echo_services()) as channel:
        stub = as_alice(channel)
        with tracing.within(ONE):
            await stub.Say(HELLO)
        await stub.Say(HELLO)
    first, second = exported.get_finished_spans()
    assert (parent_of(first), parent_of(second)) == (int("b" * 16, 16), None)


async def test_a_refusal_is_no_error_of_the_service_and_a_fault_is(dial: Dial, exported: InMemorySpanExporter) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise errors.NotFound("no such task", reason="TASK_NOT_FOUND") if request.value else LookupError("a bug")

    async with dial(echo_services(say)) as channel:
        stub = as_alice(channel)
        with pytest.raises(errors.NotFound):
            await stub.Say(HELLO)
        with pytest.raises(errors.Internal):
            await stub.Say(BytesValue())
    refused, failed = exported.get_finished_spans()
    assert (refused.attributes or {})["error.type"] == "TASK_NOT_FOUND"
    assert (refused.attributes or {})["rpc.response.status_code"] == "NOT_FOUND"
    assert [span.status.status_code for span in (refused, failed)] == [StatusCode.UNSET, StatusCode.ERROR]
    assert "a bug" not in failed.to_json()
