"""Traces by OpenTelemetry's API, which does nothing unless the process has its SDK.

The context travels as W3C `traceparent`: in HTTP headers, in the metadata of calls, and with the event that creates a
task, so that a run on another process, later, belongs to the same trace.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

TRACEPARENT: Final = "traceparent"

_tracer: Final = trace.get_tracer("taskplane")
_Attributes = Mapping[str, str | int | float | bool]


def carrier() -> dict[str, str]:
    """Return the current context as headers or metadata; empty if no span is current."""
    found: dict[str, str] = {}
    propagate.inject(found)
    return found


def traceparent() -> str:
    """Return the current `traceparent`; empty if no span is current."""
    return carrier().get(TRACEPARENT, "")


def trace_id() -> str:
    """Return the id of the current trace as 32 hexadecimal digits; empty if no span is current."""
    found = trace.get_current_span().get_span_context()
    return f"{found.trace_id:032x}" if found.is_valid else ""


@contextmanager
def serving_span(name: str, headers: Mapping[str, str], attributes: _Attributes) -> Iterator[Span]:
    """Make a span of kind SERVER current, a child of the context in `headers`. An exception is recorded on it."""
    with _tracer.start_as_current_span(
        name, propagate.extract(headers), kind=SpanKind.SERVER, attributes=attributes
    ) as span:
        yield span


@contextmanager
def calling_span(name: str, attributes: _Attributes) -> Iterator[Span]:
    """Make a span of kind CLIENT current."""
    with _tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=attributes) as span:
        yield span


@contextmanager
def span(name: str, attributes: _Attributes, *, parent: str = "", links: Iterable[str] = ()) -> Iterator[Span]:
    """Make a span current. `parent` and `links` are `traceparent` values; without a parent it is the current span."""
    with _tracer.start_as_current_span(
        name, _context(parent) if parent else None, attributes=attributes, links=list(_links(links))
    ) as started:
        yield started


def failed(span: Span, code: str, message: str) -> None:
    """Mark a span as failed with a status code and what happened."""
    span.set_status(Status(StatusCode.ERROR, f"{code}: {message}"))


def _context(value: str) -> context.Context:
    return propagate.extract({TRACEPARENT: value})


def _links(values: Iterable[str]) -> Iterator[Link]:
    for value in values:
        found = trace.get_current_span(_context(value)).get_span_context()
        if found.is_valid:
            yield Link(found)
