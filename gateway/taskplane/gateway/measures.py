"""What the gateway counts. Labels carry names of operations and outcomes, never ids or owners."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from taskplane.runtime.metrics import BUCKETS, Timings


class _Requests(Collector):
    """Counted twice for each request, by the event loop's thread only, so without the locks of prometheus_client."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        REGISTRY.register(self)

    def count(self, operation: str, outcome: str = "ok") -> None:
        """One request was answered; `outcome` is the reason of its error, or ok."""
        key = (operation, outcome)
        self._counts[key] = self._counts.get(key, 0) + 1

    def collect(self) -> Iterable[CounterMetricFamily]:
        """What was counted so far."""
        family = CounterMetricFamily(
            "taskplane_http_requests",
            "HTTP requests answered, by operation and outcome.",
            labels=["operation", "outcome"],
        )
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        return [family]


REQUESTS: Final = _Requests()
SECONDS: Final = Timings(
    "taskplane_http_request_seconds",
    "Seconds until a request was answered, or its stream began.",
    "operation",
    (*BUCKETS, 60.0),
)
STREAMS: Final = Gauge("taskplane_http_open_streams", "Event streams being served.")
EVENTS: Final = Counter("taskplane_http_stream_events", "Events written to streams.")
