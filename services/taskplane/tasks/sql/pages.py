"""Page tokens: a signed place in a listing, valid only for the caller and the filters that it was made for."""

import base64
import binascii
import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Final

from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain.task import Scope

# The filters of a listing, without the caller and the page size.
Bound = tuple[str | int, ...]

_SIGNATURE: Final = 16
_HEAD: Final = struct.Struct("!qI")


@dataclass(frozen=True, slots=True)
class Place:
    """The place after task `id`, whose time is `at` (microseconds). `total` was counted for the first page."""

    at: int
    id: str
    total: int


def token_of(place: Place, key: bytes, scope: Scope, query: Bound) -> str:
    """Return URL-safe text for `place_of`, for the same caller and the same `query`. The page size may differ."""
    body = _HEAD.pack(place.at, place.total) + place.id.encode()
    return base64.urlsafe_b64encode(_signature(body, key, scope, query) + body).decode().rstrip("=")


def place_of(token: str, key: bytes, scope: Scope, query: Bound) -> Place:
    """Return the place of a token. Invalid `BAD_PAGE_TOKEN`: not a token of ours, or of another caller or listing."""
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad() from None
    body = data[_SIGNATURE:]
    if len(body) < _HEAD.size or not hmac.compare_digest(data[:_SIGNATURE], _signature(body, key, scope, query)):
        raise _bad()
    at, total = _HEAD.unpack_from(body)
    return Place(at, body[_HEAD.size :].decode(), total)


def _signature(body: bytes, key: bytes, scope: Scope, query: Bound) -> bytes:
    bound = (scope.tenant, scope.owner, *query)
    return hmac.digest(key, repr(bound).encode() + b"\0" + body, hashlib.sha256)[:_SIGNATURE]


def _bad() -> Invalid:
    return Invalid(
        "this page token was not made for this listing",
        reason="BAD_PAGE_TOKEN",
        suggestion="start again without a page token",
        fields={"page_token": "is not valid here"},
    )
