"""The SDK of OpenTelemetry for a process of a test, set up as by an operator's launcher: before any other code. Every
span is one line of JSON in a file of its process, in the folder `SPANS`. `OTEL_SERVICE_NAME` would be the same for all
processes of a plane: the last word of the command names them."""

import os
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor


def line(span: ReadableSpan) -> str:
    """Return a span as one line."""
    return f"{span.to_json(indent=None)}\n"


if "SPANS" in os.environ:
    name = sys.orig_argv[-1]
    out = (Path(os.environ["SPANS"]) / f"{name}-{os.getpid()}.jsonl").open("a", buffering=1)
    provider = TracerProvider(resource=Resource({"service.name": name}))
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=out, formatter=line)))
    trace.set_tracer_provider(provider)
