"""How deep a request may go, before and after it is a protobuf message."""

from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError, Message

from taskplane.gateway.translate.fields import Violations
from taskplane.runtime.errors import Invalid

# Levels of a whole JSON document.
MAX_DEPTH: Final = 64
# Up to here a Struct is read by every protobuf parser, whatever message it stands in.
_SAFE_DEPTH: Final = 12
_CONTAINERS: Final = frozenset({dict, list})


def parse(body: bytes) -> Any:
    """The JSON value of a body. ValueError: it is none. Invalid: it is nested deeper than 64 levels."""
    value = orjson.loads(body)
    # A document cannot be deeper than it has brackets, and counting them is far cheaper than walking it.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and deeper_than(value, MAX_DEPTH):
        raise Invalid(f"the request is nested deeper than {MAX_DEPTH} levels", reason="TOO_DEEP")
    return value


def deeper_than(value: Any, limit: int) -> bool:
    """It has more than `limit` levels of objects and lists."""
    level: list[Any] = [value]
    for _ in range(limit):
        below: list[Any] = []
        for one in level:
            below += one.values() if type(one) is dict else one if type(one) is list else ()
        level = [one for one in below if type(one) in _CONTAINERS]
        if not level:
            return False
    return True


def check_readable(message: Message, bad: Violations) -> None:
    """Invalid if the message could be stored but not read again, which parsers do to deeply nested Structs."""
    if bad.deepest > _SAFE_DEPTH:
        try:
            type(message).FromString(message.SerializeToString())
        except DecodeError:
            raise Invalid("the request's data is nested too deeply", reason="TOO_DEEP") from None
