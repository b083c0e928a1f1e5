"""Slow uploads over real sockets: each has a time limit, and none delays other callers."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.gateway.plane import Json, Plane, fresh, open_all, request, said

from taskplane.gateway.web import uploads

LINES = "application/x-ndjson"


class Upload:
    """A request with a body that the test sends in pieces."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, Json, bytes]:
        """Return status, body and head of the answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        found: Json = json.loads(await self.reader.readexactly(length))
        return int(head.split()[1]), found, head

    async def trickle(self, every: float, count: int = 100_000) -> None:
        """Send a number of bytes one at a time, until the connection is closed."""
        for _ in range(count):
            if self.writer.is_closing():
                return
            self.writer.write(b" ")
            await asyncio.sleep(every)


@asynccontextmanager
async def begun(
    plane: Plane, at: str, user: str, content: bytes = b"", kind: str = "application/json", length: int = 100_000
) -> AsyncGenerator[Upload]:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.gateway.port)
    head = f"{at} HTTP/1.1\r\nHost: localhost\r\nX-User-Id: {user}\r\nContent-Type: {kind}\r\n"
    writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode() + content)
    try:
        async with asyncio.timeout(60):
            yield Upload(reader, writer)
    finally:
        writer.transport.abort()


async def exported(plane: Plane, user: str) -> bytes:
    """Return the exported file of a new session of the user."""
    context = fresh()
    body = request("SendMessage", {"message": said("hello", contextId=context)})
    await plane.http.post("/", json=body, headers={"X-User-Id": user})
    return (await plane.http.get(f"/api/sessions/{context}/export", headers={"X-User-Id": user})).content


async def import_of(plane: Plane, user: str, content: bytes) -> tuple[int, str]:
    """Return the status and the code of an import that is sent at once."""
    headers = {"X-User-Id": user, "Content-Type": LINES}
    reply = await plane.http.post(f"/api/sessions/import?id={fresh()}", content=content, headers=headers)
    return reply.status_code, reply.json().get("code", "")


async def until_refused(plane: Plane, user: str, content: bytes) -> None:
    """Wait until an import of the user is refused, which shows that another one has begun."""
    async with asyncio.timeout(60):
        while await import_of(plane, user, content) != (429, "TOO_MANY_IMPORTS"):
            pass


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        ("POST /", "application/json"),
        ("POST /message:send", "application/json"),
        ("POST /api/tasks", "application/json"),
        ("POST /api/sessions", "application/json"),
        ("PUT /api/sessions/s", "application/json"),
        ("PATCH /api/sessions/s", "application/json"),
        ("PUT /api/sessions/s/effective_history", "application/json"),
        ("POST /api/sessions/s/rewind", "application/json"),
        ("POST /api/sessions/s/undo_rewind", "application/json"),
        ("POST /api/sessions/s/fork", "application/json"),
        ("POST /api/sessions/s/events", "application/json"),
        ("POST /api/sessions/import", LINES),
    ],
)
async def test_a_body_below_the_minimum_rate_is_refused_with_408(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, kind: str
) -> None:
    """L2: on every route with a body. The connection is closed."""
    monkeypatch.setattr(uploads, "AT_ONCE", 0.05)
    monkeypatch.setattr(uploads, "GRACE", 0.2)
    async with open_all(tmp_path) as plane, begun(plane, at, "ann", b"{", kind) as upload:
        trickling = asyncio.create_task(upload.trickle(0.02))
        status, body, head = await upload.answer()
        trickling.cancel()
        assert (status, b"connection: close" in head) == (408, True)
        assert "BODY_TOO_SLOW" in json.dumps(body)


async def test_an_import_over_its_time_limit_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    """L2: also if it never pauses and keeps the minimum rate."""
    async with open_all(tmp_path, min_body_rate=0, import_upload_timeout=0.5) as plane:
        content = await exported(plane, "ann")
        context = fresh()
        at = f"POST /api/sessions/import?id={context}"
        async with begun(plane, at, "bob", content[: content.index(b"\n") + 1], LINES) as upload:
            trickling = asyncio.create_task(upload.trickle(0.02))
            status, body, _ = await upload.answer()
            trickling.cancel()
            assert (status, body["code"]) == (408, "BODY_TIMEOUT")
        assert (await plane.http.get(f"/api/sessions/{context}", headers={"X-User-Id": "bob"})).status_code == 404
        assert (await import_of(plane, "bob", content))[0] in (201, 409)


async def test_slow_imports_of_one_user_do_not_block_others(tmp_path: Path) -> None:
    """L2: each user has one slow import at a time. An upload without a valid first line takes no slot."""
    async with open_all(tmp_path, max_imports=1) as plane:
        content = await exported(plane, "ann")
        header = content[: content.index(b"\n") + 1]
        at = "POST /api/sessions/import?id="
        async with begun(plane, at + fresh(), "eve", header[:20], LINES):
            await until_refused(plane, "eve", b"{}")
            # The limit does not concern another user: this body is refused for its first line.
            assert await import_of(plane, "bob", b"{}\n") == (400, "BAD_LINE")
            async with begun(plane, at + fresh(), "carl", header, LINES):
                await until_refused(plane, "dora", header)
                assert await import_of(plane, "carl", header) == (429, "TOO_MANY_IMPORTS")
        async with asyncio.timeout(60):
            while (await import_of(plane, "eve", b"{}\n"))[0] == 429:
                pass


async def test_slow_uploads_of_a_caller_over_the_limit_are_refused_with_429(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: other callers and quick uploads are not affected."""
    monkeypatch.setattr(uploads, "AT_ONCE", 0.05)
    async with open_all(tmp_path, max_uploads_per_principal=1) as plane:
        async with begun(plane, "POST /api/tasks", "eve") as first, begun(plane, "POST /api/tasks", "eve") as second:
            answers = [asyncio.create_task(upload.answer()) for upload in (first, second)]
            done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            status, body, head = done.pop().result()
            assert (status, body["code"], b"connection: close" in head) == (429, "TOO_MANY_UPLOADS", True)
            assert b"retry-after: 1" in head
            quick = await plane.http.post("/api/sessions", json={"agent_ref": "a"}, headers={"X-User-Id": "eve"})
            assert quick.status_code == 201
            async with begun(plane, "POST /", "eve") as third:
                status, body, _ = await third.answer()
                assert (status, body["error"]["code"]) == (200, -32029)
            assert await slow_session(plane, "bob") == 201
            for task in waiting:
                task.cancel()
        # The slot is free as soon as the server has noticed the disconnect.
        async with asyncio.timeout(60):
            while await slow_session(plane, "eve") != 201:
                pass


async def slow_session(plane: Plane, user: str) -> int:
    """Create a session by a body that ends with 10 slow spaces, and return the status."""
    content = b'{"agent_ref": "a"}'
    async with begun(plane, "POST /api/sessions", user, content, length=len(content) + 10) as upload:
        trickling = asyncio.create_task(upload.trickle(0.02, 10))
        status, _, _ = await upload.answer()
        trickling.cancel()
        return status
