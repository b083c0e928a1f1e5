"""Hostile and unlucky clients, over the wire: each gets its typed error, and neither store keeps anything of the
request. Over 300 lines, since the tables of refused requests belong beside the one check that all of them pass."""

import asyncio
import json
import socket
import sqlite3
import struct
from typing import Any
from uuid import uuid4

import pytest
from tests.system.plane import Plane
from tests.system.untouched import no_streams, untouched
from tests.system.wire import call, client, request, result, send, text_message, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG, LINE, C1 = "x" * 300, "a\nb", "a\x85b"
LARGE = "x" * 5_000_000


def nested(levels: int) -> bytes:
    """A JSON object of so many levels."""
    return b'{"a":' * levels + b"1" + b"}" * levels


async def copied(plane: Plane) -> bool:
    """No message of a task is still on its way into the session."""
    database = sqlite3.connect(f"file:{plane.tasks_db}?mode=ro", uri=True)
    try:
        query = "SELECT count(*) FROM task WHERE copied_generation < message_generation"
        return bool(database.execute(query).fetchone()[0] == 0)
    finally:
        database.close()


def rpc(method: str, params: Any) -> bytes:
    return json.dumps(request(method, params)).encode()


def said(**fields: Any) -> bytes:
    """Returns a send with these fields in its message."""
    return rpc("SendMessage", {"message": text_message("echo hi") | fields})


def with_data(levels: int) -> bytes:
    return said(parts=[{"data": 0}]).replace(b'"data": 0', b'"data": ' + nested(levels))


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", -32700),
    "half an object": (b"{", -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":NaN}', -32700),
    "a number beyond doubles": (b'{"jsonrpc":"2.0","id":1e400}', -32600),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\xff"}}', -32700),
    "a lone surrogate": (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\\ud800"}}', -32700),
    "a million brackets": (b"[" * 1_000_000, -32602),
    "a batch": (b"[" + rpc("GetTask", {"id": "x"}) + b"]", -32600),
    "null": (b"null", -32600),
    "no version": (b'{"id":1,"method":"GetTask"}', -32600),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
    "an id that is an object": (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
    "an unknown method": (rpc("Nope", {}), -32601),
    "tasks/list of 0.3": (rpc("tasks/list", {}), -32601),
    "params that are a list": (rpc("GetTask", [1]), -32602),
    "100 levels": (rpc("SendMessage", 0).replace(b'"params": 0', b'"params": ' + nested(100)), -32602),
    "no message": (rpc("SendMessage", {}), -32602),
    "a message that is text": (rpc("SendMessage", {"message": "x"}), -32602),
    "no parts": (said(parts=[]), -32602),
    "an empty part": (said(parts=[{}]), -32602),
    "a part that is two": (said(parts=[{"text": "a", "url": "b"}]), -32602),
    "base64 that is none": (said(parts=[{"raw": "!!"}]), -32602),
    "NUL in a text": (said(parts=[{"text": "a\0b"}]), -32602),
    "NUL in a key": (said(parts=[{"data": {"a\0": 1}}]), -32602),
    "data of 30 levels": (with_data(30), -32602),
    "a million values": (said(parts=[{"data": [0] * 1_000_000}]), -32602),
    "a million wrong references": (said(referenceTaskIds=[1] * 1_000_000), -32602),
    "101 references": (said(referenceTaskIds=["x"] * 101), -32602),
    "101 parts": (said(parts=[{"text": "x"}] * 101), -32602),
    "an unknown role": (said(role="ROLE_NONE"), -32602),
    "metadata of 70 KB": (said(metadata={"a": LARGE[:70_000]}), -32602),
    "5 MB of text": (said(parts=[{"text": LARGE}]), -32602),
    **{
        f"{what} in {field}": (said(**{field: value}), -32602)
        for field in ("messageId", "contextId", "taskId")
        for what, value in {"300 characters": LONG, "a line break": LINE, "a C1 control": C1, "5 MB": LARGE}.items()
    },
    "a history below zero": (
        rpc("SendMessage", {"message": text_message("x"), "configuration": {"historyLength": -1}}),
        -32602,
    ),
    "an unknown task": (said(taskId="nope"), -32001),
    "GetTask of 5 MB": (rpc("GetTask", {"id": LARGE}), -32602),
    "SubscribeToTask of 5 MB": (rpc("SubscribeToTask", {"id": LARGE}), -32602),
    "CancelTask with 5 MB": (rpc("CancelTask", {"id": "x", "metadata": {"a": LARGE}}), -32602),
    "ListTasks of 5 MB": (rpc("ListTasks", {"contextId": LARGE}), -32602),
    "a page token of 5 MB": (rpc("ListTasks", {"pageToken": LARGE}), -32602),
    "a foreign page token": (rpc("ListTasks", {"pageToken": "abc"}), -32602),
    "GetTask of nothing known": (rpc("GetTask", {"id": "nope"}), -32001),
    "tasks/get of nothing known": (rpc("tasks/get", {"id": "nope"}), -32001),
    "a 0.3 part with a type": (
        rpc("message/send", {"message": {"messageId": "x", "role": "user", "parts": [{"type": "text", "text": "x"}]}}),
        -32602,
    ),
    "a webhook": (
        rpc(
            "SendMessage",
            {"message": text_message("x"), "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}},
        ),
        -32003,
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_bad_call_gets_its_typed_error_and_stores_nothing(plane: Plane, name: str) -> None:
    """T1, S7: the answer to any wrong JSON-RPC request has the error in a few lines, and no session begins."""
    body, code = BODIES[name]
    async with untouched(plane), client(plane.url) as http:
        answer = await http.post("/", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200
        assert answer.json()["error"]["code"] == code
        assert len(answer.content) < 10_000


def document(**fields: Any) -> bytes:
    return json.dumps({"id": "doc", "contextId": "docs", "status": {"state": "working"}, **fields}).encode()


_DEEP = document(artifacts=[{"artifactId": "a", "parts": [{"data": 0}]}]).replace(
    b'"data": 0', b'"data": ' + nested(600)
)

ROUTES: dict[str, tuple[str, str, bytes, int]] = {
    "no JSON": ("POST", "/api/tasks", b"{", 400),
    "a list": ("POST", "/api/tasks", b"[]", 400),
    "no context": ("POST", "/api/tasks", document(contextId=None), 400),
    "no status": ("POST", "/api/tasks", document(status=None), 400),
    "an unknown state": ("POST", "/api/tasks", document(status={"state": "bogus"}), 400),
    "a time that is none": ("POST", "/api/tasks", document(status={"state": "working", "timestamp": "x"}), 400),
    "an artifact without id": ("POST", "/api/tasks", document(artifacts=[{"parts": []}]), 400),
    "a deep document": ("POST", "/api/tasks", _DEEP, 400),
    "a long id": ("POST", "/api/tasks", document(id=LONG), 400),
    "a C1 control in the id": ("POST", "/api/tasks", document(id=C1), 400),
    "a C1 control in the context": ("POST", "/api/tasks", document(contextId=C1), 400),
    "a million wrong messages": ("POST", "/api/tasks", document(history=[1] * 1_000_000), 400),
    "a document of 5 MB": ("POST", "/api/tasks", document(history=[{"role": "user", "parts": [{"text": LARGE}]}]), 413),
    "9 MB": ("POST", "/api/tasks", b" " * 9_000_000, 413),
    "a task that is not there": ("DELETE", "/api/tasks/nope", b"", 404),
    "NUL in a path": ("GET", "/api/tasks/%00", b"", 400),
    "no agent": ("POST", "/api/sessions", b'{"name":"x"}', 400),
    "a session id of 5 MB": ("POST", "/api/sessions", json.dumps({"id": LARGE, "agent_ref": "a"}).encode(), 413),
    "a name of 5 MB": ("POST", "/api/sessions", json.dumps({"name": LARGE, "agent_ref": "a"}).encode(), 413),
    "a name of 2,000": ("POST", "/api/sessions", json.dumps({"name": LARGE[:2000], "agent_ref": "a"}).encode(), 400),
    "an event nowhere": ("POST", "/api/sessions/nope/events", b'{"id":"e","data":"{}"}', 404),
    "a session nowhere": ("GET", "/api/sessions/nope", b"", 404),
    "the tasks of a session nowhere": ("GET", "/api/sessions/nope/tasks", b"", 404),
    "a session to delete nowhere": ("DELETE", "/api/sessions/nope", b"", 404),
    "no such route": ("GET", "/api/nope", b"", 404),
    "no such method": ("PUT", "/api/tasks", b"", 405),
}


@pytest.mark.parametrize("name", ROUTES)
async def test_a_bad_request_under_api_gets_its_status_and_stores_nothing(plane: Plane, name: str) -> None:
    """T3, S1, S4, S5, S6: a failure under /api is `{"error": text, "code": REASON}` with its HTTP status."""
    method, path, body, status = ROUTES[name]
    async with untouched(plane), client(plane.url) as http:
        answer = await http.request(method, path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == status, answer.text[:300]
        found = answer.json()
        assert found["error"]
        assert found["code"].isupper()
        assert len(answer.content) < 10_000


async def raw(plane: Plane, data: bytes) -> bytes:
    """Returns the answer of a connection to these bytes, until it is closed or silent for long."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(plane.url.rpartition(":")[2]))
    try:
        writer.write(data)
        async with asyncio.timeout(10):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


_BODY = rpc("GetTask", {"id": "x"})
_HEADERS = {"Host": b"127.0.0.1", "Content-Type": b"application/json", "Content-Length": b"%d" % len(_BODY)}


def http_1(**changed: bytes) -> bytes:
    headers = _HEADERS | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers.items() if value)
    return b"POST / HTTP/1.1\r\n" + lines + b"\r\n" + _BODY


WIRE: dict[str, tuple[bytes, int]] = {
    "as it should be": (http_1(), 200),
    "a host of others": (http_1(Host=b"evil.example"), 403),
    "a host that is half an address": (http_1(Host=b"["), 403),
    "an origin of others": (http_1(Origin=b"http://evil.example"), 403),
    "an origin that is half an address": (http_1(Origin=b"http:/" + b"/["), 403),
    "a length below zero": (http_1(Content_Length=b"-5"), 400),
    "a length of a terabyte": (http_1(Content_Length=b"1000000000000"), 413),
    "a length and chunks": (http_1(Transfer_Encoding=b"chunked"), 400),
    "chunks of no size": (http_1(Content_Length=b"", Transfer_Encoding=b"chunked").replace(_BODY, b"ZZ\r\n"), 400),
    "20 KB of headers": (http_1(X=b"x" * 20_000), 400),
    "NUL in a header": (http_1(X=b"a\0b"), 400),
    "a user with a line break": (b"GET /api/sessions?user_id=%0a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", WIRE)
async def test_a_bad_http_request_gets_its_status_and_stores_nothing(plane: Plane, name: str) -> None:
    """S2: headers that no client of ours sends are refused before any effect."""
    data, status = WIRE[name]
    async with untouched(plane):
        head = await raw(plane, data)
        assert head.startswith(b"HTTP/1.1 %d " % status), head


async def test_tasks_and_sessions_of_another_user_are_not_found(plane: Plane) -> None:
    """T3, I1, S6: reads, cancels, messages and deletions; saving a task under a used id is a conflict."""
    async with client(plane.url) as mine, client(plane.url, **{"X-User-Id": "mallory"}) as other:
        task = (await send(mine, "ask colour"))["task"]
        await until(lambda: copied(plane))
        async with untouched(plane):
            for method in ("GetTask", "CancelTask", "SubscribeToTask"):
                assert (await call(other, method, {"id": task["id"]}))["error"]["code"] == -32001
            said = {"message": text_message("blue", taskId=task["id"])}
            assert (await call(other, "SendMessage", said))["error"]["code"] == -32001
            for path in ("tasks/" + task["id"], "sessions/" + task["contextId"]):
                assert (await other.get("/api/" + path)).status_code == 404
                assert (await other.delete("/api/" + path)).status_code == 404
            written = {"id": task["id"], "contextId": "x", "status": {"state": "completed"}}
            assert (await other.post("/api/tasks", json=written)).status_code == 409
            assert (await mine.post("/api/tasks", json=written)).json()["code"] == "MANAGED"


async def test_a_message_and_its_direct_answer_may_be_larger_than_one_call(plane: Plane) -> None:
    """P2: then they are saved in two calls, and read back whole."""
    text = "x" * 2_900_000
    async with client(plane.url) as http:
        answer = (await send(http, "message " + text, contextId="large"))["message"]
        assert answer["parts"] == [{"text": text}]
        shown = (await http.get("/api/sessions/large/messages")).json()["data"]["messages"]
        assert [len(message["parts"][0]["text"]) for message in shown] == [len(text) + 8, len(text)]


async def test_a_session_deleted_during_sends_leaves_no_task(plane: Plane) -> None:
    """S4, S7: a turn that was saved before the deletion and becomes a task after it is deleted, too."""
    async with client(plane.url) as http:
        for _ in range(10):
            context = uuid4().hex
            await send(http, "echo a", contextId=context)
            sends = [call(http, "SendMessage", {"message": text_message("echo b", contextId=context)}) for _ in "123"]
            await asyncio.gather(http.delete(f"/api/sessions/{context}"), *sends)
            if (await http.get(f"/api/sessions/{context}")).status_code == 404:
                left = await result(http, "ListTasks", {"contextId": context})
                assert left["totalSize"] == 0


async def test_clients_that_leave_at_any_moment_leave_no_stream_open(plane: Plane) -> None:
    """P1: their tasks complete."""
    body = rpc("SendStreamingMessage", {"message": text_message("chunks 20 8", contextId="gone")})
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(body) + body
    port = int(plane.url.rpartition(":")[2])
    for cut in range(0, len(whole) + 1, 20):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole[: cut or 1])
        await writer.drain()
        if cut % 40:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()
    for _ in range(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(whole)
        await reader.readuntil(b"\n\n")
        writer.transport.abort()
    async with client(plane.url) as http:
        await until(lambda: no_streams(http))

        async def all_ended() -> bool:
            tasks = (await result(http, "ListTasks", {"contextId": "gone", "pageSize": 100}))["tasks"]
            return len(tasks) >= 20 and {task["status"]["state"] for task in tasks} == {"TASK_STATE_COMPLETED"}

        await until(all_ended)
