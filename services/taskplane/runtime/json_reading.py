"""Reading of JSON without loss: integers of any size, and values that JSON does not have."""

import json
import math
import re
from typing import Any, Final, NoReturn

import orjson

from taskplane.runtime.struct_values import Digits

# `orjson` reads integers beyond 64 bits as doubles. Such integers have at least this number of digits.
_LONG: Final = b"0" * 19
_DIGITS: Final = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
# Python reads integers of at most some 4,300 digits.
_MOST_DIGITS: Final = 4_000
# Escapes of texts: of a backslash, of a pair of surrogates, and of half a pair.
_SURROGATES: Final = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


class NestedTooDeeply(ValueError):
    """JSON, as far as it was read, with more levels than Python reads: about a thousand."""


def parse(body: bytes) -> Any:
    """Return a JSON value. Integers are exact; a number that Python cannot hold is `Digits`. ValueError: not JSON, or
    half of a surrogate pair. NestedTooDeeply: too many levels."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode()
        if any(half for half in _SURROGATES.findall(text)):
            raise
        return _exact(text, _refuse)
    return _exact(body.decode(), _refuse) if has_long_number(body) else value


def parse_lenient(body: bytes) -> Any:
    """Return a JSON value as `parse` does, with U+FFFD for half of a surrogate pair and for bytes that are not UTF-8,
    and null for NaN and the infinities. ValueError: not JSON even then. NestedTooDeeply: too many levels."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _exact(_SURROGATES.sub(_whole, body.decode(errors="replace")), _null)
    return _exact(body.decode(), _null) if has_long_number(body) else value


def parse_kept(text: str) -> Any:
    """Return a JSON value as `parse_lenient` does, with halves of surrogate pairs as they are. ValueError: it is not
    JSON even so."""
    body = text.encode()
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _exact(text, _null)
    return _exact(text, _null) if has_long_number(body) else value


def has_long_number(body: bytes) -> bool:
    """Return whether there may be an integer of over 64 bits."""
    # A search for a pattern takes ten times as long.
    return len(body) >= len(_LONG) and _LONG in body.translate(_DIGITS)


def _exact(text: str, constant: Any) -> Any:
    try:
        return json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=constant)
    except RecursionError:
        raise NestedTooDeeply("the JSON is nested too deeply") from None


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else Digits(digits)


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else Digits(text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _null(name: str) -> None:
    return None


def _whole(found: "re.Match[str]") -> str:
    return "\\ufffd" if found[1] else found[0]
