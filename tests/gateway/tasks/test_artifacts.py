"""Artifacts of a task: the list, and downloads."""

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.executor.scripted import Scripted
from tests.gateway.plane import Plane, fresh, open_all

from taskplane.agents.agent import ArtifactChunk, Change, Complete, Text, ToolCall, ToolResult, Turn, Working
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks import artifacts
from taskplane.tasks.artifacts import PIECE
from taskplane.tasks.domain.artifacts import Piece

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(plane: Plane, task_id: str) -> Any:
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts")
    assert reply.status_code == 200
    return reply.json()["data"]


async def stored(plane: Plane, *parts: Any, **fields: Any) -> str:
    """Store a document with one artifact `a` of these parts, and return its id."""
    task_id = fresh()
    artifact = {"artifactId": "a", "parts": list(parts), **fields}
    body = {"id": task_id, "contextId": fresh(), "status": {"state": "completed"}, "artifacts": [artifact]}
    assert (await plane.http.post("/api/tasks", json=body)).status_code == 201
    return task_id


async def test_artifacts_are_listed_with_their_times(plane: Plane) -> None:
    """P10: artifacts by task with their times."""
    task = await plane.send("artifact")
    artifacts = await listed(plane, task["id"])
    assert [one["name"] for one in artifacts] == ["Words", "Figures", "Table"]
    assert all(one["createdAt"] == one["updatedAt"] and one["createdAt"].endswith("Z") for one in artifacts)
    long = await plane.send("slow 2")
    (one,) = await listed(plane, long["id"])
    assert one["createdAt"] < one["updatedAt"] <= long["status"]["timestamp"]
    assert await listed(plane, (await plane.send("hello"))["id"]) == []
    document = await stored(plane, {"kind": "text", "text": "x"})
    assert (await listed(plane, document))[0]["createdAt"]


async def test_an_artifact_is_downloaded_as_an_attachment_with_its_media_type(plane: Plane) -> None:
    task = await plane.send("artifact")
    ids = {one["name"]: one["artifactId"] for one in await listed(plane, task["id"])}
    base = f"/api/tasks/{task['id']}/artifacts"
    text = await plane.http.get(f"{base}/{ids['Words']}")
    assert (text.text, text.headers["content-type"]) == ("A few words.", "text/plain; charset=utf-8")
    figures = await plane.http.get(f"{base}/{ids['Figures']}")
    assert (figures.json(), figures.headers["content-type"]) == ({"answer": 42, "unit": "none"}, "application/json")
    table = await plane.http.get(f"{base}/{ids['Table']}")
    assert (table.content, table.headers["content-type"]) == (b"name,value\nanswer,42\n", "text/csv")
    assert table.headers["content-disposition"].startswith('attachment; filename="answer.csv"')
    assert table.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in table.headers["content-security-policy"]
    for path in (f"{base}/none", "/api/tasks/none/artifacts/a"):
        assert (await plane.http.get(path)).status_code == 404


async def test_unsafe_characters_of_a_file_name_are_replaced(plane: Plane) -> None:
    """Path separators, control characters and marks that reverse the text direction."""
    for given, written in (
        ("../a\\b.txt", ".._a_b.txt"),
        ("x\u202efdp.exe", "x_fdp.exe"),
        ("a\r\nb", "a__b"),
        ("é/.txt", "é_.txt"),
        ("..", "_"),
    ):
        document = await stored(plane, {"raw": "AAE=", "filename": given})
        (one,) = await listed(plane, document)
        reply = await plane.http.get(f"/api/tasks/{document}/artifacts/{one['artifactId']}")
        disposition = reply.headers["content-disposition"]
        assert disposition.endswith(f"filename*=UTF-8''{quote(written, safe='')}"), disposition


async def test_an_artifact_in_chunks_is_downloaded_as_one_file(plane: Plane) -> None:
    task = await plane.send("chunks 50 100")
    (one,) = await listed(plane, task["id"])
    reply = await plane.http.get(f"/api/tasks/{task['id']}/artifacts/{one['artifactId']}")
    assert len(reply.content) == 5000


@pytest.mark.parametrize(
    ("parts", "media_type", "body"),
    [
        ([{"kind": "text", "text": "a"}, {"kind": "text", "text": "b"}], "text/plain; charset=utf-8", b"ab"),
        ([{"text": "<b>", "mediaType": "text/html"}], "text/html; charset=utf-8", b"<b>"),
        ([{"raw": "AAE="}, {"raw": "Ag=="}], "application/octet-stream", b"\0\1\2"),
        ([{"text": "a", "mediaType": "text/html\r\nx: y"}], "text/plain; charset=utf-8", b"a"),
    ],
)
async def test_text_and_raw_parts_are_joined_and_an_invalid_media_type_is_replaced(
    plane: Plane, parts: list[Any], media_type: str, body: bytes
) -> None:
    task_id = await stored(plane, *parts, name='x"\r\nset-cookie: a=b')
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts/a")
    assert (reply.content, reply.headers["content-type"]) == (body, media_type)
    assert "set-cookie" not in reply.headers


async def test_an_artifact_of_mixed_parts_is_downloaded_as_json(plane: Plane) -> None:
    task_id = await stored(plane, {"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": 1}})
    found = json.loads((await plane.http.get(f"/api/tasks/{task_id}/artifacts/a")).content)
    assert [part["kind"] for part in found["parts"]] == ["text", "data"]


MIXED: list[list[Any]] = [
    [],
    [{"kind": "text", "text": 'a "b" \u00e9\U0001f600\n'}, {"kind": "text", "text": ""}],
    [{"kind": "data", "data": {"b": [1, None]}}, {"kind": "text", "text": "c", "metadata": {"d": 1}}],
    [{"kind": "file", "file": {"name": "e", "bytes": "AAE="}}, {"kind": "file", "file": {"uri": "https://f.example"}}],
]


@pytest.mark.parametrize("parts", MIXED)
async def test_the_downloaded_json_equals_the_artifact_in_the_task(plane: Plane, parts: list[Any]) -> None:
    """P7: for parts of every kind."""
    data = {"kind": "data", "data": {"g": 1}}
    task_id = await stored(plane, *parts, data, data, name="n", description="d", metadata={"m": {"x": "y"}})
    (shown,) = await listed(plane, task_id)
    found = json.loads((await plane.http.get(f"/api/tasks/{task_id}/artifacts/a")).content)
    listing = {"createdAt", "updatedAt", "versions", "afterMessageId"}
    assert found == {name: value for name, value in shown.items() if name not in listing}


async def test_an_unchanged_artifact_is_answered_with_304(plane: Plane) -> None:
    """P7: the tag depends on the content, and caches must be private."""
    tags: set[str] = set()
    for parts in ([{"text": "a"}], [{"text": "b"}], [{"text": "a"}, {"text": "b"}], [{"data": {"a": 1}}]):
        path = f"/api/tasks/{await stored(plane, *parts)}/artifacts/a"
        reply = await plane.http.get(path)
        tags.add(tag := reply.headers["etag"])
        assert reply.headers["cache-control"] == "private, no-cache"
        again = await plane.http.get(path, headers={"if-none-match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert len(tags) == 4


@pytest.mark.parametrize(
    ("range_", "content_range", "body"),
    [
        ("bytes=2-4", "bytes 2-4/10", b"234"),
        ("bytes=7-", "bytes 7-9/10", b"789"),
        ("bytes=-3", "bytes 7-9/10", b"789"),
        ("bytes=0-99", "bytes 0-9/10", b"0123456789"),
        ("bytes=-99", "bytes 0-9/10", b"0123456789"),
        (f"bytes=2-{'9' * 30}", "bytes 2-9/10", b"23456789"),
        (f"bytes={'0' * 30}7-", "bytes 7-9/10", b"789"),
        (f"bytes=-{'9' * 40}", "bytes 0-9/10", b"0123456789"),
    ],
)
async def test_a_range_request_is_answered_with_206_and_the_range(
    plane: Plane, range_: str, content_range: str, body: bytes
) -> None:
    """P7: an interrupted download continues (RFC 9110, section 14)."""
    task_id = await stored(plane, {"text": "012"}, {"text": "3456789"})
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts/a", headers={"range": range_})
    assert (reply.status_code, reply.content, reply.headers["content-range"]) == (206, body, content_range)
    assert reply.headers["content-length"] == str(len(body))


async def test_an_unsatisfiable_range_is_416_and_an_unsupported_one_is_ignored(plane: Plane) -> None:
    """P7: a range after the end is 416. Several ranges, a range of another version and a range of JSON get the whole
    artifact."""
    task_id = await stored(plane, {"text": "0123456789"})
    path = f"/api/tasks/{task_id}/artifacts/a"
    for range_ in ("bytes=10-", "bytes=-0", f"bytes={'9' * 23}-", f"bytes={'9' * 23}-{'9' * 24}"):
        reply = await plane.http.get(path, headers={"range": range_})
        assert (reply.status_code, reply.headers["content-range"]) == (416, "bytes */10")
        assert reply.json()["code"] == "RANGE_NOT_SATISFIABLE" or "RANGE_NOT_SATISFIABLE" in reply.text
    for headers in (
        {"range": "bytes=0-1,3-4"},
        {"range": "bytes=4-2"},
        {"range": "bytes=-"},
        {"range": "lines=1-2"},
        {"range": "bytes=2-4", "if-range": '"other"'},
    ):
        reply = await plane.http.get(path, headers=headers)
        assert (reply.status_code, reply.content) == (200, b"0123456789"), headers
    tag = reply.headers["etag"]
    reply = await plane.http.get(path, headers={"range": "bytes=2-4", "if-range": tag})
    assert (reply.status_code, reply.content) == (206, b"234")
    task_id = await stored(plane, {"data": {"a": 1}})
    reply = await plane.http.get(f"/api/tasks/{task_id}/artifacts/a", headers={"range": "bytes=2-4"})
    assert (reply.status_code, reply.json()) == (200, {"a": 1})
    head = await plane.http.head(path)
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "10")
    await plane.at_zero('taskplane_rpc_open_streams{method="/taskplane.api.tasks.v1.TaskStore/ReadArtifact"}')


async def test_an_older_version_of_an_artifact_is_downloaded_by_its_number(tmp_path: Path) -> None:
    """P7, P10: the list has the number of versions."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("a", text="one ", mergeable=False)
        yield ArtifactChunk("a", text="more", append=True, mergeable=False)
        yield ArtifactChunk("a", text="two", mergeable=False)
        yield Complete()

    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        task = await plane.send("go")
        path = f"/api/tasks/{task['id']}/artifacts"
        assert [one["versions"] for one in await listed(plane, task["id"])] == [2]
        for query, version, content in (
            ("", "2/2", "two"),
            ("?version=1", "1/2", "one more"),
            ("?version=2", "2/2", "two"),
        ):
            reply = await plane.http.get(f"{path}/a{query}")
            assert (reply.text, reply.headers["taskplane-artifact-version"]) == (content, version)
        reply = await plane.http.get(f"{path}/a?version=1", headers={"range": "bytes=4-"})
        assert (reply.status_code, reply.text) == (206, "more")
        for query, status in (("3", 404), ("0", 400), ("-1", 400), ("x", 400), (str(2**63), 400)):
            assert (await plane.http.get(f"{path}/a?version={query}")).status_code == status, query


MEBIBYTES = 62


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the size of each message that the store makes of an artifact."""
    sizes: list[int] = []
    responses = artifacts._responses  # pyright: ignore[reportPrivateUsage]

    def counted(pieces: Iterable[Piece]) -> Iterator[pb.ReadArtifactResponse]:
        for response in responses(pieces):
            sizes.append(response.ByteSize())
            yield response

    monkeypatch.setattr(artifacts, "_responses", counted)
    return sizes


@asynccontextmanager
async def slow_client(plane: Plane, path: str) -> AsyncGenerator[asyncio.StreamReader, None]:
    """Open a client that has requested `path`, with a small receive buffer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", plane.gateway.port))
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield reader
    finally:
        writer.transport.abort()


async def test_a_large_artifact_is_streamed_at_the_pace_of_its_client(plane: Plane, sent: list[int]) -> None:
    """P7: an artifact of the maximum size is never in memory as a whole. Nothing is read for a client that
    disconnected."""
    task = await plane.send(f"chunks {MEBIBYTES} {1024 * 1024}", historyLength=0)
    artifact = task["artifacts"][0]
    expected = hashlib.sha256("".join(part["text"] for part in artifact["parts"]).encode())
    path = f"/api/tasks/{task['id']}/artifacts/{artifact['artifactId']}"
    size = MEBIBYTES * 1024 * 1024
    async with asyncio.timeout(60), slow_client(plane, path) as reader:
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"content-length: {size}".encode() in head
        digest, received = hashlib.sha256(), 0
        while received < size:
            got = await reader.read(64 * 1024)
            received += len(got)
            digest.update(got)
            # The buffers of both sockets, and a few pieces in transit.
            assert sum(sent) - received < 12 * PIECE
    assert digest.digest() == expected.digest()
    assert max(sent) < PIECE + 1024
    sent.clear()
    async with slow_client(plane, path) as reader:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(PIECE)
    await plane.at_zero('taskplane_rpc_open_streams{method="/taskplane.api.tasks.v1.TaskStore/ReadArtifact"}')
    assert sum(sent) < 16 * PIECE


async def test_an_artifact_has_the_id_of_the_message_before_it(tmp_path: Path) -> None:
    """P10: by the order of the log, since changes that are stored together have one time. A growing text counts from
    its first piece; a status text does not count."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield ArtifactChunk("first", text="1", mergeable=False)
        yield Text("I look it up.")
        yield ToolCall("call", "lookup", {})
        yield Working("Looking")
        yield ArtifactChunk("called", text="2", mergeable=False)
        yield ToolResult("call", "lookup", {})
        yield ArtifactChunk("first", text="3", append=True, mergeable=False)
        yield Text("The answer")
        yield ArtifactChunk("grows", text="4", mergeable=False)
        yield Text(" is 42.")
        yield Complete("The answer is 42.")

    async with open_all(tmp_path, ("a", Scripted(script))) as plane:
        task = await plane.send("go")
        said = [*task["history"], task["status"]["message"]]
        user, _, call, _, answer = (message["messageId"] for message in said)
        found = {one["artifactId"]: one["afterMessageId"] for one in await listed(plane, task["id"])}
        assert found == {"first": user, "called": call, "grows": answer}
        assert "afterMessageId" not in (await listed(plane, await stored(plane, {"text": "x"})))[0]
