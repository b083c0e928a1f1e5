"""An SDK of OpenTelemetry within the process of a test, and its recorded spans."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taskplane.runtime import tracing

# Clients send two traces, and the ids of the spans there.
ONE = f"00-{'a' * 32}-{'b' * 16}-01"
OTHER = f"00-{'c' * 32}-{'d' * 16}-01"


def install(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Record spans until the test ends. A provider of the whole process could be set only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("test"))
    monkeypatch.setattr(tracing.LIVE, "on", True)
    return exporter


def id_of(span: ReadableSpan) -> int:
    """Return the id of a span."""
    assert span.context is not None
    return int(span.context.span_id)


def trace_of(span: ReadableSpan) -> str:
    """Return the trace id of a span, as it is written."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of the span's parent; None: it begins a trace."""
    return span.parent.span_id if span.parent is not None else None


def links_of(span: ReadableSpan) -> Sequence[int]:
    """Return the ids of the spans that it has links to."""
    return [link.context.span_id for link in span.links]
