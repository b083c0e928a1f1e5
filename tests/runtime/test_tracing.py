"""Trace context, as it travels and as it is shown."""

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.spans import ONE, OTHER, id_of, install, links_of, parent_of

from taskplane.runtime import tracing


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """A process that was started with an SDK."""
    return install(monkeypatch)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without an SDK, to which nobody has sent a trace."""
    monkeypatch.setattr(tracing.LIVE, "on", False)


def serve(headers: dict[str, str]) -> trace.Span | None:
    """Serve in an execution context that ends with the test's."""
    return tracing.serve("Submit", headers, {"rpc.method": "Submit"})


async def test_without_an_sdk_nothing_is_carried(bare: None) -> None:
    tracing.look_for_sdk()
    assert serve({}) is None
    with tracing.span("run", {}):
        assert tracing.carrier() == ()
        assert (tracing.trace_id(), tracing.packed(), tracing.here()) == ("", None, None)
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_without_an_sdk_the_context_of_a_caller_is_passed_on(bare: None) -> None:
    span = serve({"traceparent": ONE, "tracestate": "vendor=1"})
    assert span is not None and not span.is_recording()
    assert dict(tracing.carrier()) == {"traceparent": ONE, "tracestate": "vendor=1"}
    assert tracing.trace_id() == "a" * 32


async def test_an_invalid_traceparent_begins_a_new_trace(exported: InMemorySpanExporter) -> None:
    span = serve({"traceparent": "00-zz-1-01"})
    assert span is not None
    span.end()
    (served,) = exported.get_finished_spans()
    assert served.parent is None and served.kind is trace.SpanKind.SERVER


async def test_a_call_is_a_child_of_the_span_of_its_caller(exported: InMemorySpanExporter) -> None:
    with tracing.span("caller", {}):
        headers, trace_id = dict(tracing.carrier()), tracing.trace_id()
    span = serve(headers)
    assert span is not None
    assert tracing.trace_id() == trace_id
    span.end()
    call, served = exported.get_finished_spans()
    assert parent_of(served) == id_of(call)


async def test_a_span_that_the_server_was_given_already_is_the_parent(exported: InMemorySpanExporter) -> None:
    """An operator may have the servers instrumented, too: their span stands between the caller's and ours."""
    with tracing.span("of an instrumentation", {}, parent=ONE):
        span = serve({"traceparent": ONE})
        assert span is not None
        span.end()
        context.attach(context.Context())
    served, instrumented = exported.get_finished_spans()
    assert parent_of(served) == id_of(instrumented)


async def test_a_stored_traceparent_continues_the_trace(exported: InMemorySpanExporter) -> None:
    with tracing.span("first attempt", {}):
        stored, trace_id = tracing.packed(), tracing.trace_id()
    with tracing.span("second attempt", {}, parent=tracing.unpack(stored)) as again:
        assert tracing.trace_id() == trace_id
        tracing.failed(again, "UNAVAILABLE")
    first, second = exported.get_finished_spans()
    assert parent_of(second) == id_of(first)
    assert second.status.description == "UNAVAILABLE"


def test_a_traceparent_has_25_bytes_and_other_texts_have_none() -> None:
    packed = tracing.pack(ONE)
    assert packed is not None and len(packed) == 25
    assert (tracing.unpack(packed), tracing.trace_id_of(ONE)) == (ONE, "a" * 32)
    assert [tracing.pack(text) for text in ("", "00-1-2-3", ONE.upper(), ONE + "-x")] == [None] * 4
    assert tracing.unpack(None) == tracing.trace_id_of("") == ""


def test_a_batch_is_a_child_of_its_first_caller_and_linked_to_the_others(exported: InMemorySpanExporter) -> None:
    callers: list[trace.SpanContext | None] = [None]
    for name in ("one", "two"):
        with tracing.span(name, {}):
            callers += [tracing.here()] * 2
    with tracing.batch("commit", callers):
        pass
    one, two, batch = exported.get_finished_spans()
    assert parent_of(batch) == id_of(one)
    assert links_of(batch) == [id_of(two)]
    assert batch.attributes == {"taskplane.callers": 2}


def test_a_batch_of_nobody_that_is_traced_has_no_span(exported: InMemorySpanExporter) -> None:
    with tracing.batch("commit", [None, None]):
        assert tracing.trace_id() == ""
    assert exported.get_finished_spans() == ()


def test_a_link_leads_to_another_trace_only(exported: InMemorySpanExporter) -> None:
    with tracing.span("stream", {}, parent=ONE):
        for value in (OTHER, ONE, ""):
            tracing.link(value)
    (stream,) = exported.get_finished_spans()
    assert links_of(stream) == [int("d" * 16, 16)]


def test_within_a_traceparent_calls_carry_it_and_after_it_they_do_not(exported: InMemorySpanExporter) -> None:
    with tracing.within(ONE):
        assert tracing.traceparent() == ONE
    assert tracing.carrier() == ()


async def test_attributes_that_are_known_later_are_added_to_the_span(exported: InMemorySpanExporter) -> None:
    with tracing.span("POST", {}):
        tracing.describe({"rpc.method": "SendMessage"}, name="SendMessage")
        tracing.describe({"error.type": "NOT_FOUND"})
    (served,) = exported.get_finished_spans()
    assert served.name == "SendMessage"
    assert served.attributes == {"rpc.method": "SendMessage", "error.type": "NOT_FOUND"}
