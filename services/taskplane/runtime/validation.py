"""Rules for the fields of requests that every process shares, and the collector of the fields that break one."""

import ipaddress
import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

from taskplane.runtime.bounds import Range
from taskplane.runtime.errors import Invalid

MAX_ID: Final = 255
"""Characters that an id or a name has at most."""
MOST_WRONG: Final = 50
"""Wrong fields that one error names; a large request can have millions."""
HASH_BYTES: Final = 32
"""Bytes of the hash of a request (SHA-256)."""
NO_SEGMENT: Final = "must not be . or .."
NO_NUL: Final = "must not contain U+0000"
# Wrong fields that the text of an error names.
_IN_TEXT: Final = 5

# C0, DEL and C1, and the halves of a surrogate pair, which JSON can spell and UTF-8 cannot.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
REQUEST_ID: Final = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
"""The form of a request id of a client that is taken over."""


def has_control(value: str) -> bool:
    """Return whether a text has a control character or half of a surrogate pair."""
    return not value.isprintable() and _CONTROL.search(value) is not None


def is_id(value: str) -> bool:
    """Return whether a value can be stored as an id: 1 to 255 characters without a control character."""
    return 0 < len(value) <= MAX_ID and not has_control(value)


def broken_id_rule(value: str) -> str:
    """Return the rule that an id breaks, as the end of a sentence; "" if it breaks none. An empty id breaks none."""
    if len(value) > MAX_ID:
        return f"must have at most {MAX_ID} characters"
    return "must not contain control characters" if not value.isprintable() and has_control(value) else ""


def is_segment(value: str) -> bool:
    """Return whether an id can be a segment of a URL path.

    Clients remove the segments `.` and `..` from a path before they send it (RFC 3986, 5.2.4).
    """
    return value not in (".", "..")


def is_request_id(value: str) -> bool:
    """Return whether a request id of a client is taken over: 1 to 128 letters, digits or `_.:/+=-`, all ASCII."""
    return REQUEST_ID.fullmatch(value) is not None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on this host name or address."""
    name = host.removeprefix("[").removesuffix("]")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def invalid(fields: Mapping[str, str], *, reason: str | None = None, suggestion: str = "") -> Invalid:
    """Return the error of a request with these wrong fields, by name or path, each with the rule that it breaks.

    A rule is the end of a sentence about the field, such as `is required`. The text has the first five fields.
    """
    told = [f"{field or 'the body'} {rule}" for field, rule in islice(fields.items(), _IN_TEXT)]
    if len(fields) > len(told):
        told.append(f"and {len(fields) - len(told)} more")
    return Invalid("; ".join(told), reason=reason, suggestion=suggestion, fields=fields)


class WrongFields:
    """The wrong fields of one request, at most 50, each with the first rule that it breaks."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, field: str, rule: str) -> None:
        """Add a wrong field; its first rule is kept."""
        if len(self.found) < MOST_WRONG:
            self.found.setdefault(field, rule)

    def check(self) -> None:
        """Raise Invalid with all wrong fields, if there are any."""
        if self.found:
            raise invalid(self.found)

    def ids(self, values: Mapping[str, str], *, required: bool = True) -> None:
        """Check ids and names by field: 1 to 255 characters, no control characters; not `required`: or empty."""
        joined = "".join(values.values())
        # Together short and printable: each of them is.
        if len(joined) <= MAX_ID and joined.isprintable() and not (required and "" in values.values()):
            return
        for field, value in values.items():
            if rule := broken_id_rule(value) if value or not required else "is required":
                self.add(field, rule)

    def segment(self, field: str, value: str) -> None:
        """Check the id of something new, which clients will name in a path."""
        if not is_segment(value):
            self.add(field, NO_SEGMENT)

    def request_hash(self, field: str, value: bytes) -> None:
        """Check the hash of a request."""
        if len(value) != HASH_BYTES:
            self.add(field, f"must have {HASH_BYTES} bytes (SHA-256)")

    def at_least(self, field: str, value: int, least: int = 0) -> None:
        """Check a number without an upper bound."""
        if value < least:
            self.add(field, f"must be at least {least}")

    def within(self, field: str, value: float, allowed: Range) -> None:
        """Check a number."""
        if value not in allowed:
            self.add(field, f"must be {allowed}")
