"""Messages of a user under ids that are in use: each of another content is shown, in its place, under one id."""

import json
from typing import Any

import pytest
from tests.gateway.api.conversing import (
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
    """A send that waits for the end; the task or message that answers it. `ids`: those of the message."""
    way = Way(version, False)
    params = way.params("", text, metadata)
    del params["message"]["contextId"]
    params["message"] |= ids
    given: dict[str, str] = headers or {}
    return payload(await plane.result(way.method, params, **given))[1]


async def of_user(plane: Plane, context: str) -> list[tuple[str, str]]:
    """Text and id of each message of the user that all ways to read the session show."""
    await shown(plane, context)
    return [(texts([each])[0], each["messageId"]) for each in await flat(plane, context) if each["role"] == "user"]


async def ids_in(plane: Plane, context: str) -> dict[str, set[str]]:
    """The ids of each text of the user in all that is kept: the export has entries, tasks and events."""
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
    """The id of each text of the user, which is the same wherever it stands."""
    kept = await ids_in(plane, context)
    assert all(len(ids) == 1 for ids in kept.values()), kept
    ids = {text: min(of_text) for text, of_text in kept.items()}
    assert dict(await of_user(plane, context)) == ids
    return ids


@each_version
async def test_another_turn_under_a_used_id_keeps_its_place_under_its_own(plane: Plane, version: str) -> None:
    """T11, T6: tasks and direct answers; with the same content it is one. Streams show the id that is kept."""
    context, used = fresh(), fresh()
    for text in ("A", "B", "message direct", "A"):
        await send(plane, version, text, contextId=context, messageId=used)
    way = Way(version, True)
    params = way.params(context, "C")
    params["message"]["messageId"] = used
    (_, task), *_ = [payload(event.result) for event in await plane.streamed(way.method, params)]
    assert [text for text, _ in await of_user(plane, context)] == ["A", "B", "message direct", "C"]
    assert texts(await flat(plane, context)) == ["A", "A", "B", "B", "message direct", "direct", "A", "C", "C"]
    ids = await one_id_each(plane, context)
    assert ids["A"] == used and len(set(ids.values())) == 4
    asked = await plane.result("GetTask", {"id": task["id"]})
    assert [message["messageId"] for message in asked["history"] if message["role"] == "ROLE_USER"] == [ids["C"]]


@each_version
@pytest.mark.parametrize("named", [True, False], ids=["with its context", "alone"])
async def test_another_message_to_a_task_under_a_used_id_keeps_its_place(
    plane: Plane, version: str, named: bool
) -> None:
    """T11, I2: whether it names the session or its task only; the id of an answer of the agent is in use, too."""
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
async def test_a_repeat_gets_what_it_got_before(plane: Plane, version: str) -> None:
    """T11, C10: under its key, as a turn, a direct answer or a message to a task, whatever used the id meanwhile."""
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


async def test_an_id_is_used_in_one_session_of_one_owner(plane: Plane) -> None:
    """T11, W18: elsewhere a message keeps it, in a session of the same name, too."""
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
async def test_neither_a_rewind_nor_its_undo_loses_a_message(plane: Plane, version: str) -> None:
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
    # The cut turn, said again as it was, has its id again.
    await send(plane, version, "A", contextId=context, messageId=used)
    assert (await of_user(plane, context))[-1] == ("A", used)
    kept = await ids_in(plane, context)
    assert (kept["A"], kept["B"], kept["C"]) == ({used}, {used, own}, {third})


async def test_imported_and_forked_messages_have_their_ids(plane: Plane) -> None:
    """T11: and keep them when another message comes under one."""
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
