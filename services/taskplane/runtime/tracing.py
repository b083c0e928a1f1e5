"""Traces by OpenTelemetry's API, which does nothing unless the process has its SDK.

The context travels as W3C `traceparent`: in HTTP headers, in the metadata of calls, and with the events of a task, so
that a run on another process, later, belongs to the same trace. A process without an SDK makes no spans, but passes on
the context that a caller sends.
"""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
HEADERS: Final = frozenset({TRACEPARENT, TRACESTATE})

_Attributes = Mapping[str, str | int | float | bool]
_tracer: Final = trace.get_tracer("taskplane")
_w3c: Final = TraceContextTextMapPropagator()
_FORM: Final = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class _Live:
    """Whether anything here can belong to a trace: there is an SDK, or somebody has sent a `traceparent`."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


LIVE: Final = _Live()
"""Until this is on nothing below looks for a span, and the hot path asks here instead of there."""


def look_for_sdk() -> None:
    """Make spans from now on if the process has an SDK. For the composition of a process."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        LIVE.on = True


def here() -> SpanContext | None:
    """Return the context of the current span; None if no span is current."""
    if not LIVE.on:
        return None
    found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def carrier() -> Sequence[tuple[str, str]]:
    """Return the current context as metadata; empty if no span is current."""
    if here() is None:
        return ()
    found: dict[str, str] = {}
    _w3c.inject(found)
    return tuple(found.items())


def traceparent() -> str:
    """Return the current `traceparent`; empty if no span is current."""
    return dict(carrier()).get(TRACEPARENT, "")


def trace_id() -> str:
    """Return the id of the current trace as 32 hexadecimal digits; empty if no span is current."""
    found = here()
    return f"{found.trace_id:032x}" if found is not None else ""


def trace_id_of(value: str) -> str:
    """Return the trace id of a `traceparent`; "" for ""."""
    return value[3:35]


def pack(value: str) -> bytes | None:
    """Return the 25 bytes of a `traceparent` (ids and flags); None for any other text."""
    found = _FORM.fullmatch(value)
    return bytes.fromhex("".join(found.groups())) if found is not None else None


def unpack(value: bytes | None) -> str:
    """Return the `traceparent` of its 25 bytes; empty for None."""
    return f"00-{value[:16].hex()}-{value[16:24].hex()}-{value[24:].hex()}" if value is not None else ""


def packed() -> bytes | None:
    """Return the current `traceparent` in 25 bytes; None if no span is current."""
    return pack(traceparent()) if LIVE.on else None


def serve(name: str, headers: Mapping[str, str], attributes: _Attributes) -> Span | None:
    """Begin a span of kind SERVER, current for the rest of this execution context; the caller ends it.

    Its parent is the current span (that of an instrumentation of the server), otherwise the context in `headers`. None:
    nobody traces.
    """
    if headers:
        LIVE.on = True
    elif not LIVE.on:
        return None
    if here() is None:
        context.attach(_w3c.extract(headers))
    span = _tracer.start_span(name, kind=SpanKind.SERVER, attributes=attributes)
    context.attach(trace.set_span_in_context(span))
    return span


@contextmanager
def span(name: str, attributes: _Attributes, *, parent: str = "") -> Generator[Span]:
    """Make a span current. `parent` is a `traceparent`; without one it is the current span."""
    if not (LIVE.on or parent):
        yield trace.INVALID_SPAN
        return
    with within(parent), _tracer.start_as_current_span(name, attributes=attributes) as started:
        yield started


@contextmanager
def batch(name: str, members: Iterable[SpanContext | None]) -> Generator[None]:
    """Make a span for work on behalf of several callers at once, if one of them has a span.

    It is a child of the first span and has links to the others.
    """
    found = {member.span_id: member for member in members if member is not None} if LIVE.on else {}
    if not found:
        yield
        return
    first, *others = found.values()
    with _tracer.start_as_current_span(
        name,
        trace.set_span_in_context(trace.NonRecordingSpan(first)),
        attributes={"taskplane.callers": len(found)},
        links=[Link(other) for other in others],
    ):
        yield


@contextmanager
def within(parent: str) -> Generator[None]:
    """Make the context of a `traceparent` current; nothing changes if it is empty."""
    if not parent:
        yield
        return
    LIVE.on = True
    token = context.attach(_w3c.extract({TRACEPARENT: parent}))
    try:
        yield
    finally:
        context.detach(token)


def link(value: str) -> None:
    """Add a link from the current span to that of a `traceparent`, if it is in another trace."""
    own = here()
    if own is None or not value:
        return
    other = trace.get_current_span(_w3c.extract({TRACEPARENT: value})).get_span_context()
    if other.is_valid and other.trace_id != own.trace_id:
        trace.get_current_span().add_link(other)


def describe(attributes: _Attributes, *, name: str = "") -> None:
    """Add attributes to the current span, and rename it if a `name` is given, both known only after its beginning."""
    if LIVE.on:
        current = trace.get_current_span()
        current.set_attributes(attributes)
        if name:
            current.update_name(name)


def failed(span: Span, reason: str) -> None:
    """Mark a span as failed, for a reason in capitals."""
    span.set_attribute("error.type", reason)
    span.set_status(Status(StatusCode.ERROR, reason))
