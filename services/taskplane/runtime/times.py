"""Times of messages, as microseconds since 1970. Unlike the library's conversions these take any stored number."""

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

_SECOND: Final = 1_000_000


def micros(stamp: Timestamp) -> int:
    """Return a time in microseconds since 1970; 0 if it is not set."""
    return stamp.seconds * _SECOND + stamp.nanos // 1000


def set_time(stamp: Timestamp, micros: int) -> None:
    """Set an empty stamp to a time in microseconds since 1970."""
    stamp.seconds, rest = divmod(micros, _SECOND)
    stamp.nanos = rest * 1000
