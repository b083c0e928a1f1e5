"""What the gateway counts. Labels carry names of operations and outcomes, never ids or owners."""

from functools import cache
from typing import Final

from prometheus_client import Counter, Gauge

from taskplane.runtime.metrics import BUCKETS, Timings

REQUESTS: Final = Counter(
    "taskplane_http_requests", "HTTP requests answered, by operation and outcome.", ["operation", "outcome"]
)
SECONDS: Final = Timings(
    "taskplane_http_request_seconds",
    "Seconds until a request was answered, or its stream began.",
    "operation",
    (*BUCKETS, 60.0),
)
STREAMS: Final = Gauge("taskplane_http_open_streams", "Event streams being served.")
EVENTS: Final = Counter("taskplane_http_stream_events", "Events written to streams.")


@cache
def answered(operation: str) -> Counter:
    """Counts requests of one operation that were answered as wanted. The names of operations are few."""
    return REQUESTS.labels(operation, "ok")
