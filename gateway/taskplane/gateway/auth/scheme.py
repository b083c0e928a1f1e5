"""The interface of authentication schemes. It knows no transport: HTTP headers and gRPC metadata look the same."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.auth.caller import Caller
from taskplane.runtime.errors import Unauthenticated


class RequestHeaders(Protocol):
    """A read-only view of the headers, or gRPC metadata, and the query parameters of one call."""

    @property
    def query(self) -> Mapping[str, str]:
        """Return the last value of each query parameter; empty for gRPC."""
        ...

    def raw(self, name: bytes) -> bytes:
        """Return the last value of a header as it was sent, by its lower-case name; empty if there is none."""
        ...

    def header(self, name: bytes) -> str:
        """Return the last value of a header as text without spaces around it; empty if there is none."""
        ...

    def count(self, name: bytes) -> int:
        """Return the number of headers with this name."""
        ...

    def headers(self, *names: bytes) -> list[str]:
        """Return the elements of all headers with these names, with comma-separated lists split."""
        ...


def check_once(credentials: RequestHeaders, *names: bytes) -> None:
    """Raise Unauthenticated `AMBIGUOUS_CREDENTIALS` if one of these headers occurs more than once.

    Which of them a proxy made, and which its client, cannot be told.
    """
    for name in names:
        if credentials.count(name) > 1:
            raise Unauthenticated(
                f"the header {name.decode().title()} must occur once",
                reason="AMBIGUOUS_CREDENTIALS",
                suggestion="send one credential; a proxy must replace the header and not add one",
            )


class Asked(NamedTuple):
    """A credential that callers can be asked for: its `kind` for the web page, its name with an article, and the way to
    send it."""

    kind: str
    name: str
    how: str


class Scheme(Protocol):
    """A way to identify callers."""

    @property
    def name(self) -> str:
        """Return the name of this scheme, which its callers carry."""
        ...

    @property
    def asked(self) -> Asked | None:
        """Return the credential that a caller without one is asked for; None if it cannot have one."""
        ...

    @property
    def trusted_names(self) -> frozenset[str]:
        """Return the places from which this scheme takes the name of a user: `header`, `query`."""
        ...

    def identify(self, credentials: RequestHeaders) -> Caller | None:
        """Return the caller; None if the call has no credential of this scheme.

        Raise Unauthenticated `BAD_CREDENTIALS`, `NO_CREDENTIALS`, `AMBIGUOUS_CREDENTIALS` or `AMBIGUOUS_USER`; Invalid
        `BAD_USER_ID`.
        """
        ...

    def alive(self, caller: Caller) -> bool:
        """Return whether the credential of a caller of this scheme is still valid. Streams ask this again and again."""
        ...

    def describe(self, card: a2a.AgentCard) -> None:
        """Add the security scheme and the requirement to an agent card; nothing if clients cannot meet one."""
        ...
