"""Documents of clients older than A2A 0.3."""

from typing import Any

import pytest
from tests.gateway.plane import Json, Plane, fresh, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

# A part as an older client writes it, and its form in 0.3 and in 1.0.
PARTS: list[tuple[Json, Json, Json]] = [
    ({"type": "text", "text": "hi"}, {"kind": "text", "text": "hi"}, {"text": "hi"}),
    (
        {"type": "text", "text": "*hi*", "mimeType": "text/markdown"},
        {"kind": "text", "text": "*hi*"},
        {"text": "*hi*", "mediaType": "text/markdown"},
    ),
    ({"type": "data", "data": {"a": 1}}, {"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
    (
        {"type": "file", "file": {"name": "a.png", "bytes": "AAAA"}, "mimeType": "image/png"},
        {"kind": "file", "file": {"name": "a.png", "bytes": "AAAA", "mimeType": "image/png"}},
        {"raw": "AAAA", "filename": "a.png", "mediaType": "image/png"},
    ),
    (
        {"type": "file", "name": "a.png", "uri": "https://example.com/a", "mimeType": "image/png"},
        {"kind": "file", "file": {"name": "a.png", "uri": "https://example.com/a", "mimeType": "image/png"}},
        {"url": "https://example.com/a", "filename": "a.png", "mediaType": "image/png"},
    ),
    (
        {"kind": "file", "file": {"uri": "https://example.com/a", "mimeType": "image/gif"}, "mimeType": "image/png"},
        {"kind": "file", "file": {"uri": "https://example.com/a", "mimeType": "image/gif"}},
        {"url": "https://example.com/a", "mediaType": "image/gif"},
    ),
    (
        {"url": "https://example.com/a", "mimeType": "image/png"},
        {"kind": "file", "file": {"uri": "https://example.com/a", "mimeType": "image/png"}},
        {"url": "https://example.com/a", "mediaType": "image/png"},
    ),
    # Another member with this name has no meaning.
    ({"data": {"a": 1}, "type": "function_call"}, {"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
    ({"data": {"a": 1}, "type": ["file"]}, {"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
    ({"data": {"a": 1}, "type": {"file": 1}}, {"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
]
IDS = [" ".join(map(str, part.values()))[:40] for part, _, _ in PARTS]


@pytest.mark.parametrize(("given", "old", "new"), PARTS, ids=IDS)
async def test_an_unambiguous_part_of_an_older_client_is_converted(
    plane: Plane, given: Json, old: Json, new: Json
) -> None:
    """T3, R7: in the history, the status and the artifacts of a document, and in a pushed history."""
    context = fresh()
    message: Json = {"messageId": fresh(), "role": "agent", "parts": [given]}
    task: Json = {
        "id": fresh(),
        "contextId": context,
        "status": {"state": "working", "message": {**message, "messageId": fresh()}},
        "history": [message],
        "artifacts": [{"artifactId": "a", "parts": [given]}],
    }
    reply = await plane.http.post("/api/tasks", json=task)
    assert reply.status_code == 201, reply.text
    stored: Any = reply.json()["data"]
    shown = [*(one["parts"] for one in stored["history"]), stored["artifacts"][0]["parts"]]
    assert shown == [[old]] * 3
    read = await plane.result("GetTask", {"id": task["id"]})
    assert (read["history"][0]["parts"], read["artifacts"][0]["parts"]) == ([new], [new])
    pushed = await plane.http.put(f"/api/sessions/{context}/effective_history", json=[message])
    assert pushed.json()["data"]["messages"][0]["parts"] == [old]


async def test_a_send_with_a_part_of_an_older_client_is_refused(plane: Plane) -> None:
    """a2a B13: a part with `type` instead of `kind` is invalid params."""
    message = said_0_3("", parts=[{"type": "text", "text": "hi"}])
    assert (await plane.error("message/send", {"message": message}))["code"] == -32602


@pytest.mark.parametrize("part", [{"type": "video", "uri": "https://example.com"}, {"type": "text"}, {"type": "file"}])
async def test_a_part_without_meaning_is_refused_with_its_path(plane: Plane, part: Json) -> None:
    """T3."""
    history = [{"messageId": fresh(), "role": "agent", "parts": [part]}]
    task = {"contextId": fresh(), "status": {"state": "completed"}, "history": history}
    reply = await plane.http.post("/api/tasks", json=task)
    assert reply.status_code == 400
    assert all(name.startswith("history[0].parts[0]") for name in reply.json()["fields"])
