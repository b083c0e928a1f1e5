"""The call of an operation, from headers of HTTP and from metadata of gRPC."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from taskplane.api import growing_text
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.auth.scheme import RequestHeaders
from taskplane.gateway.bindings.grpc_calls import Metadata
from taskplane.gateway.web.http import Request
from taskplane.runtime.errors import Invalid

SENT = [
    ("a2a-extensions", f"https://x, {growing_text.EXTENSION}"),
    ("x-a2a-extensions", "https://x"),
    ("last-event-id", "abc-7"),
    ("idempotency-key", "k"),
    ("if-match", '"3"'),
]


def of_http(*pairs: tuple[str, str]) -> Request:
    headers = [(name.encode(), value.encode()) for name, value in pairs]
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": b""}
    receive: Any = None
    return Request(scope, receive)


def of_grpc(*pairs: tuple[str, str]) -> Metadata:
    return Metadata(pairs)


def waiting() -> AbstractAsyncContextManager[None]:
    return nullcontext()


def call(headers: RequestHeaders, **more: Any) -> Call:
    """Return a call without a plane and a caller, which these tests do not use."""
    unused: Any = None
    return Call(unused, unused, headers, path="", version="1.0", size=0, accepted=0.0, waiting=waiting, **more)


@pytest.mark.parametrize("made", [of_http, of_grpc])
async def test_a_call_has_the_options_of_its_headers(made: Any) -> None:
    found = call(made(*SENT))
    assert found.extensions == ["https://x", growing_text.EXTENSION]
    assert (found.cursor, found.key, found.expected_version, found.growing_text) == ("abc-7", "k", 3, True)
    bare = call(made())
    assert (bare.extensions, bare.cursor, bare.key, bare.expected_version, bare.growing_text) == ([], "", "", 0, False)
    assert call(made(), grows=True).growing_text


@pytest.mark.parametrize("made", [of_http, of_grpc])
async def test_an_invalid_expected_version_is_refused_on_access(made: Any) -> None:
    with pytest.raises(Invalid) as caught:
        _ = call(made(("if-match", "x"))).expected_version
    assert list(caught.value.fields) == ["If-Match"]


def test_metadata_is_read_as_headers_are() -> None:
    found = Metadata([("x-user-id", "ann"), ("x-user-id", " bob "), ("token-bin", b"\xff")])
    assert (found.header(b"x-user-id"), found.raw(b"x-user-id"), found.count(b"x-user-id")) == ("bob", b" bob ", 2)
    assert (found.raw(b"token-bin"), found.header(b"token-bin"), found.raw(b"none")) == (b"\xff", "", b"")
    assert (found.count(b"none"), dict(found.query), found.headers(b"x-user-id")) == (0, {}, ["ann", "bob"])
