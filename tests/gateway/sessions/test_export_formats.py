"""Exports of sessions as one JSON document, and as a transcript."""

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conversing import Way, invocation, rewind, say
from tests.gateway.plane import Json, Plane, fresh, open_all
from tests.gateway.sessions.test_exports import everything, exported, lines_of

pytestmark = pytest.mark.one_engine

SEND = Way("1.0", False)
TIME = re.compile(r" · \d{4}-\d\d-\d\d \d\d:\d\d UTC$", re.MULTILINE)


@pytest.fixture
async def whole(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane


async def export(plane: Plane, context: str, form: str, media_type: str, ending: str) -> str:
    reply = await plane.http.get(f"/api/sessions/{context}/export?format={form}")
    assert (reply.status_code, reply.headers["content-type"]) == (200, media_type), reply.text
    assert f'attachment; filename="{context}.{ending}"' in reply.headers["content-disposition"]
    return reply.text


async def transcript(plane: Plane, context: str) -> list[str]:
    """Return the blocks of a transcript, with headings without their times."""
    text = await export(plane, context, "markdown", "text/markdown; charset=utf-8", "md")
    assert text.endswith("\n") and "\n\n\n" not in text
    assert len(TIME.findall(text)) == len(re.findall("^## ", text, re.MULTILINE))
    return TIME.sub("", text.removesuffix("\n")).split("\n\n")


def part(kind: str, value: Any, **metadata: str) -> Json:
    return {"kind": kind, kind: value, **({"metadata": metadata} if metadata else {})}


def message(task: str, role: str, *parts: Json) -> Json:
    return {"kind": "message", "messageId": fresh(), "taskId": task, "role": role, "parts": list(parts)}


async def stored(plane: Plane, context: str, history: list[Json], **fields: Any) -> None:
    """Store a document with these messages."""
    task = history[0]["taskId"]
    document = {"id": task, "contextId": context, "kind": "task", "status": {"state": "completed"}, **fields}
    reply = await plane.http.post("/api/tasks", json={**document, "history": history})
    assert reply.status_code == 201, reply.text


async def test_the_json_document_has_all_lines_of_the_file_with_events_at_their_tasks(whole: Plane) -> None:
    """S: all entries, tasks and events, in the same order."""
    context = await everything(whole)
    expected: Json = {"entries": [], "tasks": []}
    for line in lines_of(await exported(whole, context)):
        kind = line["type"]
        if kind == "header":
            expected |= {name: line[name] for name in ("format", "version", "session")}
        elif kind == "entry":
            expected["entries"].append(line["entry"])
        elif kind == "task":
            expected["tasks"].append({**line["task"], "events": []})
        elif kind == "event":
            expected["tasks"][-1]["events"].append(line["event"])
    assert json.loads(await export(whole, context, "json", "application/json", "json")) == expected
    empty = fresh()
    await whole.http.post("/api/sessions", json={"id": empty, "agent_ref": "demo"})
    found = json.loads(await export(whole, empty, "json", "application/json", "json"))
    assert (found["session"]["contextId"], found["entries"], found["tasks"]) == (empty, [], [])


async def test_a_transcript_has_speakers_and_times_without_rewound_turns(whole: Plane) -> None:
    """S, R: without status texts and partial messages."""
    context = fresh()
    await say(whole, SEND, context, "progress 3")
    await say(whole, SEND, context, "A")
    await say(whole, SEND, context, "B")
    await rewind(whole, SEND, context, await invocation(whole, context, "B"))
    await whole.http.patch(f"/api/sessions/{context}", json={"name": "Two\nwords"})
    first, *rest = await transcript(whole, context)
    assert first == "# Two words"
    assert rest[:2] == ["## You", "progress 3"] and rest[2] == "## demo"
    assert rest[-4:] == ["## You", "A", "## demo", "A"]
    assert len(rest) == 8, rest


async def test_a_transcript_names_tools_files_data_artifacts_and_the_end_of_each_task(whole: Plane) -> None:
    """S: a reason that is the last message of the agent is not repeated. A transcript has no content of files."""
    context, task = fresh(), fresh()
    await whole.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    call = part("data", {"id": "1", "name": "look\nup", "args": {"code": "```"}}, kagent_type="function_call")
    answer = part("data", {"id": "1", "name": "lookup", "response": None}, adk_type="function_response")
    file = part("file", {"name": "a.png", "bytes": "AAAA", "mimeType": "image/png"})
    history = [
        message(task, "user", part("text", "  Hello **you**\n")),
        {**message(task, "agent", part("text", "Looking")), "metadata": {"kind": "status-message"}},
        message(task, "agent", call, answer, file, part("data", {"n": 1})),
    ]
    status = {"state": "failed", "message": message(task, "agent", part("text", "No quota."))}
    artifacts: list[Json] = [{"artifactId": "a", "name": "Report", "parts": []}, {"artifactId": "b", "parts": []}]
    await stored(whole, context, history, status=status, artifacts=artifacts)
    await stored(whole, context, [message(fresh(), "user", part("text", "Next"))], status={"state": "canceled"})
    blocks = await transcript(whole, context)
    assert blocks[1:] == [
        "## You",
        "Hello **you**",
        "## demo",
        "> Tool: look up",
        '````json\n{\n  "code": "```"\n}\n````',
        "> Tool: lookup",
        "```json\nnull\n```",
        "> File: a.png",
        '```json\n{\n  "n": 1\n}\n```',
        "> Artifact: Report",
        "> Artifact: b",
        "> Failed: No quota.",
        "## You",
        "Next",
        "> Canceled",
    ]


async def test_a_long_transcript_has_every_message_once_and_in_order(whole: Plane) -> None:
    """S: over many pages. Artifacts are listed only after the last message of their task."""
    context, task = fresh(), fresh()
    texts = [f"said {number}" for number in range(450)]
    history = [message(task, "user", part("text", text)) for text in texts]
    await stored(whole, context, history, artifacts=[{"artifactId": "a", "name": "Report", "parts": []}])
    await say(whole, SEND, context, "A")
    blocks = await transcript(whole, context)
    assert [block for block in blocks if block.startswith("said")] == texts
    assert blocks.count("> Artifact: Report") == 1
    assert blocks[blocks.index(texts[-1]) + 1] == "> Artifact: Report"


async def test_an_unknown_format_is_refused_with_the_known_ones(whole: Plane) -> None:
    """S: typed, with those that there are."""
    context = fresh()
    await say(whole, SEND, context, "A")
    reply = await whole.http.get(f"/api/sessions/{context}/export?format=pdf")
    found = reply.json()
    assert (reply.status_code, found["code"]) == (400, "INVALID_ARGUMENT")
    assert found["fields"] == {"format": "must be ndjson, json or markdown"}
    same = await whole.http.get(f"/api/sessions/{context}/export?format=ndjson")
    assert same.content == await exported(whole, context)
    for form in ("json", "markdown"):
        reply = await whole.http.get(f"/api/sessions/{fresh()}/export?format={form}")
        assert (reply.status_code, reply.json()["code"]) == (404, "SESSION_NOT_FOUND")
