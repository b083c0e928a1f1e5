"""The process's metrics in the Prometheus text format. Labels carry method names and codes, never ids or owners."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

import prometheus_client
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RECENT: Final = 1_000


class Value:
    """A number that is exported. Whoever counts writes to it."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class Values(Collector):
    """Numbers with labels, written to by one thread; prometheus_client's own take a lock for each change."""

    def __init__(
        self,
        family: type[CounterMetricFamily] | type[GaugeMetricFamily],
        name: str,
        documentation: str,
        labels: Sequence[str],
    ) -> None:
        """Registers itself. `family`: counters only go up. ValueError: there is a metric of this name."""
        self._family = family
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._values: dict[tuple[str, ...], Value] = {}
        REGISTRY.register(self)

    def of(self, *labels: str) -> Value:
        """The number with these values of the labels."""
        found = self._values.get(labels)
        if found is None:
            found = self._values[labels] = Value()
        return found

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """What they are now."""
        family = self._family(self._name, self._documentation, labels=self._labels)
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value.now)
        return [family]


class Timing:
    """How long one thing took, each time it was done."""

    __slots__ = ("_bounds", "_counts", "_recent", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        # What is not in the counts yet: many at once are sorted into them in a fraction of the time.
        self._recent: list[float] = []

    def observe(self, seconds: float) -> None:
        """It took `seconds`."""
        recent = self._recent
        recent.append(seconds)
        if len(recent) == _RECENT:
            self._count()

    def counted(self) -> tuple[list[int], float]:
        """How often it took at most each bound but longer than the one before, then longer than all; and the sum."""
        self._count()
        return list(self._counts), self._total

    def _count(self) -> None:
        recent, self._recent = self._recent, []
        self._total += sum(recent)
        recent.sort()
        before = 0
        for index, bound in enumerate(self._bounds):
            upto = bisect_right(recent, bound, before)
            self._counts[index] += upto - before
            before = upto
        self._counts[-1] += len(recent) - before


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
            counts, total = timing.counted()
            for bound, count in zip((*map(str, self._buckets), "+Inf"), counts, strict=True):
                together += count
                buckets.append((bound, together))
            family.add_metric([value], buckets, total)
        return [family]


CALLS: Final = Values(
    CounterMetricFamily, "taskplane_rpc_calls", "RPCs answered, by method and status code.", ["method", "code"]
)
SECONDS: Final = Timings("taskplane_rpc_seconds", "Seconds a unary RPC took.", "method")
STREAMS: Final = Values(GaugeMetricFamily, "taskplane_rpc_open_streams", "Streams being served.", ["method"])


def exposition() -> tuple[bytes, str]:
    """Everything measured in this process, and its content type."""
    return prometheus_client.generate_latest(REGISTRY), CONTENT_TYPE_LATEST
