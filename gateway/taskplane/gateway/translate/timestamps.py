"""Times as JSON has them: google.protobuf.Timestamp <-> RFC 3339 text, and durations."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = datetime(1970, 1, 1)
_MAX_SECONDS = 253402300799
_MIN_SECONDS = -62135596800
_MILLISECONDS: Final = 3
_LEAP_SECOND: Final = re.compile(r"(?<=\d\d:\d\d:)60")
# The digits of a fraction that Python drops.
_NANOSECONDS: Final = re.compile(r"[.,][0-9]{6}([0-9]{1,3})")


@lru_cache(maxsize=4096)
def _whole(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=min(max(seconds, _MIN_SECONDS), _MAX_SECONDS))).isoformat()


def to_text(stamp: Timestamp) -> str:
    """Return UTC with `Z` and 0, 3, 6 or 9 digits of fraction, as ProtoJSON prints it.

    A time outside the years 1 to 9999, which RFC 3339 cannot express, becomes the nearest one that it can.
    """
    whole = _whole(stamp.seconds)
    nanos = stamp.nanos
    if not nanos:
        return whole + "Z"
    if nanos % 1000:
        return f"{whole}.{str(nanos).zfill(9)}Z"
    if nanos % 1_000_000:
        return f"{whole}.{str(nanos // 1000).zfill(6)}Z"
    return f"{whole}.{str(nanos // 1_000_000).zfill(3)}Z"


def from_text(text: str) -> Timestamp:
    """Parse RFC 3339. A time without a zone, as some runtimes write it, is UTC; second 60 is the first one of the next
    minute. Raise ValueError for anything else, OverflowError beyond the year 9999."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = _unusual(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    more = _NANOSECONDS.search(text)
    nanos = passed.microseconds * 1000 + (int(more[1].ljust(3, "0")) if more else 0)
    return Timestamp(seconds=passed.days * 86400 + passed.seconds, nanos=nanos)


def to_seconds(duration: float) -> float:
    """Return a duration in seconds, rounded to the millisecond."""
    return round(duration, _MILLISECONDS)


def _unusual(text: str) -> datetime:
    """Parse a lower-case `z` and a leap second, which RFC 3339 allows and Python does not."""
    text, leaps = _LEAP_SECOND.subn("59", text.upper(), count=1)
    return datetime.fromisoformat(text) + timedelta(seconds=leaps)
