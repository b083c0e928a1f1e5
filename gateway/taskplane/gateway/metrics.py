"""The metrics of the gateway. Labels contain names of operations and outcomes, never ids or owners."""

from typing import Final

from taskplane.runtime.metrics import BUCKETS
from taskplane.runtime.plain_metrics import Counter, Gauge, Histogram

_REQUESTS: Final = Counter(
    "taskplane_http_requests", "HTTP requests answered, by operation and outcome.", ["operation", "outcome"]
)
SECONDS: Final = Histogram(
    "taskplane_http_request_seconds",
    "Seconds until the response, or until the beginning of a stream.",
    ["operation"],
    buckets=(*BUCKETS, 60.0),
)
STREAMS: Final = Gauge("taskplane_http_open_streams", "Open event streams.")
EVENTS: Final = Counter("taskplane_http_stream_events", "Events written to streams.")
IGNORED_NAMES: Final = Counter(
    "taskplane_http_ignored_names",
    "Requests with a user id that was ignored because authentication is configured, by its place (header or query).",
    ["place"],
)


def answered(operation: str, outcome: str = "ok") -> None:
    """Count one answered request; `outcome` is the reason of its error, or ok."""
    _REQUESTS.labels(operation, outcome).value += 1
