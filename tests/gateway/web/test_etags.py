"""Entity tags: answers to If-None-Match."""

from taskplane.gateway.web import etags
from taskplane.gateway.web.http import Request, json_reply


def get_request(*if_none_match: str) -> Request:
    headers = [(b"if-none-match", value.encode()) for value in if_none_match]
    scope = {"type": "http", "method": "GET", "headers": headers, "query_string": b""}
    return Request(scope, None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


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
