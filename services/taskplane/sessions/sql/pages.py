"""Page tokens: a signed place in a listing, valid only for the caller and the listing that it was made for."""

import base64
import binascii
import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from taskplane.runtime.errors import Invalid

# The caller's scope and the filters and the order of the listing that a token is bound to.
Bound = tuple[object, ...]

_SIGNATURE: Final = 16
_ONE: Final = struct.Struct("!q")
_THREE: Final = struct.Struct("!qqq")


class SessionPlace(NamedTuple):
    """The place after the session `context_id` that was updated at `updated_at`."""

    updated_at: int
    context_id: str

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return _sealed("sessions", _ONE.pack(self.updated_at) + self.context_id.encode(), key, bound)

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "SessionPlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`: not ours, or of another caller or listing."""
        body = _opened("sessions", token, key, bound)
        return cls(_ONE.unpack_from(body)[0], body[_ONE.size :].decode())


class EntryPlace(NamedTuple):
    """The place after entry `seq`."""

    seq: int

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return _sealed("entries", _ONE.pack(self.seq), key, bound)

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "EntryPlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`, as for `SessionPlace`."""
        return cls(*_ONE.unpack(_opened("entries", token, key, bound)))


class EffectivePlace(NamedTuple):
    """The place `offset` entries into the effective history of the session with `seq` entries, at `version`."""

    seq: int
    version: int
    offset: int

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return _sealed("effective", _THREE.pack(*self), key, bound)

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "EffectivePlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`, as for `SessionPlace`."""
        return cls(*_THREE.unpack(_opened("effective", token, key, bound)))


def _sealed(kind: str, body: bytes, key: bytes, bound: Bound) -> str:
    return base64.urlsafe_b64encode(_signature(kind, body, key, bound) + body).decode().rstrip("=")


def _opened(kind: str, token: str, key: bytes, bound: Bound) -> bytes:
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad() from None
    body = data[_SIGNATURE:]
    if not hmac.compare_digest(data[:_SIGNATURE], _signature(kind, body, key, bound)):
        raise _bad()
    return body


def _signature(kind: str, body: bytes, key: bytes, bound: Bound) -> bytes:
    return hmac.digest(key, repr((kind, *bound)).encode() + b"\0" + body, hashlib.sha256)[:_SIGNATURE]


def _bad() -> Invalid:
    return Invalid(
        "this page token was not made for this listing",
        reason="BAD_PAGE_TOKEN",
        suggestion="start again without a page token",
        fields={"page_token": "is not valid here"},
    )
