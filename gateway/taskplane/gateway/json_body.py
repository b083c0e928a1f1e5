"""The JSON value of a request body, within the limits on its levels."""

from collections.abc import Callable
from typing import Any, Final

from taskplane.runtime import json_reading
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import JSON_LEVELS, LENIENT_JSON_LEVELS, json_deeper_than, too_deep

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Written by some editors and clients before a text in UTF-8."""


def parse_any_depth(body: bytes) -> tuple[Any, Invalid | None]:
    """Return the JSON value of a body, and the error `TOO_DEEP` if it is nested too deeply; far too deep a value is
    None. Raise ValueError if it is not JSON.

    A byte order mark before it is skipped (RFC 8259 section 8.1).
    """
    return _parsed(json_reading.parse, body, JSON_LEVELS)


def parse_json(body: bytes) -> Any:
    """Return the JSON value of a body. Raise ValueError if it is not JSON, Invalid `TOO_DEEP` if it is nested too
    deeply."""
    return _shallow(*parse_any_depth(body))


def parse_lenient(body: bytes) -> Any:
    """Return the JSON value of a body of a runtime, which may have values that JSON does not have. Raise ValueError and
    Invalid as `parse_json`."""
    return _shallow(*_parsed(json_reading.parse_lenient, body, LENIENT_JSON_LEVELS))


def _parsed(parse: Callable[[bytes], Any], body: bytes, most: int) -> tuple[Any, Invalid | None]:
    try:
        value = parse(body.removeprefix(BYTE_ORDER_MARK))
        # The number of brackets bounds the depth, and counting them is far cheaper than walking the document.
        deep = body.count(b"{") + body.count(b"[") > most and json_deeper_than(value, most)
    except json_reading.NestedTooDeeply:
        value, deep = None, True
    return value, too_deep("", f"must have at most {most} levels") if deep else None


def _shallow(value: Any, error: Invalid | None) -> Any:
    if error is not None:
        raise error
    return value
