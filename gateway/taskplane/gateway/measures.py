"""What the gateway counts. Labels carry names of operations and outcomes, never ids or owners."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

REQUESTS: Final = Counter(
    "taskplane_http_requests", "HTTP requests answered, by operation and outcome.", ["operation", "outcome"]
)
SECONDS: Final = Histogram(
    "taskplane_http_request_seconds",
    "Seconds until a request was answered, or its stream began.",
    ["operation"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)
STREAMS: Final = Gauge("taskplane_http_open_streams", "Event streams being served.")
EVENTS: Final = Counter("taskplane_http_stream_events", "Events written to streams.")
