"""The metrics of calls, and the text format of all. Labels carry method names and codes, never ids or owners."""

from typing import Final

import prometheus_client
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY

from taskplane.runtime.plain_metrics import Counter, Gauge, Histogram

# For metrics that an agent's library makes.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds for histograms of calls."""

CALLS: Final = Counter("taskplane_rpc_calls", "RPCs answered, by method and status code.", ["method", "code"])
SECONDS: Final = Histogram("taskplane_rpc_seconds", "Seconds a unary RPC took.", ["method"], buckets=BUCKETS)
OPEN_STREAMS: Final = Gauge("taskplane_rpc_open_streams", "Streams being served.", ["method"])


def exposition() -> tuple[bytes, str]:
    """Return everything measured in this process, and its content type."""
    return prometheus_client.generate_latest(REGISTRY), CONTENT_TYPE_LATEST
