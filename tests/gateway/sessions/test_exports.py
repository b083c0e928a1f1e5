"""Exports of sessions to a file, and imports that are complete or change nothing."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conversing import Way, data, flat, invocation, rewind, say, shown, texts
from tests.gateway.plane import Json, Plane, fresh, open_all, open_front, said
from tests.support.thorough import THOROUGH
from tests.system.wire import until

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.principal import Principal

SEND = Way("1.0", False)
EACH = 2 if THOROUGH else 6
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
async def whole(database_url: str, tmp_path: Path) -> AsyncGenerator[Plane, None]:
    """A plane on each engine."""
    async with open_all(tmp_path, database_url=database_url) as plane:
        yield plane


async def exported(plane: Plane, context: str) -> bytes:
    reply = await plane.http.get(f"/api/sessions/{context}/export")
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == NDJSON["content-type"]
    return reply.content


async def import_file(plane: Plane, body: bytes, new: str = "", **headers: str) -> Any:
    query = f"?id={new}" if new else ""
    return await plane.http.post(f"/api/sessions/import{query}", content=body, headers={**NDJSON, **headers})


def lines_of(body: bytes) -> list[Json]:
    return [json.loads(line) for line in body.splitlines()]


def sealed(lines: list[bytes]) -> bytes:
    """Return the lines with a new last line that has their counts and their checksum."""
    counts = {"entries": 0, "tasks": 0, "events": 0}
    for line in lines[:-1]:
        kind = json.loads(line)["type"]
        for name in counts:
            counts[name] += name.startswith(kind[:4])
    end = {"type": "end", **counts, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    return b"".join(lines[:-1]) + json.dumps(end).encode() + b"\n"


async def everything(plane: Plane) -> str:
    """Create a session with messages, tasks, documents, events, rewinds, undos and pushes of every kind."""
    context = fresh()
    for text in ("A", "message direct", "chunks 3 10", "tool", "B", "fail", "ask Which?"):
        await plane.send(text, message={"contextId": context})
    asked = (await data(plane, f"/api/sessions/{context}/tasks"))[-1]
    await plane.send("That one", message={"taskId": asked["id"], "contextId": context})
    await rewind(plane, SEND, context, await invocation(plane, context, "B"))
    undone = await plane.http.post(f"/api/sessions/{context}/undo_rewind", json={})
    assert undone.status_code == 200, undone.text
    await rewind(plane, SEND, context, await invocation(plane, context, "B"))
    await say(plane, SEND, context, "C")
    for number, delta in enumerate(({"a": 1, "user:name": "Ann"}, {"a": 2.5, "b": [1, None]})):
        event = {"id": fresh(), "invocationId": f"run{number}", "actions": {"stateDelta": delta}}
        body = {"id": event["id"], "data": json.dumps(event)}
        assert (await plane.http.post(f"/api/sessions/{context}/events", json=body)).status_code == 201
    # A hidden document: the pushed history replaces its turn.
    hidden: Json = {"id": fresh(), "contextId": context, "kind": "task", "status": {"state": "completed"}}
    hidden["metadata"] = {"kagent_invocation_id": "run1"}
    assert (await plane.http.post("/api/tasks", json=hidden)).status_code == 201
    await push(plane, context, "Pushed")
    await say(plane, SEND, context, "D")
    await plane.send("ask What?", message={"contextId": context})
    message = {"kind": "message", "messageId": fresh(), "role": "user", "parts": [{"kind": "text", "text": "d"}]}
    document: Json = {
        "id": fresh(),
        "contextId": context,
        "kind": "task",
        "status": {"state": "working"},
        "metadata": {"huge": 1e300, "none": None, "ünï": "\u2028"},
        "history": [message],
    }
    for state in ("working", "completed", "working"):
        document["status"] = {"state": state}
        assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
    return context


async def effective_texts(plane: Plane, context: str) -> list[str]:
    """Return the texts in effect."""
    return texts((await data(plane, f"/api/sessions/{context}/effective_history"))["messages"])


async def push(plane: Plane, context: str, text: str) -> None:
    parts = [{"kind": "text", "text": text}]
    body = {"messages": [{"kind": "message", "messageId": fresh(), "role": "agent", "parts": parts}]}
    reply = await plane.http.put(f"/api/sessions/{context}/effective_history", json=body)
    assert reply.status_code == 200, reply.text


async def readings(plane: Plane, context: str) -> list[Any]:
    """Return all reads of a session, without cursors, which belong to one server."""
    found: list[Any] = [await flat(plane, context)]
    for path in ("effective_history", "state", "task-infos?include=superseded", "tasks?include=superseded", "stats"):
        found.append(await data(plane, f"/api/sessions/{context}/{path}"))
    # This time grows while tasks wait.
    found[-1].pop("timeInStateSeconds")
    for task in found[4]:
        task.get("metadata", {}).pop("taskplane.dev/cursor", None)
    return found


async def test_an_imported_session_equals_the_exported_one(whole: Plane) -> None:
    """S, R, M, T, C6: a round trip gives the same bytes and the same reads, and the session continues. This also holds
    on the server that ran the tasks: an executor does not confuse the new lease with an earlier one."""
    context = await everything(whole)
    before, body = await readings(whole, context), await exported(whole, context)
    kinds = [line["type"] for line in lines_of(body)]
    assert (kinds[0], kinds[-1]) == ("header", "end")
    assert {"entry", "task", "event"} < set(kinds)
    assert (await whole.http.delete(f"/api/sessions/{context}")).status_code == 200
    reply = await import_file(whole, body)
    assert reply.status_code == 201, reply.text
    assert reply.json()["data"]["tasks"] == kinds.count("task")
    assert await exported(whole, context) == body
    assert await readings(whole, context) == before

    waiting = [info for info in await data(whole, f"/api/sessions/{context}/task-infos") if info.get("paused")]
    answered = await whole.send("This", message={"taskId": waiting[-1]["taskId"], "contextId": context})
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    tasks = [line["task"] for line in lines_of(await exported(whole, context)) if line["type"] == "task"]
    assert [task["attempt"] for task in tasks if task["id"] == answered["id"]] == [1]
    await say(whole, SEND, context, "E")
    await rewind(whole, SEND, context, await invocation(whole, context, "D"))
    # The document names no turn, and came after the cut one.
    assert await effective_texts(whole, context) == ["Pushed"]
    assert (await whole.http.delete(f"/api/sessions/{context}")).status_code == 200


async def test_an_import_under_another_id_is_an_independent_copy(whole: Plane) -> None:
    """S, R: unique ids are derived, everything else is the same, and both sessions continue."""
    context, new = await everything(whole), fresh()
    body = await exported(whole, context)
    reply = await import_file(whole, body, new)
    assert reply.status_code == 201, reply.text
    other = await exported(whole, new)
    assert [line["type"] for line in lines_of(other)] == [line["type"] for line in lines_of(body)]
    assert await effective_texts(whole, new) == await effective_texts(whole, context)
    assert (await import_file(whole, body, new)).status_code == 409
    ours, theirs = (set(ids(lines_of(one))) for one in (body, other))
    assert ours.isdisjoint(theirs)
    await rewind(whole, SEND, new, await invocation(whole, new, "D"))
    assert await effective_texts(whole, new) == ["Pushed"]
    assert await exported(whole, context) == body
    # A second import derives the same ids.
    assert (await whole.http.delete(f"/api/sessions/{new}")).status_code == 200
    assert (await import_file(whole, body, new)).status_code == 201
    assert await exported(whole, new) == other


async def test_an_import_succeeds_if_another_tenant_has_the_ids(whole: Plane) -> None:
    """S: the answer reveals nothing of them, and both sessions continue."""
    context = await everything(whole)
    body = await exported(whole, context)
    async with open_front(whole.behind, tenant="other") as other:
        for _ in range(2):
            reply = await import_file(other, body)
            assert reply.status_code == 201, reply.text
            assert await effective_texts(other, context) == await effective_texts(whole, context)
            theirs = ids(lines_of(await exported(other, context)))
            assert len(set(theirs)) == len(theirs)
            assert await exported(whole, context) == body
            await say(other, SEND, context, "more")
            assert (await effective_texts(other, context))[-3:] == ["d", "more", "more"]
            assert (await other.http.delete(f"/api/sessions/{context}")).status_code == 200
        assert await exported(whole, context) == body


def ids(lines: list[Json]) -> list[str]:
    """Return the ids that must be unique."""
    found = [line["entry"]["id"] for line in lines if line["type"] == "entry"]
    return found + [line["task"][name] for line in lines if line["type"] == "task" for name in ("id", "uid")]


async def test_an_import_over_an_existing_session_or_task_is_refused_with_409(whole: Plane) -> None:
    """S: nothing is changed. An existing task with the id is a conflict as well."""
    context = fresh()
    await say(whole, SEND, context, "A")
    body = await exported(whole, context)
    for new, reason in (("", "SESSION_EXISTS"), (context, "SESSION_EXISTS")):
        reply = await import_file(whole, body, new)
        assert (reply.status_code, reply.json()["code"]) == (409, reason)
    # Bob has no such session, but the ids of its tasks exist.
    reply = await import_file(whole, body, **{"X-User-Id": "bob"})
    assert (reply.status_code, reply.json()["code"]) == (409, "TASK_EXISTS")
    bobs = await whole.http.get(f"/api/sessions/{context}", headers={"X-User-Id": "bob"})
    assert bobs.status_code == 404
    assert await exported(whole, context) == body
    assert (await import_file(whole, body, fresh(), **{"X-User-Id": "bob"})).status_code == 201


async def test_an_export_of_a_foreign_or_unknown_session_is_404(whole: Plane) -> None:
    """S6."""
    context = fresh()
    await say(whole, SEND, context, "A")
    reply = await whole.http.get(f"/api/sessions/{context}/export", headers={"X-User-Id": "bob"})
    assert (reply.status_code, reply.json()["code"]) == (404, "SESSION_NOT_FOUND")
    assert (await whole.http.get(f"/api/sessions/{fresh()}/export")).status_code == 404


async def test_an_incomplete_or_reordered_file_is_refused_and_changes_nothing(whole: Plane) -> None:
    """S: cut between lines, or with a missing, repeated or moved line, also with a correct checksum."""
    context, new = await everything(whole), fresh()
    body = await exported(whole, context)
    lines = body.splitlines(keepends=True)
    reasons: set[str] = set()

    async def refused(wrong: bytes) -> None:
        reply = await import_file(whole, wrong, new)
        assert reply.status_code == 400, (reply.text, wrong[-300:])
        found = reply.json()
        assert int(found["metadata"]["line"]) >= 1, found
        assert found["code"] == "UNKNOWN_VERSION" or "saved as NDJSON" in found["suggestion"], found
        reasons.add(found["code"])

    last = len(lines) - 1
    for at in range(len(lines)):
        # A sample only, since each needs up to four requests.
        if at % EACH == 0 or at == last:
            await refused(b"".join(lines[:at]))
        if 0 < at < last and at % (3 * EACH) == 1:
            for wrong in (
                lines[:at] + lines[at + 1 :],
                lines[: at + 1] + lines[at:],
                [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
            ):
                await refused(b"".join(wrong))
                if wrong[-1] == lines[-1]:
                    await refused_or_valid(whole, sealed(wrong), refused)
    await refused(body[:-1])
    await refused(body + lines[1])
    await refused(body.replace(b'"A"', b'"a"', 1))
    await refused(lines[0] + b"{no\n" + b"".join(lines[2:]))
    await refused(body.replace(b'"ROLE_USER"', b'"\\ud800"', 1))
    await refused(body.replace(b'"version":1}', b'"version":2}', 1))
    assert {"IMPORT_CUT", "IMPORT_ORDER", "CHECKSUM_MISMATCH", "NOT_JSON", "UNKNOWN_VERSION"} <= reasons, reasons
    assert (await whole.http.get(f"/api/sessions/{new}")).status_code == 404
    assert await data(whole, f"/api/sessions/{context}/task-infos")
    assert (await import_file(whole, body, new)).status_code == 201


async def test_an_event_with_half_a_surrogate_pair_is_stored_and_imported_unchanged(whole: Plane) -> None:
    """S5: also under another id of its session."""
    context, event = fresh(), fresh()
    await whole.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    text = json.dumps({"id": event, "invocationId": "\ud800", "actions": {"rewindBeforeInvocationId": "\udc00"}})
    stored = await whole.http.post(f"/api/sessions/{context}/events", json={"id": event, "data": text})
    assert stored.status_code == 201, stored.text
    new = fresh()
    reply = await import_file(whole, await exported(whole, context), new)
    assert reply.status_code == 201, reply.text
    (copy,) = (await data(whole, f"/api/sessions/{new}"))["events"]
    assert json.loads(copy["data"])["invocationId"] == "\ud800"


async def refused_or_valid(plane: Plane, wrong: bytes, refused: Any) -> None:
    """Check that the file is refused, unless it only reorders or omits whole tasks, which is valid."""
    kinds = [line["type"] for line in lines_of(wrong)]
    if sum(line["task"]["generation"] == "1" for line in lines_of(wrong) if line["type"] == "task") == 0 and kinds:
        await refused(wrong)


async def test_a_running_task_is_imported_as_failed(whole: Plane) -> None:
    """M4: its run is elsewhere. The reason is IMPORTED, and the session continues."""
    context, new = fresh(), fresh()
    stream = {"message": said("slow 100", contextId=context)}
    async with asyncio.timeout(20), whole.stream("SendStreamingMessage", stream) as events:
        async for _ in events:
            infos = await data(whole, f"/api/sessions/{context}/task-infos")
            if infos and infos[0]["state"] == "working":
                break
    body = await exported(whole, context)
    assert (await import_file(whole, body, new)).status_code == 201
    (info,) = await data(whole, f"/api/sessions/{new}/task-infos")
    assert (info["state"], "did not go on here" in info["error"]) == ("failed", True)
    (task,) = await data(whole, f"/api/sessions/{new}/tasks")
    assert task["status"]["message"]["metadata"]["reason"] == "IMPORTED"
    await say(whole, SEND, new, "B")
    assert (await shown(whole, new))[-2:] == ["B", "B"]
    task_id = (await data(whole, f"/api/sessions/{context}/task-infos"))[0]["taskId"]
    await whole.rpc("CancelTask", {"id": task_id})


async def test_a_session_with_trimmed_logs_is_imported_unchanged(tmp_path: Path) -> None:
    """S, C16: the rest of the logs is imported, with the same reads. A file with a contradiction about the trimmed part
    is refused."""
    async with open_all(tmp_path, events_ttl=1e-6) as plane:
        context, new = await everything(plane), fresh()
        service = Principal("default", "", "service", service=True)
        async with asyncio.timeout(10):
            while not (await plane.behind.stores.tasks(service).CollectGarbage(pb.CollectGarbageRequest())).tasks:
                await asyncio.sleep(0.02)
        before, body = await readings(plane, context), await exported(plane, context)
        lines = body.splitlines(keepends=True)
        trimmed = [at for at, line in enumerate(lines) if b'"trimmedGeneration"' in line]
        assert trimmed and lines_of(body)[-1]["type"] == "end"
        for number, wrong in enumerate(contradictions(lines, max(trimmed, key=lambda at: len(lines[at])))):
            reply = await import_file(plane, sealed(wrong), new)
            assert (reply.status_code, reply.json()["metadata"].keys()) == (400, {"line"}), (number, reply.text)
        assert (await plane.http.get(f"/api/sessions/{new}")).status_code == 404
        assert (await import_file(plane, body, new)).status_code == 201
        assert [line["type"] for line in lines_of(await exported(plane, new))] == [
            line["type"] for line in lines_of(body)
        ]
        assert (await plane.http.delete(f"/api/sessions/{context}")).status_code == 200
        assert (await import_file(plane, body)).status_code == 201
        assert await exported(plane, context) == body
        assert await readings(plane, context) == before


def contradictions(lines: list[bytes], at: int) -> Iterator[list[bytes]]:
    """Yield files with contradictions about the trimmed task in the line `at`."""
    task = json.loads(lines[at])["task"]
    head = int(task["generation"])
    ends = next(place for place in range(at, len(lines)) if json.loads(lines[place])["type"] not in ("task", "event"))
    events = next((place for place in range(at + 1, ends) if json.loads(lines[place])["type"] == "task"), ends) - at - 1

    def changed(place: int, change: Callable[[Json], object]) -> list[bytes]:
        value = json.loads(lines[place])
        change(value)
        return [*lines[:place], json.dumps(value).encode() + b"\n", *lines[place + 1 :]]

    for generation in (head, head + 5, -1, 1):
        yield changed(at, partial(_set_trimmed_generation, generation))
    yield changed(at, lambda line: line["task"].pop("trimmedGeneration"))
    yield changed(at, lambda line: line["task"]["task"]["history"][0]["parts"][0].update(text="never said"))
    yield changed(at, lambda line: line["task"]["task"]["history"].pop(0))
    yield changed(at, lambda line: line["task"]["task"]["status"].update(state="TASK_STATE_REJECTED"))
    yield changed(at, lambda line: line["task"]["task"].update(metadata={"more": 1}))
    for place in (at + 1, at + events):
        yield [*lines[:place], *lines[place + 1 :]]
        yield changed(place, lambda line: line["event"]["event"].update(generation="2"))
        yield changed(place, lambda line: line["event"].update(changedTo="TASK_STATE_AUTH_REQUIRED"))


def _set_trimmed_generation(generation: int, line: Json) -> None:
    line["task"]["trimmedGeneration"] = str(generation)


async def test_an_import_of_a_wrong_type_or_size_is_refused(tmp_path: Path) -> None:
    """S: with a code for each, before anything is stored."""
    async with open_all(tmp_path, max_import=4096, max_import_line=1024) as plane:
        reply = await plane.http.post("/api/sessions/import", content=b"{}", headers={"content-type": "text/plain"})
        assert (reply.status_code, reply.json()["code"]) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
        reply = await import_file(plane, b"x" * 5000)
        assert (reply.status_code, reply.json()["code"]) == (413, "BODY_TOO_LARGE")
        assert reply.json()["suggestion"].endswith("TASKPLANE_GATEWAY_MAX_IMPORT sets the limit of a file")
        reply = await import_file(plane, b"x" * 2000)
        assert (reply.status_code, reply.json()["code"]) == (400, "LINE_TOO_LONG")
        assert reply.json()["suggestion"].endswith("TASKPLANE_GATEWAY_MAX_IMPORT_LINE sets the limit of a line")


async def test_an_import_over_the_limit_is_refused_with_429(tmp_path: Path) -> None:
    """L2: the answer has Retry-After, and the body is not read. A freed slot is used again."""
    async with open_all(tmp_path, max_imports=1) as plane:
        context = fresh()
        await say(plane, Way("1.0", False), context, "hello")
        body = await exported(plane, context)
        first, going_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> AsyncGenerator[bytes, None]:
            half = body.index(b"\n") + 1
            yield body[:half]
            first.set()
            await going_on.wait()
            yield body[half:]

        path = f"/api/sessions/import?id={fresh()}"
        importing = asyncio.create_task(plane.http.post(path, content=slowly(), headers=NDJSON))
        await first.wait()

        async def refused() -> bool:
            reply = await import_file(plane, body, fresh())
            if reply.status_code == 201:
                # The first import had not begun yet.
                return False
            assert (reply.status_code, reply.json()["code"]) == (429, "TOO_MANY_IMPORTS")
            assert reply.headers["retry-after"] == "5"
            return True

        await until(refused)
        going_on.set()
        assert (await importing).status_code == 201
        assert (await import_file(plane, body, fresh())).status_code == 201
