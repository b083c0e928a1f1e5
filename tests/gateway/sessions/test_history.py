"""The effective history of a session, its state, and forks."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.gateway.conversing import INVOCATION, Way, data, flat, invocation, say, shown, texts, version
from tests.gateway.plane import Json, Plane, fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEND = Way("1.0", False)


def echo(*words: str) -> list[str]:
    return [word for word in words for _ in range(2)]


async def session_of(plane: Plane, *words: str) -> str:
    context = fresh()
    for word in words:
        await say(plane, SEND, context, word)
    return context


def message(text: str, message_id: str = "", **metadata: Any) -> Json:
    parts = [{"kind": "text", "text": text}]
    found: Json = {"kind": "message", "role": "agent", "parts": parts}
    if message_id:
        found["messageId"] = message_id
    if metadata:
        found["metadata"] = metadata
    return found


async def push(plane: Plane, context: str, body: Any, **headers: str) -> Any:
    return await plane.http.put(f"/api/sessions/{context}/effective_history", json=body, headers=headers)


async def post(plane: Plane, context: str, action: str, body: Any = None, **headers: str) -> Any:
    return await plane.http.post(f"/api/sessions/{context}/{action}", json=body, headers=headers)


async def test_the_effective_history_is_returned_with_the_session_version(plane: Plane) -> None:
    """R7."""
    context = await session_of(plane, "A", "B")
    reply = await plane.http.get(f"/api/sessions/{context}/effective_history")
    history = reply.json()["data"]
    assert set(history) == {"version", "messages"}
    assert reply.headers["etag"] == f'"{history["version"]}"'
    assert history["messages"] == await flat(plane, context)
    assert (await plane.http.get(f"/api/sessions/{context}")).headers["etag"] == reply.headers["etag"]


async def pages(plane: Plane, context: str, limit: int) -> list[Json]:
    """Return all pages, the newest first."""
    path = f"/api/sessions/{context}/effective_history"
    found = [await data(plane, f"{path}?limit={limit}")]
    while found[-1]["before"]:
        found.append(await data(plane, f"{path}?limit={limit}&before={found[-1]['before']}"))
    return found


async def test_the_effective_history_has_pages_of_one_version(plane: Plane) -> None:
    """R7: the newest page first. Later changes of the session do not affect the older pages."""
    context = await session_of(plane, "A", "B", "C")
    whole = await data(plane, f"/api/sessions/{context}/effective_history")
    found = await pages(plane, context, 4)
    assert [texts(page["messages"]) for page in found] == [echo("B", "C"), echo("A")]
    assert [message for page in reversed(found) for message in page["messages"]] == whole["messages"]
    first = await data(plane, f"/api/sessions/{context}/effective_history?limit=5")
    assert first == {**whole, "messages": whole["messages"][1:], "before": first["before"]}
    await post(plane, context, "rewind", {"before": await invocation(plane, context, "B")})
    rest = await data(plane, f"/api/sessions/{context}/effective_history?before={first['before']}")
    assert rest == {**whole, "messages": whole["messages"][:1], "before": None}
    assert [texts(page["messages"]) for page in await pages(plane, context, 100)] == [echo("A")]
    for query in ("limit=0", "limit=1001", "limit=x", "before=no", f"before={'x' * 5000}"):
        reply = await plane.http.get(f"/api/sessions/{context}/effective_history?{query}")
        assert reply.status_code == 400, query


async def test_a_pushed_history_replaces_all_earlier_messages(plane: Plane) -> None:
    """R7: the flattened tasks equal it, also after further turns. Earlier messages are hidden, not deleted."""
    context = await session_of(plane, "A", "B")
    growing = message("so f", "p", kagent_adk_partial=True)
    pushed = await push(plane, context, {"messages": [message("X", "x"), growing, message("Y")]})
    assert pushed.status_code == 200, pushed.text
    assert texts(pushed.json()["data"]["messages"]) == ["X", "Y"] == await shown(plane, context)
    assert all(one["messageId"] for one in await flat(plane, context))
    await say(plane, SEND, context, "C")
    assert await shown(plane, context) == ["X", "Y", *echo("C")]
    infos = await data(plane, f"/api/sessions/{context}/task-infos?include=superseded")
    assert [info.get("superseded", False) for info in infos] == [True, True, False]
    assert (await push(plane, context, {"messages": []})).status_code == 200
    assert await shown(plane, context) == []


EDITS: dict[str, Callable[[list[Json]], list[Json]]] = {
    "a question": lambda said: said[:1],
    "parts": lambda said: [said[0], *said[3:5]],
    "a summary": lambda said: [message("summary", "s"), said[-1]],
    "other ids": lambda said: [{**one, "messageId": fresh()} for one in said],
    "the beginning": lambda said: said[:3],
}


@pytest.mark.parametrize("name", EDITS)
async def test_messages_omitted_by_a_push_stay_hidden_after_further_turns(plane: Plane, name: str) -> None:
    """R5, R7, T6: the push keeps parts of turns, and the tasks do not restore the rest."""
    context = await session_of(plane, "A", "B", "C")
    kept = EDITS[name]((await data(plane, f"/api/sessions/{context}/effective_history"))["messages"])
    assert (await push(plane, context, {"messages": kept})).status_code == 200
    assert await shown(plane, context) == texts(kept)
    await say(plane, SEND, context, "D")
    assert await shown(plane, context) == [*texts(kept), *echo("D")]
    last = next(one for one in reversed(kept) if INVOCATION in one.get("metadata", {}))["metadata"][INVOCATION]
    done = await post(plane, context, "rewind", {"before": last})
    left = [one for one in kept if one.get("metadata", {}).get(INVOCATION) != last]
    assert texts(done.json()["data"]["messages"]) == texts(left) == await shown(plane, context)


async def test_a_pushed_turn_can_be_rewound(plane: Plane) -> None:
    """R7, R3: by the invocation in the metadata of its messages."""
    context = await session_of(plane, "A")
    messages = [message(text, text, **{INVOCATION: f"{context}-{text[0]}"}) for text in ("P1", "P2", "Q1")]
    await push(plane, context, {"messages": messages})
    assert await shown(plane, context) == ["P1", "P2", "Q1"]
    done = await post(plane, context, "rewind", {"before": f"{context}-Q"})
    assert texts(done.json()["data"]["messages"]) == ["P1", "P2"] == await shown(plane, context)


async def test_a_push_with_an_outdated_version_is_refused_with_409(plane: Plane) -> None:
    """R7, R9: given in the body or a header. The error has the current version, and nothing is changed."""
    context = await session_of(plane, "A")
    current = await version(plane, context)
    old = current - 1
    for guard, headers in (({"expectedVersion": old}, {}), ({}, {"If-Match": f'"{old}"'})):
        late = await push(plane, context, {"messages": [message("X", "x")], **guard}, **headers)
        assert (late.status_code, late.json()["code"]) == (409, "VERSION_MISMATCH")
        assert late.json()["metadata"]["version"] == str(current)
    assert await shown(plane, context) == echo("A")
    body = {"messages": [message("X", "x")], "expectedVersion": current}
    assert (await push(plane, context, body)).json()["data"]["version"] > current
    assert await shown(plane, context) == ["X"]


BAD: list[tuple[Any, str]] = [
    (["x"], "messages[0]"),
    ({}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": [{"parts": []}]}, "messages[0].role"),
    ({"messages": ["x"]}, "messages[0]"),
    ({"messages": [], "expectedVersion": 0}, "expectedVersion"),
    ({"messages": [], "expectedVersion": "x"}, "expectedVersion"),
    ({"messages": [], "expectedVersion": -1}, "expectedVersion"),
]


@pytest.mark.parametrize(("body", "field"), BAD)
async def test_an_invalid_pushed_history_is_refused_by_field(plane: Plane, body: Any, field: str) -> None:
    """R7: nothing is changed."""
    context = await session_of(plane, "A")
    before = await version(plane, context)
    reply = await push(plane, context, body)
    assert (reply.status_code, list(reply.json()["fields"])) == (400, [field])
    assert await version(plane, context) == before
    assert await shown(plane, context) == echo("A")


async def test_a_rewind_event_of_a_runtime_hides_managed_tasks(plane: Plane) -> None:
    """R10, R7: in both spellings of the event."""
    context = await session_of(plane, "A", "B")
    for spelling in ("rewind_before_invocation_id", "rewindBeforeInvocationId"):
        await say(plane, SEND, context, spelling)
        cut = await invocation(plane, context, spelling)
        text = json.dumps({"invocation_id": fresh(), "actions": {spelling: cut}})
        reply = await post(plane, context, "events", {"id": fresh(), "data": text})
        assert reply.status_code == 201, reply.text
        assert await shown(plane, context) == echo("A", "B")
        infos = await data(plane, f"/api/sessions/{context}/task-infos")
        assert len(infos) == 2


async def test_a_rewind_event_of_a_runtime_hides_its_documents(plane: Plane) -> None:
    """R10, R4, T4: also if the runtime saves them again. They are restored by an undo of the rewind, or in a turn of
    their own."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]
    ids = {turn: fresh() for turn in ("i1", "i2", "i3")}

    async def save(turn: str, state: str, named: str = "") -> None:
        said = message(turn, f"m-{ids[turn]}", **({"kagent_invocation_id": turn} if turn == "i3" else {}))
        task: Json = {"id": ids[turn], "contextId": context, "status": {"state": state}, "history": [said]}
        if turn != "i3":
            task["metadata"] = {"kagent_invocation_id": named or turn}
        assert (await plane.http.post("/api/tasks", json=task)).status_code == 201

    async def event(turn: str, **actions: str) -> None:
        text = json.dumps({"invocation_id": turn, "actions": actions})
        assert (await post(plane, context, "events", {"id": fresh(), "data": text})).status_code == 201

    async def listed(query: str = "") -> list[str]:
        found = [task["id"] for task in await data(plane, f"/api/sessions/{context}/tasks{query}")]
        return [turn for turn in ids if ids[turn] in found]

    for turn in ids:
        await event(turn)
        for state in ("submitted", "working", "completed"):
            await save(turn, state)
    await event("back", rewind_before_invocation_id="i2")
    assert await listed() == ["i1"] and texts(await flat(plane, context)) == ["i1"]
    for turn in ("i2", "i3"):
        await save(turn, "completed")
    assert await listed() == ["i1"]
    assert await listed("?include=superseded") == ["i1", "i2", "i3"]
    infos = await data(plane, f"/api/sessions/{context}/task-infos?include=superseded")
    assert [(info["state"], info.get("superseded", False)) for info in infos] == [
        ("completed", False),
        ("completed", True),
        ("completed", True),
    ]
    await event("again", rewind_before_invocation_id="back")
    assert await listed() == ["i1", "i2", "i3"]
    await event("back again", rewind_before_invocation_id="i2")
    await event("i4")
    await save("i2", "working", "i4")
    assert await listed() == ["i1", "i2"]


async def test_a_subscription_to_a_document_has_no_event_for_a_rewind(plane: Plane) -> None:
    """R10, T4: the document is hidden, not changed. Later saves are sent."""
    context, task_id = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"], fresh()

    async def save(state: str) -> None:
        task: Json = {"id": task_id, "contextId": context, "status": {"state": state}}
        task["metadata"] = {"kagent_invocation_id": "i1"}
        assert (await plane.http.post("/api/tasks", json=task)).status_code == 201

    await post(plane, context, "events", {"id": fresh(), "data": json.dumps({"invocation_id": "i1"})})
    await save("working")
    async with asyncio.timeout(20), plane.stream("SubscribeToTask", {"id": task_id}) as live:
        assert "task" in (await anext(live)).result
        actions = {"rewind_before_invocation_id": "i1"}
        text = json.dumps({"invocation_id": "i2", "actions": actions})
        await post(plane, context, "events", {"id": fresh(), "data": text})
        await save("completed")
        (state,) = [event.result["statusUpdate"]["status"]["state"] async for event in live]
    assert state == "TASK_STATE_COMPLETED"


async def test_a_document_saved_after_the_rewind_of_its_turn_is_hidden(plane: Plane) -> None:
    """R3, R10: its runtime still worked on the cut turn."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]
    for turn in ("i1", "i2"):
        await post(plane, context, "events", {"id": fresh(), "data": json.dumps({"invocation_id": turn})})
    await post(plane, context, "rewind", {"before": "i2"})
    saved = {turn: fresh() for turn in ("i1", "i2")}
    for turn, task_id in saved.items():
        task = {"id": task_id, "contextId": context, "status": {"state": "working"}}
        body = {**task, "metadata": {"kagent_invocation_id": turn}}
        assert (await plane.http.post("/api/tasks", json=body)).status_code == 201
    listed = [task["id"] for task in await data(plane, f"/api/sessions/{context}/tasks")]
    assert saved["i1"] in listed and saved["i2"] not in listed


async def test_the_effective_history_has_the_events_in_effect(plane: Plane) -> None:
    """R7, R10: of a session with events of a runtime only, in the form that kagent's clients read."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]
    for turn in ("i1", "i2"):
        for number in range(2):
            text = json.dumps({"invocationId": turn, "n": number})
            await post(plane, context, "events", {"id": f"{context}-{turn}-{number}", "data": text})
    rewinding = {"invocationId": "i3", "actions": {"rewindBeforeInvocationId": "i2"}}
    await post(plane, context, "events", {"id": fresh(), "data": json.dumps(rewinding)})
    history = await data(plane, f"/api/sessions/{context}/effective_history")
    assert [json.loads(event["data"])["invocationId"] for event in history["events"]] == ["i1", "i1"]
    assert set(history["events"][0]) == {"id", "session_id", "user_id", "created_at", "updated_at", "data"}
    (older, newer) = reversed(await pages(plane, context, 1))
    assert [*older["events"], *newer["events"]] == history["events"]
    everything = await data(plane, f"/api/sessions/{context}?order=asc")
    assert len(everything["events"]) == 5
    rewinding = {"invocationId": "i4", "actions": {"rewindBeforeInvocationId": "i1"}}
    await post(plane, context, "events", {"id": fresh(), "data": json.dumps(rewinding)})
    assert (await data(plane, f"/api/sessions/{context}/effective_history"))["events"] == []


async def test_the_state_after_a_rewind_is_the_earlier_state(plane: Plane) -> None:
    """R12: the state follows from the events in effect. An event with a delta other than an object is refused, and
    changes nothing."""
    context = (await plane.http.post("/api/sessions", json={"agent_ref": "a"})).json()["data"]["id"]

    async def event(turn: str, actions: Any) -> Any:
        text = json.dumps({"invocationId": turn, "actions": actions})
        return await post(plane, context, "events", {"id": fresh(), "data": text})

    async def state() -> Any:
        read = await data(plane, f"/api/sessions/{context}/state")
        assert set(read) == {"version", "state"}
        assert read["version"] == await version(plane, context)
        return read["state"]

    first = await event("i1", {"stateDelta": {"color": "red", "user:name": "Ann", "n": 1}})
    assert first.status_code == 201
    before = await state()
    assert (before["color"], before["n"], before["user:name"]) == ("red", 1, "Ann")
    await event("i2", {"stateDelta": {"color": "blue", "shape": "round"}})
    assert {**before, "color": "blue", "shape": "round"} == await state()
    known = await version(plane, context)
    for wrong in ("red", [1], 5):
        refused = await event("i2", {"stateDelta": wrong})
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_STATE"), wrong
    assert await version(plane, context) == known
    assert (await state())["color"] == "blue"
    assert (await post(plane, context, "rewind", {"before": "i2"})).status_code == 200
    after = await state()
    assert (after["color"], after.get("shape"), after["n"]) == ("red", None, 1)


async def test_a_rewind_by_its_own_route_returns_the_session(plane: Plane) -> None:
    """R4, R8: a repeat under the same key has no effect. The expected version is given in the body or a header."""
    context = await session_of(plane, "A", "B", "C")
    before = await invocation(plane, context, "C")
    current = await version(plane, context)
    late = await post(plane, context, "rewind", {"before": before, "expectedVersion": current + 1})
    assert (late.status_code, late.json()["code"]) == (409, "VERSION_MISMATCH")
    key = {"Idempotency-Key": fresh()}
    for _ in range(2):
        done = await post(plane, context, "rewind", {"before": before}, **key)
        assert (done.status_code, set(done.json()["data"])) == (200, {"session", "version", "messages"})
        assert done.json()["data"]["session"]["id"] == context
        assert texts(done.json()["data"]["messages"]) == echo("A", "B")
    late = await post(plane, context, "undo_rewind", {}, **{"If-Match": f'"{current}"'})
    assert (late.status_code, late.json()["code"]) == (409, "VERSION_MISMATCH")
    undone = await post(plane, context, "undo_rewind", {"expectedVersion": await version(plane, context)})
    assert texts(undone.json()["data"]["messages"]) == echo("A", "B", "C") == await shown(plane, context)


async def test_an_invalid_rewind_undo_or_fork_is_refused_and_changes_nothing(plane: Plane) -> None:
    """R9: with a code for each case."""
    context = await session_of(plane, "A")
    for action, body, status, code in (
        ("rewind", {"before": "none"}, 404, "INVOCATION_NOT_FOUND"),
        ("rewind", {}, 400, "INVALID_ARGUMENT"),
        ("rewind", {"before": 5}, 400, "INVALID_ARGUMENT"),
        ("rewind", {"before": "none", "expectedVersion": 0}, 400, "INVALID_ARGUMENT"),
        ("undo_rewind", None, 409, "NOTHING_TO_UNDO"),
        ("undo_rewind", {"expectedVersion": "x"}, 400, "INVALID_ARGUMENT"),
        ("fork", {"before": "none"}, 404, "INVOCATION_NOT_FOUND"),
        ("fork", {"before": ""}, 400, "INVALID_ARGUMENT"),
        ("fork", {"id": "a\nb"}, 400, "INVALID_ARGUMENT"),
    ):
        reply = await post(plane, context, action, body)
        assert (reply.status_code, reply.json()["code"]) == (status, code), (action, body)
        assert reply.json()["error"]
    for action, body in (("rewind", {"before": "x"}), ("undo_rewind", None), ("fork", {})):
        for path, headers in (("none", {}), (context, {"X-User-Id": "mallory"})):
            reply = await post(plane, path, action, body, **headers)
            assert (reply.status_code, reply.json()["code"]) == (404, "SESSION_NOT_FOUND"), action
    assert await shown(plane, context) == echo("A")


async def test_a_fork_has_the_history_before_the_given_turn(plane: Plane) -> None:
    """R3: the original is unchanged, both sessions continue, and a repeat returns the same fork."""
    context = await session_of(plane, "A", "B")
    new = fresh()
    body = {"before": await invocation(plane, context, "B"), "id": new, "name": "Another way"}
    for _ in range(2):
        made = await post(plane, context, "fork", body)
        assert (made.status_code, made.json()["data"]["id"]) == (201, new)
        assert made.json()["data"]["name"] == "Another way"
    assert await shown(plane, new) == echo("A")
    await say(plane, SEND, new, "C")
    assert (await shown(plane, new), await shown(plane, context)) == (echo("A", "C"), echo("A", "B"))
    whole = (await post(plane, context, "fork")).json()["data"]["id"]
    assert await shown(plane, whole) == echo("A", "B")
    taken = await post(plane, whole, "fork", {"id": context})
    assert taken.status_code == 409


async def test_a_bare_list_is_accepted_as_a_pushed_history(plane: Plane) -> None:
    """R7: any other bare value is refused."""
    context = await session_of(plane, "A")
    pushed = await push(plane, context, [message("X", "x"), message("Y")])
    assert pushed.status_code == 200, pushed.text
    assert await shown(plane, context) == ["X", "Y"]
    refusals: list[Any] = ["words", 5, True, ["words"], [[]]]
    for body in refusals:
        refused = await push(plane, context, body)
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_ARGUMENT"), body
    assert (await push(plane, context, [])).status_code == 200
    assert await shown(plane, context) == []
