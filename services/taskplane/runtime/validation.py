"""Rules for ids, names and hosts that are the same in every process."""

import ipaddress
import re
from typing import Final

MAX_ID: Final = 255
"""Characters that an id or a name has at most."""

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


def id_problem(value: str) -> str:
    """Return the problem of an id that may be empty, as the end of a sentence; "" if there is none."""
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
