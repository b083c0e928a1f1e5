"""The user that a call names, and the count of names that nobody is called by."""

import logging
from typing import Final

from taskplane.gateway.auth.scheme import RequestHeaders
from taskplane.gateway.limits import check_user
from taskplane.gateway.metrics import IGNORED_NAMES
from taskplane.runtime.errors import Unauthenticated

IN_HEADER: Final = "header"
IN_QUERY: Final = "query"

_HEADER: Final = b"x-user-id"
_QUERY: Final = "user_id"

_log = logging.getLogger(__name__)


def check_single(credentials: RequestHeaders) -> None:
    """Raise Unauthenticated `AMBIGUOUS_USER` for more than one header X-User-Id.

    Which of them a proxy made, and which its client, cannot be told.
    """
    if credentials.count(_HEADER) > 1:
        raise _ambiguous("the header X-User-Id must occur once")


def in_header(credentials: RequestHeaders) -> str:
    """Return the name in X-User-Id; empty if there is none.

    Raise Unauthenticated `AMBIGUOUS_USER` for a comma, with which proxies join two headers; Invalid `BAD_USER_ID`.
    """
    name = credentials.header(_HEADER)
    if "," in name:
        raise _ambiguous("X-User-Id must not contain a comma, which may join two headers")
    check_user(name)
    return name


def in_query(credentials: RequestHeaders) -> str:
    """Return the name in the parameter user_id; empty if there is none. Raise Invalid `BAD_USER_ID`."""
    name = credentials.query.get(_QUERY, "")
    check_user(name)
    return name


class IgnoredNames:
    """The count of names that are ignored. It logs the first one of each place."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def count(self, credentials: RequestHeaders, trusted: frozenset[str]) -> None:
        """Count the names of a call in other places than the trusted ones."""
        if IN_HEADER not in trusted and credentials.count(_HEADER):
            self._ignored(IN_HEADER, "the header X-User-Id")
        if IN_QUERY not in trusted and _QUERY in credentials.query:
            self._ignored(IN_QUERY, "the query parameter user_id")

    def _ignored(self, place: str, what: str) -> None:
        IGNORED_NAMES.labels(place).inc()
        if place not in self._told:
            self._told.add(place)
            _log.warning(
                "%s names nobody, since authentication is configured: the user is that of the credentials."
                " Further ones are counted in taskplane_http_ignored_names_total",
                what,
            )


def _ambiguous(what: str) -> Unauthenticated:
    return Unauthenticated(
        what,
        reason="AMBIGUOUS_USER",
        suggestion="have the proxy replace X-User-Id, so that its own value is the only one",
    )
