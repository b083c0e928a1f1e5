"""Answers of careless servers: artifacts, files and data in the forms of other versions."""

import base64
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.agents.adapters.test_careless_peers import (
    Careless,
    Change,
    Json,
    all_answered,
    answered,
    put,
    tasks_of,
    with_done,
)
from tests.agents.adapters.test_remote import remote
from tests.executor.plane import Stores, open_plane, text
from tests.support.sdk_server import serving

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.json_values import to_json

pytestmark = pytest.mark.more

CONTENT = b"a,b\n"
BYTES = base64.b64encode(CONTENT).decode()
PART = {"0.3": "status.message.parts.0", "1.0": "task.status.message.parts.0"}
FILES: list[tuple[str, Json]] = [
    ("0.3", {"kind": "file", "file": {"bytes": BYTES, "mimeType": "text/csv", "name": "a.csv"}}),
    ("0.3", {"file": {"bytes": BYTES, "mime_type": "text/csv", "name": "a.csv", "uri": None}}),
    ("0.3", {"raw": BYTES, "mediaType": "text/csv", "filename": "a.csv"}),
    ("0.3", {"kind": "file", "bytes": BYTES, "mimeType": "text/csv", "name": "a.csv"}),
    ("1.0", {"kind": "file", "file": {"bytes": BYTES, "mimeType": "text/csv", "name": "a.csv"}}),
    ("1.0", {"file": {"fileWithBytes": BYTES, "mediaType": "text/csv", "name": "a.csv"}}),
    ("1.0", {"raw": BYTES, "mimeType": "text/csv", "filename": "a.csv"}),
]


async def test_files_in_the_form_of_another_version_are_read(stores: Stores) -> None:
    """P12: with their bytes, types and names."""
    peers = {f"{at}": Careless(version, answer=put(PART[version], part)) for at, (version, part) in enumerate(FILES)}
    for at, task in (await tasks_of(stores, peers)).items():
        assert task.status.state == a2a.TASK_STATE_COMPLETED, (at, text(task.status.message))
        (found,) = task.status.message.parts
        assert (found.raw, found.media_type, found.filename) == (CONTENT, "text/csv", "a.csv"), at


LINKS: list[tuple[str, Json]] = [
    ("0.3", {"url": "https://a.example/b"}),
    ("0.3", {"file": {"uri": "https://a.example/b"}}),
    ("1.0", {"kind": "file", "file": {"uri": "https://a.example/b"}}),
    ("1.0", {"file": {"fileWithUri": "https://a.example/b"}}),
]


async def test_links_in_the_form_of_another_version_are_read(stores: Stores) -> None:
    """P12: a link stays a link."""
    peers = {f"{at}": Careless(version, answer=put(PART[version], part)) for at, (version, part) in enumerate(LINKS)}
    for at, task in (await tasks_of(stores, peers)).items():
        assert [one.url for one in task.status.message.parts] == ["https://a.example/b"], at


DATA: list[tuple[object, object]] = [
    ([1, "a"], [1, "a"]),
    (None, None),
    ({"n": math.nan, "m": 1}, {"n": None, "m": 1}),
]


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_data_of_any_kind_is_read(stores: Stores, version: str) -> None:
    """P12: a list or null in an answer of 0.3, which allows objects only, and numbers that JSON does not have."""
    parts = [{"kind": "data", "data": given} for given, _ in DATA]
    peers = {f"{at}": Careless(version, answer=put(PART[version], part)) for at, part in enumerate(parts)}
    for task, (_, read) in zip((await tasks_of(stores, peers)).values(), DATA, strict=True):
        assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
        (part,) = task.status.message.parts
        assert to_json(part.data) == read


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_invalid_metadata_is_left_out(stores: Stores, version: str) -> None:
    """Of a message and of a part."""
    message = PART[version].removesuffix(".parts.0")
    peers = {
        "message": Careless(version, answer=put(f"{message}.metadata", "none")),
        "part": Careless(version, answer=put(f"{PART[version]}.metadata", ["none"])),
    }
    assert await all_answered(stores, peers) == dict.fromkeys(peers, "done")


ARTIFACTS: list[tuple[Json, str]] = [
    ({"name": "Report"}, "Report"),
    ({"name": "Report", "artifactId": None}, "Report"),
    ({"id": "r"}, "r"),
    ({"artifact_id": "r", "name": "Report"}, "r"),
    ({"index": 3}, "3"),
    ({}, "artifact"),
]


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_artifacts_without_an_id_are_read(stores: Stores, version: str) -> None:
    """P12: under other spellings, names, indexes or one id for all; each is no list of one, as its part is none."""
    place = "artifacts" if version == "0.3" else "task.artifacts"
    made = [{**given, "parts": {"text": "a"}} for given, _ in ARTIFACTS]
    peers = {f"{at}": Careless(version, answer=put(place, one)) for at, one in enumerate(made)}
    found = [one for task in (await tasks_of(stores, peers)).values() for one in task.artifacts]
    assert [(one.artifact_id, one.parts[0].text) for one in found] == [(known, "a") for _, known in ARTIFACTS]


async def test_chunks_of_0_1_are_one_artifact(stores: Stores) -> None:
    """P12: in 0.1 the artifact itself has `append` and `lastChunk`, and an index names it."""

    async def body(content: bytes) -> AsyncIterator[bytes]:
        for word, append in (("one ", False), ("two", True)):
            made = {"index": 1, "append": append, "lastChunk": append, "parts": [{"type": "text", "text": word}]}
            yield b"data: " + json.dumps({"result": {"id": "t", "artifact": made}}).encode() + b"\n\n"
        yield b"data: " + content + b"\n\n"

    task = await answered(stores, Careless(body=body))
    (made,) = task.artifacts
    assert "".join(part.text for part in made.parts) == "one two"
    assert text(task.status.message) == "done"


async def test_a_state_in_place_of_a_status_is_read(stores: Stores) -> None:
    """M2: the messages come from the history."""

    def change(answer: Json) -> None:
        answer["history"] = [answer["status"]["message"]]
        answer["status"] = answer["status"]["state"]

    task = await answered(stores, Careless(answer=change))
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    assert [text(message) for message in task.history] == ["go", "done"]


async def test_the_parts_of_a_proto_of_0_3_are_read(stores: Stores) -> None:
    """P12: their name there is content."""

    def change(answer: Json) -> None:
        answer["status"]["message"]["content"] = answer["status"]["message"].pop("parts")

    assert text((await answered(stores, Careless(answer=change))).status.message) == "done"


async def test_the_session_id_of_0_1_is_the_context_of_the_next_message(stores: Stores) -> None:
    """P5: 0.1 has the name session id."""

    def change(answer: Json) -> None:
        answer["sessionId"] = answer.pop("contextId")

    peer = Careless(answer=change)
    async with serving(peer.app) as server, open_plane(stores, ("far", await remote(server.url))) as plane:
        await plane.run("one", context_id="here")
        await plane.run("two", context_id="here")
    assert [sent["params"]["message"].get("contextId") for sent in peer.sent] == [None, "far"]


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "call"])
async def test_answers_over_rest_are_understood(stores: Stores, streams: bool) -> None:
    """P1: like answers over JSON-RPC."""
    forms: dict[str, Change] = {
        "no wrapper": lambda answer: answer["task"],
        "null lists": lambda answer: {"task": {**answer["task"], "artifacts": None, "history": None}},
        "the state of 0.3": put("task.status.state", "completed"),
        "parts of 0.3": put("task.status.message.parts.0", {"kind": "text", "text": "done"}),
        "no message id": put("task.status.message.messageId", ...),
        "a time without a zone": put("task.status.timestamp", "2026-01-02T03:04:05"),
    }
    peers = {form: Careless("1.0", answer=change, streams=streams, rest=True) for form, change in forms.items()}
    assert await all_answered(stores, peers) == dict.fromkeys(peers, "done")


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_a_repeated_message_without_an_id_is_stored_once(stores: Stores, version: str) -> None:
    """T12: in the stream, and in the history of the task that is read when the stream has ended early, with a mark."""
    answers = 0

    def change(answer: Json) -> Any:
        nonlocal answers
        answers += 1
        task = answer if version == "0.3" else answer["task"]
        first = {**task["status"]["message"], "messageId": None, "parts": [{"text": "first"}]}
        if answers == 1:
            task["status"] = {"state": "working", "message": first}
        else:
            task["history"] = [first]
        return answer if version == "0.3" or answers == 1 else task

    peer = Careless(version, answer=change, body=with_done)
    async with serving(peer.app) as server, open_plane(stores, ("far", await remote(server.url))) as plane:
        task = await plane.run("go")
        assert await plane.conversation(task.context_id) == ["go", "first", "done"]
