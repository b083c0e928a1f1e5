"""The JSON value of a request body, within the limits on its levels."""

from collections.abc import Callable
from typing import Any, Final

from taskplane.runtime import json_reading
from taskplane.runtime.errors import Invalid

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Written by some editors and clients before a text in UTF-8."""
# Levels of a JSON document, and of one that a runtime keeps, of which the deep values are kept as text.
MAX_DEPTH: Final = 64
MAX_LENIENT_DEPTH: Final = 500
_CONTAINERS: Final = frozenset({dict, list})


def parse_any_depth(body: bytes) -> tuple[Any, Invalid | None]:
    """Return the JSON value of a body, and the error `TOO_DEEP` if it is nested too deeply; far too deep a value is
    None. Raise ValueError if it is not JSON.

    A byte order mark before it is skipped (RFC 8259 section 8.1).
    """
    return _parsed(json_reading.parse, body, MAX_DEPTH)


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a body. Raise ValueError if it is not JSON, Invalid `TOO_DEEP` if it is nested too
    deeply."""
    return _shallow(*parse_any_depth(body))


def parse_lenient(body: bytes) -> Any:
    """Return the JSON value of a body of a runtime, which may have values that JSON does not have. Raise ValueError and
    Invalid as `parse_json`."""
    return _shallow(*_parsed(json_reading.parse_lenient, body, MAX_LENIENT_DEPTH))


def _parsed(parse: Callable[[bytes], Any], body: bytes, most: int) -> tuple[Any, Invalid | None]:
    try:
        value = parse(body.removeprefix(BYTE_ORDER_MARK))
        # The number of brackets bounds the depth, and counting them is far cheaper than walking the document.
        deep = body.count(b"{") + body.count(b"[") > most and _deeper_than(value, most)
    except json_reading.NestedTooDeeply:
        value, deep = None, True
    return value, Invalid(f"the request is nested deeper than {most} levels", reason="TOO_DEEP") if deep else None


def _shallow(value: Any, too_deep: Invalid | None) -> Any:
    if too_deep is not None:
        raise too_deep
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        below: list[Any] = []
        for one in level:
            below += one.values() if type(one) is dict else one if type(one) is list else ()
        level = [one for one in below if type(one) in _CONTAINERS]
        if not level:
            return False
    return True
