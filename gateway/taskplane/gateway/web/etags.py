"""Entity tags and times of change (RFC 9110, sections 8.8 and 13.1), for conditional reads and writes."""

import hashlib
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from starlette.responses import Response

from taskplane.gateway.web.http import Headers, Request, empty_reply

# Responses depend on the caller; caches must revalidate them.
PRIVATE: Final[Headers] = [
    (b"cache-control", b"private, no-cache"),
    (b"vary", b"Authorization, X-API-Key, X-User-Id"),
]


def digest(body: bytes | memoryview) -> bytes:
    """Return the tag of a body, by its content."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()


def from_number(number: int) -> bytes:
    """Return the tag of a generation or a version."""
    return b'"%d"' % number


def is_current(request: Request, tag: bytes) -> bool:
    """Return whether If-None-Match contains this tag, so that the client has the content already; compared weakly."""
    known = [one.removeprefix("W/") for one in request.headers(b"if-none-match")]
    return bool(known) and ("*" in known or tag.decode() in known)


def if_changed(request: Request, reply: Response, tag: bytes = b"", caching: Headers = PRIVATE) -> Response:
    """Return the reply with its tag, by default that of its content, and the headers for caches; 304 without a body if
    the client has it already."""
    tag = tag or digest(reply.body)
    return _unless_known(reply, is_current(request, tag), [(b"etag", tag), *caching])


def if_modified(request: Request, reply: Response, changed_at: float, caching: Headers) -> Response:
    """Return the reply as `if_changed` does, with the time when its content changed, in seconds since 1970.

    If-Modified-Since counts without If-None-Match alone (RFC 9110, section 13.2.2), and must be exactly this time: a
    later one may be that of older content, which another process saw later.
    """
    tag = digest(reply.body)
    by_tag = bool(request.header(b"if-none-match"))
    is_known = is_current(request, tag) if by_tag else int(changed_at) == _seen_at(request)
    changed = formatdate(changed_at, usegmt=True).encode()
    return _unless_known(reply, is_known, [(b"etag", tag), (b"last-modified", changed), *caching])


def _unless_known(reply: Response, is_known: bool, headers: Headers) -> Response:
    reply = empty_reply(304) if is_known else reply
    reply.raw_headers = [*reply.raw_headers, *headers]
    return reply


def _seen_at(request: Request) -> float:
    """Return the time of If-Modified-Since; without a valid one, a time before all others."""
    try:
        given = parsedate_to_datetime(request.header(b"if-modified-since"))
        return given.replace(tzinfo=given.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return float("-inf")
