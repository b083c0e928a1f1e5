"""Line breaks that JSON allows in texts (U+2028, U+2029, U+0085), on every route that writes JSON in lines."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.gateway.conversing import STREAMS, Way, name_of
from tests.gateway.plane import GROWING, JSON_TYPE, Json, Plane, fresh, named, open_all, said, said_0_3

from taskplane.agents.agent import (
    AgentCard,
    AgentError,
    ArtifactChunk,
    Change,
    Complete,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Working,
)
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

pytestmark = pytest.mark.asyncio(loop_scope="module")

BREAKS = "a\u2028b\u2029c\x85d"
RAW = [b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85"]


class Broken:
    """An agent that puts line breaks into every text, and fails with one on request."""

    card = AgentCard(name="Broken", description=BREAKS, version="1")

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        yield Working(BREAKS)
        yield Text(BREAKS)
        yield ToolCall(id="1", name="tool", args={BREAKS: [BREAKS]})
        yield ToolResult(id="1", name="tool", response={BREAKS: BREAKS})
        parts = [a2a.Part(text=BREAKS), a2a.Part(data=value_of([BREAKS]))]
        yield ArtifactChunk("a", parts=parts, name=BREAKS, metadata={BREAKS: BREAKS})
        yield ArtifactChunk("b", data={BREAKS: BREAKS})
        message = a2a.Message(message_id=f"m\u2028{turn.task_id}", parts=[a2a.Part(text=BREAKS)])
        message.metadata.fields[BREAKS].string_value = BREAKS
        yield Say(message)
        if "fail" in turn.text:
            raise AgentError(BREAKS)
        yield Complete(BREAKS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    async with open_all(tmp_path_factory.mktemp("plane"), ("broken", Broken())) as plane:
        yield plane


def lines(body: bytes) -> list[Any]:
    """Return the JSON values of a body of events or lines, split as Python splits lines."""
    assert not [one for one in RAW if one in body], body
    texts = [line.removeprefix("data: ") for line in body.decode().splitlines()]
    return [json.loads(text) for text in texts if text.startswith("{")]


def holds(value: Any, text: str = BREAKS) -> bool:
    """Return whether a text is somewhere in a JSON value."""
    return json.dumps(text) in json.dumps(value)


async def posted(plane: Plane, body: Json, path: str = "/", **headers: str) -> bytes:
    reply = await plane.http.post(path, content=json.dumps(body), headers={**JSON_TYPE, **named(headers)})
    assert reply.status_code in (200, 201), reply.text
    return reply.content


def call(way: Way, context: str, text: str = BREAKS) -> Json:
    make = said if way.version == "1.0" else said_0_3
    message = make(text, contextId=context, metadata={BREAKS: BREAKS})
    return {"jsonrpc": "2.0", "id": BREAKS, "method": way.method, "params": {"message": message}}


@pytest.mark.parametrize("path", ["/", "/agents/broken", "/api/a2a/kagent/broken"])
@pytest.mark.parametrize("way", STREAMS, ids=name_of)
async def test_clients_that_split_lines_at_any_break_can_read_a_stream(plane: Plane, way: Way, path: str) -> None:
    """T1: texts, metadata, tool calls, artifacts, status texts and the ids of requests and messages."""
    found = lines(await posted(plane, call(way, fresh()), path, **GROWING))
    assert all(event["id"] == BREAKS for event in found)
    shown = [event["result"] for event in found]
    assert holds(shown)
    assert any("m\u2028" in json.dumps(one, ensure_ascii=False) for one in shown)


@pytest.mark.parametrize("way", STREAMS, ids=name_of)
async def test_an_error_and_a_failure_in_a_stream_have_no_raw_break(plane: Plane, way: Way) -> None:
    failed = lines(await posted(plane, call(way, fresh(), "fail")))
    assert holds(failed[-1]["result"])
    wrong = call(way, fresh())
    wrong["params"]["message"]["taskId"] = BREAKS.replace("\x85", "")
    refused = lines(await posted(plane, wrong))
    assert (refused[-1]["id"], "error" in refused[-1]) == (BREAKS, True)


async def test_logs_watches_exports_and_answers_have_no_raw_break(plane: Plane) -> None:
    """T3, S7: the routes below /api, in lines and whole."""
    context = fresh()
    async with plane.http.stream("GET", f"/api/sessions/{context}/watch") as missing:
        assert missing.status_code == 404
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "broken", "name": BREAKS})
    async with asyncio.timeout(20), plane.http.stream("GET", f"/api/sessions/{context}/watch") as watch:
        await posted(plane, call(STREAMS[0], context))
        seen = b""
        async for piece in watch.aiter_bytes():
            seen += piece
            if b"completed" in seen and seen.count(b"entry-added") > 4:
                break
    assert holds(lines(seen))
    listed = (await plane.http.get(f"/api/sessions/{context}/tasks")).json()
    task = listed["data"][0]["id"]
    document: Json = {"id": fresh(), "contextId": context, "status": {"state": "working"}}
    document["history"] = [{"role": "agent", "messageId": "m", "parts": [{"kind": "data", "data": {BREAKS: BREAKS}}]}]
    assert holds(lines(await posted(plane, document, "/api/tasks")))
    event = json.dumps({"id": "e", "data": {"text": BREAKS}})
    await plane.http.post(f"/api/sessions/{context}/events", content=event, headers=JSON_TYPE)
    for path in (
        f"/api/tasks/{task}/events",
        f"/api/tasks/{task}",
        f"/api/tasks/{task}/artifacts",
        f"/api/tasks/{task}/artifacts/a",
        f"/api/tasks/{task}/artifacts/b?format=json",
        f"/api/sessions/{context}",
        f"/api/sessions/{context}/messages",
        f"/api/sessions/{context}/tasks",
        f"/api/sessions/{context}/effective_history",
        f"/api/sessions/{context}/export",
        f"/api/sessions/{context}/export?format=json",
        "/agents/broken/.well-known/agent-card.json",
    ):
        reply = await plane.http.get(path)
        assert reply.status_code == 200, (path, reply.text)
        assert not [one for one in RAW if one in reply.content], path
        assert "\\u2028" in reply.text, path
        if path.endswith(("/events", "/export")):
            assert holds(lines(reply.content))


async def test_an_export_with_line_breaks_is_imported(plane: Plane) -> None:
    context = fresh()
    await posted(plane, call(STREAMS[1], context))
    exported = (await plane.http.get(f"/api/sessions/{context}/export")).content
    reply = await plane.http.post(
        f"/api/sessions/import?id={fresh()}", content=exported, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.status_code == 201, reply.text
