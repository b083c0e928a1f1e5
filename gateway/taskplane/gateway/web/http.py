"""HTTP requests and responses on ASGI.

Starlette's Response costs 0.4 microseconds and 3 Python calls more than one of our own would, which no send notices.
Its Request costs 1.6 more and reads headers as Latin-1, but names of users are UTF-8: ours reads them, and looks like
gRPC metadata to whoever authenticates or admits a call.
"""

import asyncio
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from taskplane.runtime import json_lines
from taskplane.runtime.errors import Invalid, PlaneError
from taskplane.runtime.validation import invalid

Headers = list[tuple[bytes, bytes]]

JSON: Final = b"application/json"
# Browsers take the content for nothing else than its declared type (WHATWG Fetch, section 3.6).
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
# Media types of a JSON body (the second one: A2A 1.0 section 11.1).
_JSON_TYPES: Final = frozenset({"application/json", "application/a2a+json"})
# In ASCII: `int` reads digits of other scripts, spaces and underscores as well.
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_MAX_NAME: Final = 100
_UNREAD: Final = frozenset({"TOO_MANY_UPLOADS", "TOO_MANY_IMPORTS"})
# Codings that leave a body as it is.
_NO_CODINGS: Final = frozenset({"identity", "chunked"})


class Reply(Protocol):
    """A response that can be sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def bytes_reply(status: int, body: bytes, media_type: bytes = JSON, headers: Headers | None = None) -> Response:
    """Return a response with a body of this type, and with further headers."""
    reply = Response(body, status)
    reply.raw_headers += [(b"content-type", media_type), NOSNIFF, *(headers or ())]
    return reply


def _as_text(sent: bytes) -> str:
    """Return a header as text: UTF-8 where its bytes are, else Latin-1 (RFC 9110 section 5.5)."""
    try:
        return sent.decode()
    except UnicodeDecodeError:
        return sent.decode("latin-1")


def json_reply(status: int, value: Any, headers: Headers | None = None) -> Response:
    """Return a response with a JSON body."""
    return bytes_reply(status, json_lines.encode(value), JSON, headers)


def empty_reply(status: int) -> Response:
    """Return a response without a body."""
    return Response(status_code=status)


def remedies(error: PlaneError, status: int) -> Headers:
    """Return the headers that say how to send a request which failed with this status: `Retry-After` in whole seconds,
    if it is to be sent again later; `Accept-Encoding`, if its body was compressed (RFC 9110 section 15.5.16). A
    connection with a body that is not read to its end is closed."""
    headers: Headers = []
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after))))
    elif status == 503:
        headers.append((b"retry-after", b"1"))
    if isinstance(error, BodyEncoded):
        headers.append((b"accept-encoding", b"identity"))
    if isinstance(error, BodyTooSlow) or error.reason in _UNREAD:
        headers.append((b"connection", b"close"))
    return headers


def attachment(name: str) -> tuple[bytes, bytes]:
    """Return the header with which a browser saves the body as a file called `name` (RFC 6266).

    Path separators, control characters and those that change the direction of writing are replaced, and so is a name of
    dots, which names a folder.
    """
    told = "".join(
        ["_" if each in "/\\" or unicodedata.category(each)[0] == "C" else each for each in name[:_MAX_NAME]]
    )
    if not told.strip(". "):
        told = "_"
    plain = re.sub(r"[^\w. -]", "_", told, flags=re.ASCII)
    return b"content-disposition", f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(told, safe='')}".encode()


class Request:
    """A request. `arguments` are the named parts of its path; `size` is the size of its body in bytes once that was
    read."""

    __slots__ = ("_headers", "_query", "accepted", "arguments", "receive", "scope", "size")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.arguments: Mapping[str, str] = {}
        self.accepted = asyncio.get_running_loop().time()
        self.size = 0
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._query: dict[str, str] | None = None

    @property
    def method(self) -> str:
        """Return the method, in capitals."""
        method: str = self.scope["method"]
        return method

    def raw(self, name: bytes) -> bytes:
        """Return the last value of a header as it was sent; empty if there is none."""
        return self._headers.get(name, b"")

    def header(self, name: bytes) -> str:
        """Return the last value of a header, by its lower-case name; empty if there is none."""
        value = self._headers.get(name)
        return "" if value is None else _as_text(value).strip()

    def count(self, name: bytes) -> int:
        """Return the number of headers with this name."""
        return 0 if name not in self._headers else sum(name == each for each, _ in self.scope["headers"])

    def headers(self, *names: bytes) -> list[str]:
        """Return the elements of all headers with these names, with comma-separated lists split."""
        if self._headers.keys().isdisjoint(names):
            return []
        joined = ",".join(_as_text(value) for name, value in self.scope["headers"] if name in names)
        return [element for part in joined.split(",") if (element := part.strip())]

    @property
    def query(self) -> Mapping[str, str]:
        """Return the last value of each query parameter."""
        if self._query is None:
            raw: bytes = self.scope["query_string"]
            self._query = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)) if raw else {}
        return self._query

    def number(self, name: str, default: int) -> int:
        """Return a query parameter as a whole number. Raise Invalid for anything else."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not _NUMBER.fullmatch(text):
            raise invalid({name: "must be a whole number"})
        return int(text)

    def check_coding(self) -> None:
        """Raise BodyEncoded if the body is declared as compressed, or as coded in another way."""
        for name in (b"content-encoding", b"transfer-encoding"):
            if name in self._headers and (codings := {each.lower() for each in self.headers(name)} - _NO_CODINGS):
                raise BodyEncoded(min(codings))

    def check_json(self) -> None:
        """Raise Invalid `CONTENT_TYPE_NOT_SUPPORTED` unless the body is declared as JSON or there is none, BodyEncoded
        if it is compressed.

        A body without a content type is refused as well: browsers send one across origins without a preflight request.
        """
        self.check_coding()
        if self._headers.get(b"content-type") == JSON:
            return
        declared = self.header(b"content-type").partition(";")[0].strip().lower()
        if declared in _JSON_TYPES:
            return
        if declared or self.header(b"transfer-encoding") or self.header(b"content-length") not in ("", "0"):
            raise Invalid(
                f"content type {declared or 'missing'} is not supported",
                reason="CONTENT_TYPE_NOT_SUPPORTED",
                suggestion="send Content-Type: application/json",
            )


class BodyTooLarge(PlaneError):
    """A request body above the gateway's limit."""

    code = "INVALID_ARGUMENT"
    default_reason = "BODY_TOO_LARGE"

    def __init__(self, limit: int, suggestion: str = "") -> None:
        super().__init__(
            f"the request body is larger than {limit} bytes", suggestion=suggestion, metadata={"limit": str(limit)}
        )


class BodyTooSlow(PlaneError):
    """A request body that does not arrive in time, or too slowly."""

    code = "INVALID_ARGUMENT"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, reason=reason, suggestion="send the request again over a faster connection")


class BodyEncoded(PlaneError):
    """A request body that is compressed."""

    code = "INVALID_ARGUMENT"
    default_reason = "CONTENT_ENCODING_NOT_SUPPORTED"

    def __init__(self, coding: str) -> None:
        super().__init__(
            f"the content coding {coding[:_MAX_NAME]} is not supported",
            suggestion="send the body uncompressed, without Content-Encoding",
        )


class ClientGone(Exception):
    """A connection closed by the client before its request was answered; no response can be sent."""
