"""Calls made of gRPC calls: the same for every version of A2A."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from taskplane.gateway.a2a.call import Call
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.plane import Plane
from taskplane.gateway.web.disconnect import cancel_on_drain

_NO_QUERY: Final[Mapping[str, str]] = {}


class Metadata:
    """The metadata of a call, read as headers are."""

    __slots__ = ("_last", "_pairs")

    query = _NO_QUERY

    def __init__(self, pairs: Iterable[tuple[str, str | bytes]]) -> None:
        self._pairs = tuple(pairs)
        self._last: Mapping[str, str | bytes] = dict(self._pairs)

    def raw(self, name: bytes) -> bytes:
        """Return the last value of a name as it was sent; empty if there is none."""
        value = self._last.get(name.decode(), b"")
        return value.encode() if isinstance(value, str) else value

    def header(self, name: bytes) -> str:
        """Return the last value of a name; empty if there is none."""
        value = self._last.get(name.decode(), "")
        return value.strip() if isinstance(value, str) else ""

    def count(self, name: bytes) -> int:
        """Return the number of values of a name."""
        key = name.decode()
        return sum(key == each for each, _ in self._pairs) if key in self._last else 0

    def headers(self, *names: bytes) -> list[str]:
        """Return the elements of all values of these names, with comma-separated lists split."""
        keys = {name.decode() for name in names}
        if self._last.keys().isdisjoint(keys):
            return []
        joined = ",".join(value for key, value in self._pairs if key in keys and isinstance(value, str))
        return [element for part in joined.split(",") if (element := part.strip())]


def call_of(plane: Plane, metadata: Metadata, caller: Caller, version: str, *, size: int, accepted: float) -> Call:
    """Return the call of a request of this size, in this A2A version. gRPC itself cancels the handler of a call when
    its client has gone or its deadline has passed."""
    return Call(
        plane,
        caller,
        metadata,
        path="",
        version=version,
        size=size,
        accepted=accepted,
        waiting=partial(cancel_on_drain, plane.streams),
    )


def echo(call: Call) -> tuple[tuple[str, str], ...]:
    """Return the trailing metadata that names the extensions in use, as the version of the call spells it."""
    return ((call.rules.extensions_header.decode(), ", ".join(call.used)),)
