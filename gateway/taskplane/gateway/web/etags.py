"""Entity tags (RFC 9110, sections 8.8.3 and 13.1), for conditional reads and writes."""

import hashlib
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
    headers: Headers = [(b"etag", tag), *caching]
    if is_current(request, tag):
        reply = empty_reply(304)
    reply.raw_headers = [*reply.raw_headers, *headers]
    return reply
