"""Messages with an id that the session already has: each keeps its position and gets an id of its own."""

import json
from typing import Any

import pytest
from tests.gateway.conversing import (
    REWIND,
    Way,
    data,
    flat,
    invocation,
    payload,
    rewind,
    say,
    shown,
    state_of,
    texts,
)
from tests.gateway.plane import Json, Plane, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_version = pytest.mark.parametrize("version", ["0.3", "1.0"])


async def send(plane: Plane, version: str, text: str, *, headers: Any = None, metadata: Any = None, **ids: str) -> Json:
    """Send, wait for the end, and return the task or the message of the answer. `ids`: ids of the message."""
    way = Way(version, False)
    params = way.params("", text, metadata)
    del params["message"]["contextId"]
    params["message"] |= ids
    given: dict[str, str] = headers or {}
    return payload(await plane.result(way.method, params, **given))[1]


async def of_user(plane: Plane, context: str) -> list[tuple[str, str]]:
    """Return text and id of each user message of the session, and check that all routes agree."""
    await shown(plane, context)
    return [(texts([each])[0], each["messageId"]) for each in await flat(plane, context) if each["role"] == "user"]


async def ids_in(plane: Plane, context: str) -> dict[str, set[str]]:
    """Return the ids of each user text in all stored data; the export has entries, tasks and events."""
    found: dict[str, set[str]] = {}

    def note(thing: Json) -> Json:
        if "messageId" in thing and thing["role"] in ("user", "ROLE_USER"):
            found.setdefault(texts([thing])[0], set()).add(thing["messageId"])
        return thing

    for line in (await plane.http.get(f"/api/sessions/{context}/export")).text.splitlines():
        json.loads(line, object_hook=note)
    tasks: list[Json] = await data(plane, f"/api/sessions/{context}/tasks") or []
    for task in tasks:
        log = await plane.http.get(f"/api/tasks/{task['id']}/events")
        for line in log.text.splitlines():
            if line.startswith("data:"):
                json.loads(line[5:], object_hook=note)
    return found


async def one_id_each(plane: Plane, context: str) -> dict[str, str]:
    """Return the id of each user text, and check that it is the same everywhere."""
    kept = await ids_in(plane, context)
    assert all(len(ids) == 1 for ids in kept.values()), kept
    ids = {text: min(of_text) for text, of_text in kept.items()}
    assert dict(await of_user(plane, context)) == ids
    return ids


@each_version
async def test_a_turn_with_a_used_message_id_gets_an_id_of_its_own(plane: Plane, version: str) -> None:
    """T11, T12, T6: tasks and direct answers keep their positions. Streams have the stored id."""
    context, used = fresh(), fresh()
    for text in ("A", "B", "message direct"):
        await send(plane, version, text, contextId=context, messageId=used)
    way = Way(version, True)
    params = way.params(context, "C")
    params["message"]["messageId"] = used
    (_, task), *_ = [payload(event.result) for event in await plane.streamed(way.method, params)]
    assert [text for text, _ in await of_user(plane, context)] == ["A", "B", "message direct", "C"]
    assert texts(await flat(plane, context)) == ["A", "A", "B", "B", "message direct", "direct", "C", "C"]
    ids = await one_id_each(plane, context)
    assert ids["A"] == used and len(set(ids.values())) == 4
    asked = await plane.result("GetTask", {"id": task["id"]})
    assert [message["messageId"] for message in asked["history"] if message["role"] == "ROLE_USER"] == [ids["C"]]


@each_version
@pytest.mark.parametrize("named", [True, False], ids=["with its context", "alone"])
async def test_a_message_to_a_task_with_a_used_id_gets_an_id_of_its_own(
    plane: Plane, version: str, named: bool
) -> None:
    """T11, I2: with and without a contextId. The ids of agent messages count as used, too."""
    context, used = fresh(), fresh()
    await send(plane, version, "A", contextId=context, messageId=used)
    said = next(each["messageId"] for each in await flat(plane, context) if each["role"] == "agent")
    for text, message_id in (("B", used), ("C", said)):
        paused = await send(plane, version, "ask Which?", contextId=context, messageId=fresh())
        assert state_of(paused) == "input-required"
        where = {"contextId": context} if named else {}
        await send(plane, version, text, taskId=paused["id"], messageId=message_id, **where)
    await send(plane, version, "D", contextId=context, messageId=said)
    assert [text for text, _ in await of_user(plane, context)] == ["A", "ask Which?", "B", "ask Which?", "C", "D"]
    ids = {text: message_id for text, message_id in await of_user(plane, context) if len(text) == 1}
    kept = await ids_in(plane, context)
    assert {text: {message_id} for text, message_id in ids.items()} == {text: kept[text] for text in ids}
    assert ids["A"] == used and len({*ids.values(), said}) == 5


@each_version
async def test_a_repeat_under_its_key_gets_the_same_answer(plane: Plane, version: str) -> None:
    """T11, C10: for a turn, a direct answer and a message to a task, also if its id was used again meanwhile."""
    context, used = fresh(), fresh()
    await send(plane, version, "A", contextId=context, messageId=used)
    paused = await send(plane, version, "ask Which?", contextId=context, messageId=fresh())
    keyed: list[tuple[str, dict[str, str], dict[str, str]]] = [
        ("B", {"contextId": context, "messageId": used}, {"idempotency_key": fresh()}),
        ("message direct", {"contextId": context, "messageId": used}, {"idempotency_key": fresh()}),
        ("C", {"taskId": paused["id"], "contextId": context, "messageId": used}, {"idempotency_key": fresh()}),
        ("D", {"contextId": context, "messageId": fresh()}, {"idempotency_key": fresh()}),
    ]
    first = [await send(plane, version, text, headers=key, **ids) for text, ids, key in keyed]
    before = await one_id_each(plane, context)
    for (text, ids, key), was in zip(keyed, first, strict=True):
        await send(plane, version, f"{text} again", contextId=context, messageId=ids["messageId"])
        answer = await send(plane, version, text, headers=key, **ids)
        assert [answer.get(name) for name in ("id", "messageId")] == [was.get(name) for name in ("id", "messageId")]
    after = await one_id_each(plane, context)
    assert {text: after[text] for text in before} == before
    assert len(after) == len(before) + 4 == len(set(after.values()))
    assert before["A"] == used and before["D"] == keyed[-1][1]["messageId"]


async def test_a_message_id_of_another_session_or_owner_does_not_count_as_used(plane: Plane) -> None:
    """T11, W18: this includes a session of another owner with the same id."""
    context, other, used = fresh(), fresh(), fresh()
    headers = {"x_user_id": f"somebody-{fresh()}"}
    await send(plane, "1.0", "Z", contextId=other, messageId="z")
    await send(plane, "1.0", "Z", contextId=context, messageId="z", headers=headers)
    await send(plane, "1.0", "A", contextId=context, messageId=used)
    await send(plane, "1.0", "B", contextId=other, messageId=used)
    assert await of_user(plane, other) == [("Z", "z"), ("B", used)]
    theirs = await send(plane, "1.0", "C", contextId=context, messageId=used, headers=headers)
    assert [each["messageId"] for each in theirs["history"] if each["role"] == "ROLE_USER"] == [used]
    assert await of_user(plane, context) == [("A", used)]


@each_version
async def test_a_used_id_across_a_rewind_and_its_undo_loses_no_message(plane: Plane, version: str) -> None:
    """T11, R6, R8: the id of a cut turn is sent again with other content, after the rewind or with it."""
    context, used, way = fresh(), fresh(), Way(version, False)
    await send(plane, version, "A", contextId=context, messageId=used)
    before_a = await invocation(plane, context, "A")
    await rewind(plane, way, context, before_a)
    assert await shown(plane, context) == []
    await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert await of_user(plane, context) == [("A", used)]
    await send(plane, version, "B", contextId=context, messageId=used, metadata={REWIND: before_a})
    ((text, own),) = await of_user(plane, context)
    assert text == "B" and own != used
    before_b = await invocation(plane, context, "B")
    await rewind(plane, way, context, before_b)
    await send(plane, version, "C", contextId=context, messageId=used)
    ((text, third),) = await of_user(plane, context)
    assert text == "C" and third not in (used, own)
    await say(plane, way, context, "D")
    await rewind(plane, way, context, await invocation(plane, context, "C"))
    await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert [text for text, _ in await of_user(plane, context)] == ["C", "D"]
    # A repeat of the cut turn is a new turn.
    await send(plane, version, "A", contextId=context, messageId=used)
    ((text, fourth),) = (await of_user(plane, context))[-1:]
    assert text == "A" and fourth not in (used, own, third)
    kept = await ids_in(plane, context)
    assert (kept["A"], kept["B"], kept["C"]) == ({used, fourth}, {used, own}, {third})


async def test_imported_and_forked_messages_keep_their_ids(plane: Plane) -> None:
    """T11: also if a later message has the same id."""
    context, used, new = fresh(), fresh(), fresh()
    await send(plane, "1.0", "A", contextId=context, messageId=used)
    lines = (await plane.http.get(f"/api/sessions/{context}/export")).content
    headers = {"content-type": "application/x-ndjson"}
    reply = await plane.http.post(f"/api/sessions/import?id={new}", content=lines, headers=headers)
    assert reply.status_code == 201, reply.text
    forked = (await plane.http.post(f"/api/sessions/{context}/fork", json={})).json()["data"]
    for copy in (new, forked["id"]):
        await send(plane, "1.0", "B", contextId=copy, messageId=used)
        (first, second) = await of_user(plane, copy)
        assert first == ("A", used) and second[0] == "B" and second[1] != used


def of_runtime(text: str, message_id: str, role: str = "agent", turn: str = "") -> Json:
    message: Json = {"role": role, "messageId": message_id, "parts": [{"kind": "text", "text": text}]}
    return {**message, "metadata": {"kagent_invocation_id": turn}} if turn else message


async def save(plane: Plane, context: str, *history: Json, task_id: str = "", last: Json | None = None) -> str:
    """Save a document twice, as a runtime does, and check that the second save changes nothing."""
    status: Json = {"state": "completed"} if last is None else {"state": "completed", "message": last}
    task: Json = {"id": task_id or fresh(), "contextId": context, "status": status, "history": list(history)}
    ids: list[list[str]] = []
    for _ in range(2):
        reply = await plane.http.post("/api/tasks", json=task)
        assert reply.status_code == 201, reply.text
        ids.append([message["messageId"] for message in reply.json()["data"]["history"]])
    assert ids[0] == ids[1] and len(set(ids[0])) == len(ids[0])
    return str(task["id"])


async def read(plane: Plane, context: str) -> list[str]:
    """Return the texts of the session, and check that tasks, pages and transcript agree."""
    messages = await flat(plane, context)
    paged = await data(plane, f"/api/sessions/{context}/messages?limit=1000")
    assert paged["messages"] == messages
    transcript = (await plane.http.get(f"/api/sessions/{context}/export?format=markdown")).text
    assert all(text in transcript for text in texts(messages))
    return texts(messages)


async def test_different_document_messages_with_one_id_are_all_kept(plane: Plane) -> None:
    """T12, T6: within one document and across documents. An equal message in several documents counts once."""
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "runtime"})
    first = [of_runtime("yes", "m", "user"), of_runtime("one", "reply")]
    await save(plane, context, *first)
    assert await read(plane, context) == ["yes", "one"]
    # A runtime that saves the whole conversation in each task.
    second = [*first, of_runtime("yes", "m", "user"), of_runtime("two", "reply")]
    task_id = await save(plane, context, *second)
    assert await read(plane, context) == ["yes", "one", "yes", "two"]
    await save(plane, context, *second, of_runtime("why", "q", "user"), task_id=task_id, last=of_runtime("so", "reply"))
    assert await read(plane, context) == ["yes", "one", "yes", "two", "why", "so"]
    # A runtime that saves each turn separately.
    await save(plane, context, of_runtime("no", "m", "user"), of_runtime("three", "reply"))
    assert await read(plane, context) == ["yes", "one", "yes", "two", "why", "so", "no", "three"]


async def test_equal_document_messages_of_two_turns_are_both_kept(plane: Plane) -> None:
    """T12: they have the same text and id."""
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "runtime"})
    for turn in ("A", "B"):
        await save(plane, context, of_runtime("yes", "m", "user", turn), of_runtime("ok", "reply", turn=turn))
    assert await read(plane, context) == ["yes", "ok", "yes", "ok"]


async def test_a_growing_text_in_a_document_is_kept_in_its_last_form(plane: Plane) -> None:
    """T12: some servers keep each step of it in the history."""
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "runtime"})
    question, steps = of_runtime("go", "u", "user"), [of_runtime(text, "m") for text in ("The", "The answer")]
    await save(plane, context, question, *steps, last=of_runtime("The answer is 42", "m"))
    assert await read(plane, context) == ["go", "The answer is 42"]
    await save(plane, context, of_runtime("x", "v", "user"), of_runtime("end", "n"), last=of_runtime("end", "n"))
    assert await read(plane, context) == ["go", "The answer is 42", "x", "end"]


async def test_document_messages_with_ids_of_managed_turns_are_kept(plane: Plane) -> None:
    """T12: under the id of a message that the plane has."""
    context, used = fresh(), fresh()
    await send(plane, "1.0", "A", contextId=context, messageId=used)
    answer = (await flat(plane, context))[-1]["messageId"]
    await save(plane, context, of_runtime("B", used, "user"), of_runtime("B", answer))
    assert await read(plane, context) == ["A", "A", "B", "B"]


async def test_different_pushed_messages_with_one_id_are_all_kept(plane: Plane) -> None:
    """T12, R7: within the history, and beside earlier messages of the session. A second push changes nothing."""
    context, used = fresh(), fresh()
    await send(plane, "1.0", "A", contextId=context, messageId=used)
    kept = await flat(plane, context)
    history = [
        *kept,
        *(of_runtime("yes", "m", "user"), of_runtime("one", "reply")),
        *(of_runtime("yes", "m", "user"), of_runtime("The", "reply"), of_runtime("The end", "reply")),
        of_runtime("not A", used, "user"),
    ]
    ids: list[list[str]] = []
    for _ in range(2):
        pushed = await plane.http.put(f"/api/sessions/{context}/effective_history", json={"messages": history})
        assert pushed.status_code == 200, pushed.text
        stored = pushed.json()["data"]["messages"]
        assert texts(stored) == ["A", "A", "yes", "one", "yes", "The end", "not A"] == texts(await flat(plane, context))
        ids.append([message["messageId"] for message in stored])
    assert ids[0] == ids[1] and len(set(ids[0])) == len(ids[0])
    assert ids[0][:2] == [message["messageId"] for message in kept]
