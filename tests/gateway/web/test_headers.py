"""The header nosniff on every response, offers of another protocol, and the encoding of list headers."""

import asyncio
import logging

import pytest
from starlette.types import Message
from tests.gateway.plane import Plane, open_all, request, said

from taskplane.gateway import routes
from taskplane.gateway.web.http import Request

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NAMES = {"{agent}": "demo", "{namespace}": "demo", "{path*}": "x", "{file}": "x"}


def path_of(pattern: str, ids: dict[str, str]) -> str:
    for name, value in {**_NAMES, **ids}.items():
        pattern = pattern.replace(name, value)
    return pattern


@pytest.mark.parametrize("has", [True, False])
async def test_every_response_with_a_body_has_nosniff(plane: Plane, has: bool) -> None:
    """T9: JSON, streams, files, errors and pages. DELETE is left out, since it would remove the objects."""
    task = await plane.send("artifact")
    ids = {
        "{session}": task["contextId"] if has else "none",
        "{task}": task["id"] if has else "none",
        "{artifact}": task["artifacts"][0]["artifactId"] if has else "none",
    }
    for route in routes.ROUTES:
        if route.method != "DELETE" and not route.path.endswith("/watch"):
            for accept in ("*/*", "text/html"):
                body = "{}" if route.method != "GET" else None
                headers = {"Accept": accept, "Content-Type": "application/json"}
                reply = await plane.http.request(
                    route.method, path_of(route.path, ids), content=body, headers=headers, timeout=20
                )
                if reply.content:
                    assert reply.headers["x-content-type-options"] == "nosniff", route.path
                    assert len(reply.headers.get_list("x-content-type-options")) == 1
    async with plane.http.stream("GET", f"/api/sessions/{task['contextId']}/watch") as watch:
        assert watch.headers["x-content-type-options"] == "nosniff"
    for method in ("SendStreamingMessage", "SubscribeToTask", "Nothing"):
        params = {"message": said("hello"), "id": "none"}
        async with plane.http.stream("POST", "/", json=request(method, params)) as answer:
            assert answer.headers["x-content-type-options"] == "nosniff"
    nowhere = await plane.http.get("/nowhere")
    assert (nowhere.status_code, nowhere.headers["x-content-type-options"]) == (404, "nosniff")


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_an_upgrade_request_is_answered_over_http_without_a_warning(
    tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    """C14: RFC 9110 section 7.8; uvicorn logs no warning about a missing WebSocket library."""
    caplog.set_level(logging.DEBUG, "uvicorn.error")
    async with open_all(tmp_path_factory.mktemp("upgrade")) as plane:
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
        offer = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n"
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        writer.write((offer + key).encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    # A machine that stalls has warnings of its own in other loggers.
    of_server = [record for record in caplog.records if record.name.startswith("uvicorn")]
    warnings = [record.getMessage() for record in of_server if record.levelno >= logging.WARNING]
    assert warnings == []


async def test_elements_of_a_list_header_are_decoded_as_utf_8_or_else_latin_1() -> None:
    """P3: as single headers are."""
    sent = [(b"a2a-extensions", "a:\u00fc, a:b".encode()), (b"x-a2a-extensions", "a:\u00e9".encode("latin-1"))]

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    found = Request({"type": "http", "headers": sent}, receive).headers(b"a2a-extensions", b"x-a2a-extensions")
    assert found == ["a:\u00fc", "a:b", "a:\u00e9"]
