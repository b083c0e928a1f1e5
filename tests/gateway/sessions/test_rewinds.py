"""Rewinds by messages: the answer to the client, and the conversation afterwards."""

import asyncio
from typing import Any

import pytest
from tests.gateway.conversing import (
    INVOCATION,
    REWIND,
    WAYS,
    Way,
    data,
    echo,
    events,
    flat,
    invocation,
    name_of,
    responses,
    rewind,
    say,
    session_of,
    shown,
    state_of,
    texts,
    version,
)
from tests.gateway.plane import Plane, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
STREAM = Way("0.3", True)


@each_way
async def test_cut_turns_stay_hidden_until_an_undo(plane: Plane, way: Way) -> None:
    """R3, R4, R5, R8, T8 (ABCA): A, B, C; a rewind before B leaves A; D follows; a rewind before A leaves nothing; the
    undo restores A and D."""
    context = await session_of(plane, way, "A", "B", "C")
    ((kind, task),) = await rewind(plane, way, context, await invocation(plane, context, "B"))
    assert (kind, task["id"], task["contextId"], state_of(task)) == ("task", context, context, "completed")
    assert texts(task["history"]) == echo("A")
    for _ in range(2):
        assert await shown(plane, context) == echo("A")

    await say(plane, way, context, "D")
    assert await shown(plane, context) == echo("A", "D")

    ((_, task),) = await rewind(plane, way, context, await invocation(plane, context, "A"))
    assert (task["id"], task.get("history", [])) == (context, [])
    assert await shown(plane, context) == []

    undone = (await plane.http.post(f"/api/sessions/{context}/undo_rewind")).json()["data"]
    assert texts(undone["messages"]) == echo("A", "D")
    assert undone["session"]["id"] == context
    assert await shown(plane, context) == echo("A", "D")


async def test_a_session_shows_if_its_newest_rewind_can_be_undone(plane: Plane) -> None:
    """R8: from the rewind until the next turn or the undo, also for new clients."""
    context = await session_of(plane, STREAM, "A", "B", "C")

    async def undoable() -> bool:
        found: bool = (await data(plane, f"/api/sessions/{context}"))["session"]["canUndo"]
        return found

    assert not await undoable()
    await rewind(plane, STREAM, context, await invocation(plane, context, "C"))
    assert await undoable()
    await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert not await undoable()
    await rewind(plane, STREAM, context, await invocation(plane, context, "B"))
    assert await undoable()
    await say(plane, STREAM, context, "D")
    assert not await undoable()


@each_way
async def test_a_rewind_with_a_text_runs_it_as_a_new_turn(plane: Plane, way: Way) -> None:
    """R6, T8, a2a C20, C24: one full Task with its history, then the new task from `submitted` on, and no second
    Task."""
    context = await session_of(plane, way, "A", "B")
    found = await rewind(plane, way, context, await invocation(plane, context, "B"), "E")
    last = found[-1][1]
    assert state_of(last) == "completed"
    if way.streams:
        (kind, task), *rest = found
        assert (kind, task["id"], texts(task["history"])) == ("task", context, echo("A"))
        assert {kind for kind, _ in rest} == {"status-update"}
        assert state_of(rest[0][1]) == "submitted"
        assert len({one["taskId"] for _, one in rest}) == 1
        new = last["taskId"]
    else:
        assert len(found) == 1
        new = last["id"]
    assert new != context
    assert await shown(plane, context) == echo("A", "E")
    assert [task["id"] for task in await data(plane, f"/api/sessions/{context}/tasks")][0::2] == [context, new]


@pytest.mark.parametrize("version_of", ["0.3", "1.0"])
@pytest.mark.parametrize("length", [0, 1])
async def test_the_task_of_a_rewind_has_its_history_for_every_history_length(
    plane: Plane, version_of: str, length: int
) -> None:
    """T8, R4, a2a C24: it has no cursor, since the session has no task log."""
    stream, unary = Way(version_of, True), Way(version_of, False)
    context = await session_of(plane, stream, "A", "B", "C")
    params = stream.params(context, "", {REWIND: await invocation(plane, context, "C")}, historyLength=length)
    (event,) = await events(plane, stream, params)
    assert event.id == ""
    assert texts(event.result.get("task", event.result)["history"]) == echo("A", "B")
    params = unary.params(context, "", {REWIND: await invocation(plane, context, "B")}, historyLength=length)
    ((_, task),) = await responses(plane, unary, params)
    assert texts(task["history"]) == echo("A")


async def test_a_rewind_without_a_message_id_and_parts_is_accepted(plane: Plane) -> None:
    """R2: metadata and contextId are enough."""
    context = await session_of(plane, STREAM, "A", "B")
    for dialect, word, left in (("message/send", "B", echo("A")), ("SendMessage", "A", [])):
        role = "user" if "/" in dialect else "ROLE_USER"
        message = {"role": role, "contextId": context, "metadata": {REWIND: await invocation(plane, context, word)}}
        result = await plane.result(dialect, {"message": message})
        assert texts(result.get("task", result).get("history", [])) == left
    whole = await plane.error("message/send", {"message": {"role": "user", "contextId": context, "parts": []}})
    assert whole["code"] == -32602


async def test_every_message_has_the_invocation_id_of_its_turn(plane: Plane) -> None:
    """R1: on streams, in the flattened tasks, in the session task, and after a rewind."""
    context = await session_of(plane, STREAM, "A", "B")
    before = {message["messageId"]: message["metadata"][INVOCATION] for message in await flat(plane, context)}
    assert len(set(before.values())) == 2
    ((_, task),) = await rewind(plane, STREAM, context, await invocation(plane, context, "B"))
    for message in [*task["history"], *await flat(plane, context)]:
        assert message["metadata"][INVOCATION] == before[message["messageId"]]


@each_way
async def test_a_rewind_to_an_unknown_turn_fails_and_changes_nothing(plane: Plane, way: Way) -> None:
    """R9, R3: the answer is a failed Task that names the invocation and is not stored."""
    context = await session_of(plane, way, "A", "B")
    gone = await invocation(plane, context, "B")
    await rewind(plane, way, context, gone)
    for before in (gone, "none"):
        (kind, task), *rest = await rewind(plane, way, context, before, "never said")
        assert len(rest) == way.streams
        assert (kind, state_of(task), task["contextId"]) == ("task", "failed", context)
        assert before in texts([task["status"]["message"]])[0]
        assert (await plane.http.get(f"/api/tasks/{task['id']}")).status_code == 404
    assert await shown(plane, context) == echo("A")
    infos = await data(plane, f"/api/sessions/{context}/task-infos")
    assert [info["state"] for info in infos] == ["completed"]


@each_way
async def test_stacked_rewinds_are_undone_one_by_one(plane: Plane, way: Way) -> None:
    """R3, R8: a rewind before C, then before B, then two undos. A third undo is refused."""
    context = await session_of(plane, way, "A", "B", "C")
    b, c = [await invocation(plane, context, word) for word in "BC"]
    await rewind(plane, way, context, c)
    assert await shown(plane, context) == echo("A", "B")
    await rewind(plane, way, context, b)
    assert await shown(plane, context) == echo("A")
    undone = await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert texts(undone.json()["data"]["messages"]) == echo("A", "B")
    undone = await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert texts(undone.json()["data"]["messages"]) == echo("A", "B", "C")
    again = await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert (again.status_code, again.json()["code"]) == (409, "NOTHING_TO_UNDO")


async def test_a_repeated_undo_under_its_key_undoes_one_rewind(plane: Plane) -> None:
    """R8: the repeat gets the same answer, also after a new turn."""
    context = await session_of(plane, STREAM, "A", "B", "C")
    for word in ("C", "B"):
        await rewind(plane, STREAM, context, await invocation(plane, context, word))
    path, key = f"/api/sessions/{context}/undo_rewind", {"Idempotency-Key": fresh()}
    first, again = [await plane.http.post(path, headers=key) for _ in range(2)]
    assert texts(first.json()["data"]["messages"]) == echo("A", "B")
    assert again.json() == first.json()
    await say(plane, STREAM, context, "D")
    late = await plane.http.post(path, headers=key)
    assert texts(late.json()["data"]["messages"]) == echo("A", "B", "D")
    too_long = await plane.http.post(path, headers={"Idempotency-Key": "k" * 256})
    assert too_long.status_code == 400


async def test_an_undo_after_a_new_turn_is_refused_with_409(plane: Plane) -> None:
    """R8."""
    context = await session_of(plane, STREAM, "A", "B")
    await rewind(plane, STREAM, context, await invocation(plane, context, "B"))
    await say(plane, STREAM, context, "D")
    late = await plane.http.post(f"/api/sessions/{context}/undo_rewind")
    assert (late.status_code, late.json()["code"]) == (409, "TOO_LATE_TO_UNDO")
    assert await shown(plane, context) == echo("A", "D")


async def test_a_rewound_running_task_is_cancelled_and_hidden(plane: Plane) -> None:
    """R4: subscribers get its end. The task is kept for audit, marked as superseded, and takes no more messages."""
    context = await session_of(plane, STREAM, "A")
    running = await plane.send("slow 300", message={"contextId": context}, returnImmediately=True)
    before = running["history"][0]["metadata"][INVOCATION]
    async with asyncio.timeout(20), plane.stream("SubscribeToTask", {"id": running["id"]}) as live:
        await anext(live)
        await rewind(plane, STREAM, context, before)
        rest = [event async for event in live]
    assert state_of(rest[-1].result["statusUpdate"]) == "canceled"
    assert await shown(plane, context) == echo("A")
    tasks = await data(plane, f"/api/sessions/{context}/tasks?include=superseded")
    assert [task.get("superseded", False) for task in tasks] == [False, False, True]
    infos = await data(plane, f"/api/sessions/{context}/task-infos?include=superseded")
    assert [(info["state"], info.get("superseded", False)) for info in infos] == [
        ("completed", False),
        ("cancelled", True),
    ]
    assert len(await data(plane, f"/api/sessions/{context}/task-infos")) == 1
    listed = await plane.result("ListTasks", {"contextId": context})
    assert running["id"] not in [task["id"] for task in listed["tasks"]]


async def test_a_rewind_keeps_and_cuts_direct_answers_like_tasks(plane: Plane) -> None:
    """R5: direct answers have no task, and are in the session task."""
    context = await session_of(plane, STREAM, "A")
    answer = await plane.send("message hi", message={"contextId": context})
    await say(plane, STREAM, context, "B")
    whole = await shown(plane, context)
    assert whole[:2] + whole[4:] == echo("A", "B")
    ((_, task),) = await rewind(plane, STREAM, context, await invocation(plane, context, "B"))
    assert texts(task["history"]) == whole[:4] == await shown(plane, context)
    ((_, task),) = await rewind(plane, STREAM, context, answer["metadata"][INVOCATION])
    assert texts(task["history"]) == echo("A") == await shown(plane, context)


@each_way
async def test_a_repeated_rewind_under_its_key_has_one_effect(plane: Plane, way: Way) -> None:
    """R4, D12: with and without a new turn. Another message under the key is refused."""
    context = await session_of(plane, way, "A", "B", "C")
    key = fresh()
    params = way.params(context, "", {REWIND: await invocation(plane, context, "C")})
    first = await responses(plane, way, params, idempotency_key=key)
    assert await responses(plane, way, params, idempotency_key=key) == first
    key = fresh()
    params = way.params(context, "E", {REWIND: await invocation(plane, context, "B")})
    first = await responses(plane, way, params, idempotency_key=key)
    again = await responses(plane, way, params, idempotency_key=key)
    assert again[1:] == first[1:]
    assert again[-1][1]["status"] == first[-1][1]["status"]
    assert await shown(plane, context) == echo("A", "E")
    params["message"]["parts"][0]["text"] = "F"
    if not way.streams:
        assert (await plane.error(way.method, params, idempotency_key=key))["code"] == -32602
    assert await shown(plane, context) == echo("A", "E")


async def test_a_stream_after_a_rewind_is_resumed_after_every_cursor(plane: Plane) -> None:
    """P12, R6: under the same key. The session task is not repeated."""
    context = await session_of(plane, STREAM, "A", "B")
    way, key = Way("1.0", True), fresh()
    params = way.params(context, "chunks 3 4", {REWIND: await invocation(plane, context, "B")})
    whole = await events(plane, way, params, idempotency_key=key)
    assert [event.id for event in whole].count("") == 1
    for index, event in enumerate(whole[1:-1], 1):
        rest = await events(plane, way, params, idempotency_key=key, last_event_id=event.id)
        assert [(one.id, one.result) for one in rest] == [(one.id, one.result) for one in whole[index + 1 :]]


@pytest.mark.parametrize("by", ["metadata", "header", "tag"])
@each_way
async def test_a_send_with_an_outdated_expected_version_is_refused(plane: Plane, way: Way, by: str) -> None:
    """T9, R9: the error has the reason and the version, and nothing is stored. With the current version messages and
    rewinds are accepted."""
    context = await session_of(plane, way, "A")
    known = await version(plane, context)
    await say(plane, way, context, "B")

    async def attempt(expected: int, text: str, metadata: Any) -> Any:
        headers: dict[str, str] = {}
        if by == "metadata":
            metadata = {**metadata, "taskplane.dev/expected_version": expected}
        else:
            headers["if_match"] = f'W/"{expected}"' if by == "tag" else str(expected)
        params = way.params(context, text, metadata)
        if way.streams:
            if way.version == "1.0":
                body = await plane.http.post(
                    "/",
                    json={"jsonrpc": "2.0", "id": "r", "method": way.method, "params": params},
                    headers={name.replace("_", "-"): value for name, value in headers.items()},
                )
                if body.headers["content-type"] == "application/json":
                    return body.json()
                return {"result": True}
            return (await events(plane, way, params, **headers))[0].data
        return await plane.rpc(way.method, params, **headers)

    for metadata in ({}, {REWIND: await invocation(plane, context, "B")}):
        error = (await attempt(known, "C", metadata))["error"]
        assert error["code"] == -32602
        details = error["data"] if way.version == "0.3" else error["data"][0]
        assert (details if way.version == "0.3" else details["metadata"])["reason"] == "VERSION_MISMATCH"
        assert details["metadata"]["version"] == str(await version(plane, context))
        assert await shown(plane, context) == echo("A", "B")
    current = await version(plane, context)
    assert "result" in await attempt(current, "", {REWIND: await invocation(plane, context, "B")})
    assert await shown(plane, context) == echo("A")
    assert "result" in await attempt(await version(plane, context), "D", {})
    assert await shown(plane, context) == echo("A", "D")


async def test_one_of_two_concurrent_rewinds_is_refused(plane: Plane) -> None:
    """R9: with a conflict and the version of the session."""
    context = await session_of(plane, STREAM, "A", "B", "C")
    way = Way("1.0", False)
    expected = await version(plane, context)
    sends = [
        way.params(
            context, "", {REWIND: await invocation(plane, context, word), "taskplane.dev/expected_version": expected}
        )
        for word in "BC"
    ]
    answers = await asyncio.gather(*(plane.rpc(way.method, params) for params in sends))
    refused = [answer["error"] for answer in answers if "error" in answer]
    assert len(refused) == 1
    assert refused[0]["data"][0]["metadata"]["reason"] in {"VERSION_MISMATCH", "REWIND_IN_FLIGHT"}
    assert int(refused[0]["data"][0]["metadata"]["version"]) >= expected
    assert await shown(plane, context) in (echo("A"), echo("A", "B"))


BAD: list[tuple[Any, dict[str, str]]] = [
    ({REWIND: 5}, {}),
    ({REWIND: "x" * 256}, {}),
    ({REWIND: "a\nb"}, {}),
    ({"taskplane.dev/expected_version": 0}, {}),
    ({"taskplane.dev/expected_version": -3}, {}),
    ({"taskplane.dev/expected_version": 1.5}, {}),
    ({"taskplane.dev/expected_version": True}, {}),
    ({"taskplane.dev/expected_version": "soon"}, {}),
    ({"taskplane.dev/expected_version": 2}, {"if_match": '"3"'}),
    ({}, {"if_match": "x"}),
    ({}, {"if_match": "0"}),
]


@pytest.mark.parametrize(("metadata", "headers"), BAD)
@pytest.mark.parametrize("version_of", ["0.3", "1.0"])
async def test_an_invalid_rewind_or_version_is_refused_and_starts_no_turn(
    plane: Plane, version_of: str, metadata: Any, headers: dict[str, str]
) -> None:
    """R2, R9: an invalid rewind must not run as a message."""
    way = Way(version_of, False)
    context = await session_of(plane, way, "A")
    error = await plane.error(way.method, way.params(context, "B", metadata), **headers)
    assert error["code"] == -32602
    assert await shown(plane, context) == echo("A")


async def test_a_rewind_of_a_foreign_or_unknown_session_is_refused(plane: Plane) -> None:
    """R9: both get the same error, and the session is unchanged."""
    context = await session_of(plane, STREAM, "A", "B")
    before = await invocation(plane, context, "B")
    way = Way("1.0", False)
    foreign = await plane.rpc(way.method, way.params(context, "", {REWIND: before}), x_user_id="mallory")
    unknown = await plane.rpc(way.method, way.params(fresh(), "", {REWIND: before}))
    assert foreign["error"]["code"] == unknown["error"]["code"]
    assert await shown(plane, context) == echo("A", "B")
    assert (await plane.http.get(f"/api/sessions/{context}", headers={"X-User-Id": "mallory"})).status_code == 404


async def test_a_message_to_a_superseded_task_is_refused(plane: Plane) -> None:
    """R4, I1."""
    context = await session_of(plane, STREAM, "A")
    asked = await plane.send("ask", message={"contextId": context})
    await rewind(plane, STREAM, context, asked["history"][0]["metadata"][INVOCATION])
    error = await plane.error("SendMessage", {"message": said("Ann", taskId=asked["id"])})
    assert error["code"] == -32004
    assert await shown(plane, context) == echo("A")
