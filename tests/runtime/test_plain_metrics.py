"""The metrics of plain numbers against those of `prometheus_client`."""

from typing import Any

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from taskplane.runtime import metrics, plain_metrics


def exposed(kinds: Any) -> str:
    """Measure the same with the metrics of either module; the text that a scraper gets."""
    registry = CollectorRegistry()
    counter = kinds.Counter("test_calls", "Calls, by method.", ["method", "code"], registry=registry)
    for code in ("OK", 'a "quote"'):
        counter.labels("/a", code).inc()
        counter.labels("/a", code).inc(2.5)
    alone = kinds.Counter("test_alone", "Without labels.", registry=registry)
    alone.inc()
    kinds.Counter("test_never", "Never counted.", registry=registry)
    kinds.Counter("test_none", "No label seen.", ["agent"], registry=registry)
    gauge = kinds.Gauge("test_open", "Open ones.", ["of"], registry=registry)
    gauge.labels("task").inc()
    gauge.labels("task").inc()
    gauge.labels("task").dec()
    single = kinds.Gauge("test_single", "A single one.", registry=registry)
    single.set(7)
    seconds = kinds.Histogram("test_seconds", "Seconds.", ["store"], buckets=(0.1, 1, 60), registry=registry)
    for value in (0.05, 0.1, 0.5, 1, 60, 61):
        seconds.labels("tasks").observe(value)
    ops = kinds.Histogram("test_ops", "Operations.", buckets=(1, 2), registry=registry)
    ops.observe(2)
    return generate_latest(registry).decode()


def test_the_exposition_is_that_of_prometheus_client() -> None:
    assert metrics.CALLS  # its module leaves the times of creation out
    ours = exposed(plain_metrics)
    assert ours.count("\n") > 30
    assert ours == exposed(prometheus_client)


def test_two_metrics_of_one_name_are_refused() -> None:
    registry = CollectorRegistry()
    plain_metrics.Counter("test", "First.", registry=registry)
    with pytest.raises(ValueError, match="Duplicated"):
        plain_metrics.Counter("test", "Second.", registry=registry)


def test_labels_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="labels"):
        plain_metrics.Counter("test", "By method.", ["method"], registry=CollectorRegistry()).labels()
