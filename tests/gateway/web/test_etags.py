"""Entity tags: If-Match of requests, and answers to If-None-Match."""

import pytest

from taskplane.gateway.web import etags
from taskplane.gateway.web.http import Request, json_reply
from taskplane.runtime.errors import Invalid


def get_request(*if_none_match: str) -> Request:
    headers = [(b"if-none-match", value.encode()) for value in if_none_match]
    scope = {"type": "http", "method": "GET", "headers": headers, "query_string": b""}
    return Request(scope, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("*", 0), ("7", 7), ('"7"', 7), ('W/"7"', 7), ("abc-7", 7), ('"abc-17"', 17)],
)
def test_if_match_is_parsed_as_a_number(text: str, number: int) -> None:
    assert etags.parse_if_match(text, "version") == number


@pytest.mark.parametrize("text", ["x", '"x"', "0", "1.5", '"1", "2"', "9" * 19, "²"])
def test_an_invalid_if_match_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="version"):
        etags.parse_if_match(text, "version")


async def test_an_unchanged_response_is_answered_with_304() -> None:
    reply = etags.if_changed(get_request(), json_reply(200, {"a": 1}))
    tag = reply.headers["etag"]
    assert (reply.status_code, reply.headers["cache-control"]) == (200, "private, no-cache")
    for known in ([tag], [f"W/{tag}"], ['"other"', tag], [f'"other", {tag}'], ["*"]):
        again = etags.if_changed(get_request(*known), json_reply(200, {"a": 1}))
        assert (again.status_code, again.body, again.headers["etag"]) == (304, b"", tag)
    changed = etags.if_changed(get_request(tag), json_reply(200, {"a": 2}))
    assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)
    numbered = etags.if_changed(get_request('"3"'), json_reply(200, {}), etags.from_number(3))
    assert numbered.status_code == 304
