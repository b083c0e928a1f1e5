"""Request bodies of real clients: compressed, with a byte order mark, without an id, with unusual values."""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.gateway.plane import GROWING, Json, Plane, fresh, open_all, request, said, said_0_3

JSON_TYPE = {"Content-Type": "application/json"}
LINES = {"Content-Type": "application/x-ndjson"}
BOM = b"\xef\xbb\xbf"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    async with open_all(tmp_path_factory.mktemp("bodies")) as plane:
        yield plane


ROUTES = [
    ("POST", "/", JSON_TYPE),
    ("POST", "/agents/demo", JSON_TYPE),
    ("POST", "/api/tasks", JSON_TYPE),
    ("POST", "/api/sessions", JSON_TYPE),
    ("PUT", "/api/sessions/s", JSON_TYPE),
    ("PATCH", "/api/sessions/s", JSON_TYPE),
    ("PUT", "/api/sessions/s/effective_history", JSON_TYPE),
    ("POST", "/api/sessions/s/rewind", JSON_TYPE),
    ("POST", "/api/sessions/s/undo_rewind", JSON_TYPE),
    ("POST", "/api/sessions/s/fork", JSON_TYPE),
    ("POST", "/api/sessions/s/events", JSON_TYPE),
    ("POST", "/api/sessions/import", LINES),
]


@pytest.mark.parametrize("coding", ["gzip", "br", "Deflate", "identity, gzip", "x-unknown"])
@pytest.mark.parametrize(("method", "path", "kind"), ROUTES)
async def test_a_compressed_body_is_refused_with_415_and_the_accepted_coding(
    plane: Plane, method: str, path: str, kind: dict[str, str], coding: str
) -> None:
    """P3: Accept-Encoding names the coding (RFC 9110 section 15.5.16), and the error has the form of the binding."""
    sent = await plane.http.request(
        method, path, content=gzip.compress(b"{}"), headers={**kind, "Content-Encoding": coding}
    )
    assert (sent.status_code, sent.headers["accept-encoding"]) == (415, "identity"), sent.text
    body = sent.json()
    if path.startswith("/api"):
        assert body["code"] == "CONTENT_ENCODING_NOT_SUPPORTED"
    else:
        assert (body["id"], body["error"]["code"]) == (None, -32005)
        assert "Content-Encoding" in body["error"]["data"][0]["metadata"]["suggestion"]


async def test_a_body_with_a_transfer_coding_is_refused_with_415(plane: Plane) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
    lines = ["POST / HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Connection: close"]
    writer.write("\r\n".join([*lines, "Transfer-Encoding: gzip, chunked", "\r\n"]).encode() + b"2\r\n{}\r\n0\r\n\r\n")
    head = (await reader.read()).lower()
    writer.close()
    assert head.startswith(b"http/1.1 415 ") and b"accept-encoding: identity" in head


async def test_the_coding_identity_is_accepted(plane: Plane) -> None:
    body = json.dumps(request("ListTasks", {})).encode()
    sent = await plane.http.post("/", content=body, headers={**JSON_TYPE, "Content-Encoding": "Identity"})
    assert "tasks" in sent.json()["result"]


async def test_a_byte_order_mark_before_a_body_is_skipped(plane: Plane) -> None:
    """P3: RFC 8259 permits that parsers ignore it. This holds on each kind of route."""
    context = fresh()
    made = BOM + json.dumps({"id": context, "agent_ref": "demo"}).encode()
    assert (await plane.http.post("/api/sessions", content=made, headers=JSON_TYPE)).status_code == 201
    sent = BOM + json.dumps(request("SendMessage", {"message": said("hello", contextId=context)})).encode()
    assert (await plane.http.post("/", content=sent, headers=JSON_TYPE)).json()["result"]["task"]
    lines = (await plane.http.get(f"/api/sessions/{context}/export")).content
    copy = await plane.http.post(f"/api/sessions/import?id={fresh()}", content=BOM + lines, headers=LINES)
    assert copy.status_code == 201, copy.text
    twice = await plane.http.post("/", content=BOM + BOM + b"{}", headers=JSON_TYPE)
    assert twice.json()["error"]["code"] == -32700


TIMES = {
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00Z",
    "2016-12-31T23:59:60.500Z": "2017-01-01T00:00:00.500Z",
    "2017-01-01T08:59:60+09:00": "2017-01-01T00:00:00Z",
    "2024-02-29t12:00:00z": "2024-02-29T12:00:00Z",
    "2024-02-29T12:00:00.25z": "2024-02-29T12:00:00.250Z",
}


@pytest.mark.parametrize("text", TIMES)
async def test_every_form_of_an_rfc_3339_time_is_read(plane: Plane, text: str) -> None:
    """P3, a2a B3: leap seconds and lower-case letters, in documents, lists and queries."""
    context = fresh()
    body = {"id": fresh(), "contextId": context, "kind": "task", "status": {"state": "completed", "timestamp": text}}
    stored = await plane.http.post("/api/tasks", json=body)
    assert stored.status_code == 201, stored.text
    assert stored.json()["data"]["status"]["timestamp"] == TIMES[text]
    assert await plane.result("ListTasks", {"statusTimestampAfter": text})
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    found = await plane.http.get(f"/api/sessions/{context}", params={"after": text})
    assert found.status_code == 200, found.text


@pytest.mark.parametrize("text", ["2016-12-31T23:59:61Z", "2016-12-31T23:60:60Z", "9999-12-31T23:59:60Z", "z", "60"])
async def test_an_invalid_time_is_refused(plane: Plane, text: str) -> None:
    assert (await plane.error("ListTasks", {"statusTimestampAfter": text}))["code"] == -32602


async def test_base64_with_line_breaks_is_read(plane: Plane) -> None:
    """P3: as in MIME and the output of command-line tools, in both versions and in documents."""
    content = bytes(range(256))
    raw = base64.encodebytes(content).decode()
    for broken in (raw, raw.replace("\n", "\r\n"), raw.replace("+", "-").replace("/", "_").replace("\n", "\n\t ")):
        task = await plane.send("hello", message={"parts": [{"text": "hello"}, {"raw": broken}]})
        assert base64.b64decode(task["history"][0]["parts"][1]["raw"]) == content
        parts = [{"kind": "text", "text": "hello"}, {"kind": "file", "file": {"bytes": broken}}]
        older = await plane.send_0_3("hello", message={"parts": parts}, blocking=True)
        assert base64.b64decode(older["history"][0]["parts"][1]["file"]["bytes"]) == content
    message = said("hello", parts=[{"raw": "YQ$="}])
    assert (await plane.error("SendMessage", {"message": message}))["code"] == -32602


async def test_numbers_of_enumerations_are_read_like_their_names(plane: Plane) -> None:
    """P3: ProtoJSON permits both, in messages of either version, lists, documents and pushed histories."""
    context = fresh()
    for role in (1, 1.0, "ROLE_USER"):
        task = await plane.send("hello", message={"contextId": context, "role": role})
        assert task["history"][0]["role"] == "ROLE_USER"
    older = await plane.send_0_3("hello", message={"contextId": context, "role": 1}, blocking=True)
    assert older["history"][0]["role"] == "user"
    for status in (3, 3.0, "TASK_STATE_COMPLETED"):
        assert (await plane.result("ListTasks", {"contextId": context, "status": status}))["totalSize"] == 4
    assert (await plane.result("ListTasks", {"contextId": context, "status": 4}))["totalSize"] == 0
    history = [{"messageId": fresh(), "role": 2, "parts": [{"text": "a"}]}]
    body = {"id": fresh(), "contextId": fresh(), "status": {"state": 6}, "history": history}
    stored = await plane.http.post("/api/tasks", json=body)
    assert stored.status_code == 201, stored.text
    shown = stored.json()["data"]
    assert (shown["status"]["state"], shown["history"][0]["role"]) == ("input-required", "agent")
    pushed = await plane.http.put(f"/api/sessions/{context}/effective_history", json=history)
    assert pushed.status_code == 200, pushed.text


@pytest.mark.parametrize("number", [0, 99, -1, 1.5, 1e300, True, [1]])
async def test_an_unknown_number_of_an_enumeration_is_refused(plane: Plane, number: object) -> None:
    assert (await plane.error("SendMessage", {"message": said("hello", role=number)}))["code"] == -32602
    assert (await plane.error("message/send", {"message": said_0_3("hello", role=number)}))["code"] == -32602
    assert (await plane.error("ListTasks", {"status": number}))["code"] == -32602
    if number != 0:
        body: Json = {"id": fresh(), "contextId": fresh(), "status": {"state": number}}
        assert (await plane.http.post("/api/tasks", json=body)).status_code == 400


async def notify(plane: Plane, method: str, params: Json, **headers: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return await plane.http.post("/", json=body, headers=headers)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"])
async def test_a_notification_is_processed_and_answered_with_204(plane: Plane, method: str) -> None:
    """P3: JSON-RPC 2.0 section 4.1. The client does not wait, and the task continues."""
    context = fresh()
    write = said_0_3 if "/" in method else said
    reply = await notify(plane, method, {"message": write("slow 200", contextId=context)}, **GROWING)
    assert (reply.status_code, reply.content) == (204, b"")
    assert "content-type" not in reply.headers
    await plane.at_zero()
    (task,) = (await plane.result("ListTasks", {"contextId": context}))["tasks"]
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    canceled = await notify(plane, "CancelTask", {"id": task["id"]})
    assert (canceled.status_code, canceled.content) == (204, b"")
    assert (await plane.result("GetTask", {"id": task["id"]}))["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    "method", ["GetTask", "SubscribeToTask", "tasks/resubscribe", "message/send", "Nothing", "x/y"]
)
async def test_a_failed_notification_is_answered_with_204(plane: Plane, method: str) -> None:
    reply = await notify(plane, method, {"id": "nobody"})
    assert (reply.status_code, reply.content) == (204, b"")


async def test_a_notification_uses_no_stream_slot(tmp_path: Path) -> None:
    """P3: its slot is free as soon as the task exists."""
    async with open_all(tmp_path, max_streams_per_principal=1) as plane:
        for _ in range(3):
            assert (await notify(plane, "SendStreamingMessage", {"message": said("hello")})).status_code == 204
        async with plane.stream("SendStreamingMessage", {"message": said("hello")}) as events:
            assert [event async for event in events]


async def test_a_request_with_a_null_id_and_an_invalid_envelope_are_answered(plane: Plane) -> None:
    """P3: neither is a notification."""
    answer = await plane.http.post("/", json={"jsonrpc": "2.0", "id": None, "method": "ListTasks"})
    assert (answer.json()["id"], "result" in answer.json()) == (None, True)
    bodies: list[Any] = [{}, {"jsonrpc": "1.0", "method": "ListTasks"}, {"jsonrpc": "2.0", "method": 1}, []]
    for body in bodies:
        reply = await plane.http.post("/", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (200, -32600)


async def test_a_key_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    """S2: some editors write one."""
    keys = tmp_path / "keys.toml"
    keys.write_bytes(BOM + b'[[keys]]\nid = "a"\nowner = "ann"\nsha256 = "' + b"0" * 64 + b'"\n')
    async with open_all(tmp_path, api_keys=str(keys)) as plane:
        assert (await plane.http.get("/api/sessions")).status_code == 401
