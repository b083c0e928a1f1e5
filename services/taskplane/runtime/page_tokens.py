"""Page tokens: a signed place in a listing, valid only for the caller and the listing that it was made for."""

import base64
import binascii
import hashlib
import hmac
from typing import Final

from taskplane.runtime.errors import Invalid

# The caller's scope and the filters and the order of the listing that a token is bound to.
Bound = tuple[object, ...]

_SIGNATURE: Final = 16


def sealed(place: bytes, key: bytes, bound: Bound) -> str:
    """Return URL-safe text for `opened`, for the same key and the same bound."""
    return base64.urlsafe_b64encode(_signature(place, key, bound) + place).decode().rstrip("=")


def opened(token: str, key: bytes, bound: Bound) -> bytes:
    """Return the place of a token. Invalid `BAD_PAGE_TOKEN`: not a token of ours, or of another caller or listing."""
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad() from None
    place = data[_SIGNATURE:]
    if not hmac.compare_digest(data[:_SIGNATURE], _signature(place, key, bound)):
        raise _bad()
    return place


def _signature(place: bytes, key: bytes, bound: Bound) -> bytes:
    return hmac.digest(key, repr(bound).encode() + b"\0" + place, hashlib.sha256)[:_SIGNATURE]


def _bad() -> Invalid:
    return Invalid(
        "the page token is invalid, or belongs to another list",
        reason="BAD_PAGE_TOKEN",
        suggestion="start again without a page token",
        fields={"page_token": "must be a page token of this list"},
    )
