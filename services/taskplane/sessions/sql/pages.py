"""Places in listings, and the page tokens that they become."""

import struct
from typing import Final, NamedTuple

from taskplane.runtime.errors import Invalid
from taskplane.runtime.page_tokens import Bound, opened, sealed

_ONE: Final = struct.Struct("!q")
_THREE: Final = struct.Struct("!qqq")


class SessionPlace(NamedTuple):
    """The place after the session `context_id` that was updated at `updated_at`."""

    updated_at: int
    context_id: str

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return sealed(_ONE.pack(self.updated_at) + self.context_id.encode(), key, ("sessions", *bound))

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "SessionPlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`: not ours, or of another caller or listing."""
        body = opened(token, key, ("sessions", *bound))
        return cls(_ONE.unpack_from(body)[0], body[_ONE.size :].decode())


class EntryPlace(NamedTuple):
    """The place after entry `seq`."""

    seq: int

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return sealed(_ONE.pack(self.seq), key, ("entries", *bound))

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "EntryPlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`, as for `SessionPlace`."""
        return cls(*_ONE.unpack(opened(token, key, ("entries", *bound))))


class EffectivePlace(NamedTuple):
    """The place `offset` entries into the effective history of the session with `seq` entries, at `version`."""

    seq: int
    version: int
    offset: int

    def token(self, key: bytes, bound: Bound) -> str:
        """Return URL-safe text for `read`, for the same bound."""
        return sealed(_THREE.pack(*self), key, ("effective", *bound))

    @classmethod
    def read(cls, token: str, key: bytes, bound: Bound) -> "EffectivePlace":
        """Return the place of a token. Invalid `BAD_PAGE_TOKEN`, as for `SessionPlace`."""
        return cls(*_THREE.unpack(opened(token, key, ("effective", *bound))))

    @classmethod
    def known(cls, token: str, key: bytes, bound: Bound) -> "EffectivePlace | None":
        """Return the place of a token; None if the token belongs to another session or listing."""
        try:
            return cls.read(token, key, bound)
        except Invalid:
            return None
