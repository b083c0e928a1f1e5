"""The process's metrics in the Prometheus text format. Labels carry method names and codes, never ids or owners."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import prometheus_client
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Timing:
    """How long one thing took, each time it was done."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """It took `seconds`."""
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds


class Timings(Collector):
    """A histogram of seconds with one label, written to by one thread.

    prometheus_client's own takes two locks and walks its buckets for each value.
    """

    def __init__(self, name: str, documentation: str, label: str, buckets: Sequence[float] = BUCKETS) -> None:
        """Registers itself. ValueError: there is a metric of this name."""
        self._name = name
        self._documentation = documentation
        self._label = label
        self._buckets = buckets
        self._series: dict[str, Timing] = {}
        REGISTRY.register(self)

    def of(self, value: str) -> Timing:
        """The series of this value of the label."""
        found = self._series.get(value)
        if found is None:
            found = self._series[value] = Timing(self._buckets)
        return found

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """What was measured so far."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=[self._label])
        for value, timing in list(self._series.items()):
            together = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*map(str, self._buckets), "+Inf"), list(timing.counts), strict=True):
                together += count
                buckets.append((bound, together))
            family.add_metric([value], buckets, timing.total)
        return [family]


CALLS: Final = Counter("taskplane_rpc_calls", "RPCs answered, by method and status code.", ["method", "code"])
SECONDS: Final = Timings("taskplane_rpc_seconds", "Seconds a unary RPC took.", "method")
STREAMS: Final = Gauge("taskplane_rpc_open_streams", "Streams being served.", ["method"])


def exposition() -> tuple[bytes, str]:
    """Everything measured in this process, and its content type."""
    return prometheus_client.generate_latest(REGISTRY), CONTENT_TYPE_LATEST
