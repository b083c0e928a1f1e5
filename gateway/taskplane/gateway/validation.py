"""The limits of requests to the gateway, and the checks of their contents."""

import re
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from taskplane.runtime import json_reading
from taskplane.runtime.errors import Invalid
from taskplane.runtime.services import MAX_REQUEST
from taskplane.runtime.validation import MAX_ID

# Written by some editors and clients before a text in UTF-8.
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Bytes of a request to a service. Leaves room for the fields that the services add to a message.
MAX_REQUEST_BYTES: Final = MAX_REQUEST - 64 * 1024
# The greatest growth from JSON to protobuf; `0,` in a list grows most, to 11 bytes.
MAX_GROWTH: Final = 8
# Levels of a JSON document, and of one that a runtime keeps, of which the deep values are kept as text.
MAX_DEPTH: Final = 64
MAX_LENIENT_DEPTH: Final = 500
# JSON values of one request that are converted to protobuf, which takes far longer than parsing.
MAX_VALUES: Final = 400_000
# Bytes of one `metadata`.
MAX_METADATA_BYTES: Final = 64 * 1024
# Parts of one message.
MAX_PARTS: Final = 100
# References to tasks, or extensions, of one message or artifact: each is looked up or compared.
MAX_NAMES: Final = 100
# Elements of any other list.
MAX_ITEMS: Final = 100_000
# Characters of a page token.
MAX_TOKEN_LENGTH: Final = 4096
# Violations in one response; a body of 8 MiB can have millions.
MAX_VIOLATIONS: Final = 50

# Up to so many nested messages every protobuf parser reads a Struct, whatever message contains it.
_SAFE_LEVELS: Final = 36
_CONTAINERS: Final = frozenset({dict, list})
_CURSOR: Final = re.compile(r"[a-z2-7]{1,32}-(?:0|[1-9][0-9]{0,17})")


class Violations:
    """The violations of one request: a text for each field, by its JSON path, at most 50."""

    __slots__ = ("converted", "deepest", "found", "lenient", "max_values", "told", "values")

    def __init__(self, *, lenient: bool = False) -> None:
        """`lenient`: values that cannot be stored are converted, as those of agents are."""
        self.lenient = lenient
        self.found: dict[str, str] = {}
        # Nested messages of the deepest Struct or Value that was read.
        self.deepest = 0
        # The paths of numbers that became texts: those not listed in any metadata yet, and the others.
        self.converted: list[str] = []
        self.told: list[str] = []
        # The number of such values so far, and its current limit.
        self.values = 0
        self.max_values = MAX_VALUES

    def add(self, path: str, what: str) -> None:
        """Record one violation; the first one of a field is kept."""
        if len(self.found) < MAX_VIOLATIONS:
            self.found.setdefault(path, what)

    def take_converted(self, at: str) -> list[str]:
        """Return the paths of numbers in the object at `at` that became texts, as they are in that object."""
        prefix = f"{at}." if at else ""
        taken = [path for path in self.converted if path.startswith(prefix)]
        self.converted = [path for path in self.converted if not path.startswith(prefix)]
        self.told += taken
        return [path.removeprefix(prefix) for path in taken]

    def check(self) -> None:
        """Raise Invalid with every field that was recorded."""
        if self.found:
            first = next(iter(self.found))
            raise Invalid(f"invalid params: {first or 'params'}: {self.found[first]}", fields=self.found)


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


def check_readable(message: Message, bad: Violations) -> None:
    """Raise Invalid for a message that could be stored but not parsed again, as deeply nested Structs are."""
    if bad.deepest > _SAFE_LEVELS:
        try:
            type(message).FromString(message.SerializeToString())
        except DecodeError:
            raise Invalid("the data of the request is nested too deeply", reason="TOO_DEEP") from None


def check_size(message: Message) -> None:
    """Raise Invalid `REQUEST_TOO_LARGE` for a request that is too large for the services."""
    size = message.ByteSize()
    if size > MAX_REQUEST_BYTES:
        raise Invalid(
            f"the request has {size} bytes of content; at most {MAX_REQUEST_BYTES:,} are allowed",
            reason="REQUEST_TOO_LARGE",
            suggestion="send large content by URL, or in several messages",
            metadata={"limit": str(MAX_REQUEST_BYTES)},
        )


def check_cursor(cursor: str) -> None:
    """Raise Invalid `CURSOR_MALFORMED` unless the cursor is empty or well-formed."""
    if cursor and not _CURSOR.fullmatch(cursor):
        raise Invalid(
            "Last-Event-ID must be an event id of this server",
            reason="CURSOR_MALFORMED",
            fields={"Last-Event-ID": "is malformed"},
        )


def check_key(key: str) -> None:
    """Raise Invalid for an idempotency key that the services would refuse."""
    if len(key) > MAX_ID:
        raise Invalid(
            "the idempotency key is too long", fields={"Idempotency-Key": f"must have at most {MAX_ID} characters"}
        )


def check_user(user: str) -> None:
    """Raise Invalid `BAD_USER_ID` for a user id that is too long or not printable."""
    if len(user) > MAX_ID or not user.isprintable():
        raise Invalid(f"the user id must consist of at most {MAX_ID} printable characters", reason="BAD_USER_ID")


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
