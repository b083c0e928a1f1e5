"""Metrics with values that are plain numbers, read by `prometheus_client` when the metrics are requested.

A send changes about forty values. With the locks and checks of `prometheus_client` for each of them, it made 150 to 250
more calls. A value belongs to one thread at a time: that of the event loop.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

Kept = TypeVar("Kept")


class Number:
    """A number. On the hot path add to `value` itself."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add to it."""
        self.value += by

    def dec(self, by: float = 1) -> None:
        """Take from it."""
        self.value -= by

    def set(self, value: float) -> None:
        """Replace the value."""
        self.value = value

    @contextmanager
    def during(self) -> Generator[None]:
        """Count the body while it runs."""
        self.value += 1
        try:
            yield
        finally:
            self.value -= 1


class Distribution:
    """The number of values up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def observe(self, value: float) -> None:
        """Take in one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class _Family(Collector, Generic[Kept]):
    """The values of one metric by their labels."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str] = (), *, registry: CollectorRegistry = REGISTRY
    ) -> None:
        """Register a metric; without `labels` it has one value from the beginning."""
        self.name: Final = name
        self.documentation: Final = documentation
        self.label_names: Final = tuple(labels)
        self._kept: dict[tuple[str, ...], Kept] = {}
        if not labels:
            self.labels()
        registry.register(self)

    def labels(self, *values: str) -> Kept:
        """Return the counter for these values of the labels. Bind it once where it is used often."""
        found = self._kept.get(values)
        if found is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}")
            found = self._kept[values] = self._new()
        return found

    @abstractmethod
    def _new(self) -> Kept: ...

    def describe(self) -> list[Metric]:
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        yield self._filled(self._family())

    @abstractmethod
    def _family(self) -> Metric: ...

    @abstractmethod
    def _filled(self, family: Metric) -> Metric: ...


class _Numbers(_Family[Number]):
    def _new(self) -> Number:
        return Number()

    def _filled(self, family: Metric) -> Metric:
        name = f"{self.name}_total" if isinstance(family, CounterMetricFamily) else self.name
        for values, number in list(self._kept.items()):
            family.add_sample(name, dict(zip(self.label_names, values, strict=True)), number.value)
        return family


class Counter(_Numbers):
    """Numbers that only grow."""

    def inc(self, by: float = 1) -> None:
        """Add to the only value."""
        self.labels().inc(by)

    def _family(self) -> Metric:
        return CounterMetricFamily(self.name, self.documentation, labels=self.label_names)


class Gauge(_Numbers):
    """Numbers that come and go."""

    def set(self, value: float) -> None:
        """Set the only value."""
        self.labels().set(value)

    def _family(self) -> Metric:
        return GaugeMetricFamily(self.name, self.documentation, labels=self.label_names)


class Histogram(_Family[Distribution]):
    """Distributions over the same bounds."""

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry = REGISTRY,
    ) -> None:
        self._bounds = tuple(map(float, buckets))
        super().__init__(name, documentation, labels, registry=registry)

    def _new(self) -> Distribution:
        return Distribution(self._bounds)

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self.name, self.documentation, labels=self.label_names)

    def observe(self, value: float) -> None:
        """Count one value of a metric without labels."""
        self.labels().observe(value)

    def _filled(self, family: Metric) -> Metric:
        assert isinstance(family, HistogramMetricFamily)
        for values, found in list(self._kept.items()):
            buckets: list[tuple[str, float]] = []
            total = 0
            for bound, count in zip((*map(repr, self._bounds), "+Inf"), found.counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric(values, buckets, found.sum)
        return family
