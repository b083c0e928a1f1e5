"""Limits on the nesting of a request, as JSON and as a protobuf message."""

from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError, Message

from taskplane.gateway.translate.fields import Violations
from taskplane.runtime.errors import Invalid

# Levels of a JSON document.
MAX_DEPTH: Final = 64
# Up to this depth every protobuf parser reads a Struct, whatever message contains it.
_SAFE_DEPTH: Final = 12
_CONTAINERS: Final = frozenset({dict, list})


def parse(body: bytes) -> Any:
    """Return the JSON value of a body. Raise ValueError if it is not JSON, Invalid if it is nested deeper than 64
    levels."""
    value = orjson.loads(body)
    # The number of brackets bounds the depth, and counting them is far cheaper than walking the document.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and deeper_than(value, MAX_DEPTH):
        raise Invalid(f"the request is nested deeper than {MAX_DEPTH} levels", reason="TOO_DEEP")
    return value


def deeper_than(value: Any, limit: int) -> bool:
    """Return whether a value has more than `limit` levels of objects and lists."""
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
    """Raise Invalid for a message that could be stored but not parsed again, as deeply nested Structs are."""
    if bad.deepest > _SAFE_DEPTH:
        try:
            type(message).FromString(message.SerializeToString())
        except DecodeError:
            raise Invalid("the request's data is nested too deeply", reason="TOO_DEEP") from None
