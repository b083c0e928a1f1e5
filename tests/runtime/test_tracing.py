"""Trace context, as it travels and as it is shown."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taskplane.runtime import tracing


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    return exporter


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def test_without_an_sdk_nothing_is_carried() -> None:
    with tracing.span("run", {}):
        assert tracing.carrier() == {}
        assert tracing.trace_id() == ""


def test_a_call_is_a_child_of_whoever_made_it(exported: InMemorySpanExporter) -> None:
    with tracing.calling_span("Submit", {}):
        headers, trace_id = tracing.carrier(), tracing.trace_id()
    with tracing.serving_span("Submit", headers, {"rpc.system": "grpc"}):
        assert tracing.trace_id() == trace_id
    call, served = exported.get_finished_spans()
    assert parent_of(served) == (call.context.span_id if call.context else None)


def test_what_is_stored_goes_on_in_the_same_trace(exported: InMemorySpanExporter) -> None:
    with tracing.span("first attempt", {}):
        stored, trace_id = tracing.traceparent(), tracing.trace_id()
    with tracing.span("second attempt", {}, parent=stored, links=[stored, ""]) as again:
        assert tracing.trace_id() == trace_id
        tracing.failed(again, "UNAVAILABLE", "the store is away")
    _, second = exported.get_finished_spans()
    assert len(second.links) == 1
    assert second.status.description == "UNAVAILABLE: the store is away"
