"""The user that a request names, and the count of names that nobody is called by."""

import logging
from typing import Final

from taskplane.gateway.limits import check_user
from taskplane.gateway.metrics import IGNORED_NAMES
from taskplane.gateway.web.http import Request
from taskplane.runtime.errors import Unauthenticated

_HEADER: Final = b"x-user-id"
_QUERY: Final = "user_id"

_log = logging.getLogger(__name__)


class UserNames:
    """The reader of user names in requests. It counts those that are ignored, and logs the first one of each place."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def check_single(self, request: Request) -> None:
        """Raise Unauthenticated `AMBIGUOUS_USER` for more than one header X-User-Id.

        Which of them a proxy made, and which its client, cannot be told.
        """
        if request.count(_HEADER) > 1:
            raise _ambiguous("the header X-User-Id must occur once")

    def of_header(self, request: Request) -> str:
        """Return the name in X-User-Id; empty if there is none.

        Raise Unauthenticated `AMBIGUOUS_USER` for a comma, with which proxies join two headers; Invalid `BAD_USER_ID`.
        """
        name = request.header(_HEADER)
        if "," in name:
            raise _ambiguous("X-User-Id must not contain a comma, which may join two headers")
        check_user(name)
        return name

    def of_query(self, request: Request) -> str:
        """Return the name in the parameter user_id; empty if there is none. Raise Invalid `BAD_USER_ID`."""
        name = request.query.get(_QUERY, "") if request.scope["query_string"] else ""
        check_user(name)
        return name

    def ignore_header(self, request: Request) -> None:
        """Count the name in X-User-Id, if there is one."""
        if request.count(_HEADER):
            self._ignored("header", "the header X-User-Id")

    def ignore_query(self, request: Request) -> None:
        """Count the name in the parameter user_id, if there is one."""
        if request.scope["query_string"] and _QUERY in request.query:
            self._ignored("query", "the query parameter user_id")

    def _ignored(self, place: str, what: str) -> None:
        IGNORED_NAMES.labels(place).inc()
        if place not in self._told:
            self._told.add(place)
            _log.warning(
                "%s names nobody, since authentication is configured: the user is that of the API key or of the proxy."
                " Further ones are counted in taskplane_http_ignored_names_total",
                what,
            )


def _ambiguous(what: str) -> Unauthenticated:
    return Unauthenticated(
        what,
        reason="AMBIGUOUS_USER",
        suggestion="have the proxy replace X-User-Id, so that its own value is the only one",
    )
