"""Numbers are exported as they were counted, whenever that is asked for."""

from bisect import bisect_left

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily

from taskplane.runtime.metrics import Timing, Timings, Values


def test_times_are_in_the_bucket_of_the_least_bound_that_is_not_exceeded() -> None:
    bounds = (0.1, 0.2, 0.5)
    timing = Timing(bounds)
    expected = [0, 0, 0, 0]
    total = 0.0
    for number in range(2_503):
        seconds = (number * 7 % 60) / 100
        timing.observe(seconds)
        expected[bisect_left(bounds, seconds)] += 1
        total += seconds
        if number in (0, 999, 1_000, 1_700):
            assert timing.counted()[0] == expected
    counts, together = timing.counted()
    assert counts == expected
    assert abs(together - total) < 1e-6
    assert timing.counted() == (counts, together)


def test_what_is_exported_is_the_sum_up_to_each_bound() -> None:
    timings = Timings("test_seconds", "For a test.", "what", buckets=(0.1, 0.2))
    try:
        for seconds in (0.1, 0.15, 0.2, 3.0):
            timings.of("x").observe(seconds)
        buckets = {
            bound: REGISTRY.get_sample_value("test_seconds_bucket", {"what": "x", "le": bound})
            for bound in ("0.1", "0.2", "+Inf")
        }
        assert buckets == {"0.1": 1, "0.2": 3, "+Inf": 4}
        assert REGISTRY.get_sample_value("test_seconds_count", {"what": "x"}) == 4
    finally:
        REGISTRY.unregister(timings)


def test_a_number_is_exported_with_its_labels() -> None:
    values = Values(GaugeMetricFamily, "test_open", "For a test.", ["kind", "side"])
    try:
        values.of("a", "left").now += 2
        values.of("a", "left").now -= 1
        values.of("b", "right")
        for kind, side, number in (("a", "left", 1), ("b", "right", 0)):
            assert REGISTRY.get_sample_value("test_open", {"kind": kind, "side": side}) == number
    finally:
        REGISTRY.unregister(values)
