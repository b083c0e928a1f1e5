"""Timestamps as RFC 3339 text."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.translate.messages import unhurried

from taskplane.gateway.translate.timestamps import from_text, to_text


@unhurried
@given(st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999))
def test_a_time_is_written_as_in_protojson(seconds: int, nanos: int) -> None:
    """a2a B3."""
    stamp = Timestamp(seconds=seconds, nanos=nanos)
    assert to_text(stamp) == stamp.ToJsonString()


@unhurried
@given(st.integers(-62135596800, 253402300799), st.integers(0, 999_999_999) | st.sampled_from([5_000_000, 999_000_000]))
def test_a_written_time_is_read_back_unchanged(seconds: int, nanos: int) -> None:
    """a2a B3: with 0, 3, 6 or 9 digits of fraction."""
    stamp = Timestamp(seconds=seconds, nanos=nanos)
    assert from_text(to_text(stamp)) == stamp


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.500Z"),
        ("2026-01-02T03:04:05.1234567+01:00", "2026-01-02T02:04:05.123456700Z"),
        ("2026-01-02T03:04:05.12345678901Z", "2026-01-02T03:04:05.123456789Z"),
    ],
)
def test_time_zones_are_converted_and_a_missing_one_means_utc(text: str, written: str) -> None:
    assert to_text(from_text(text)) == written
