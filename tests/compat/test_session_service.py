"""kagent's session service, unmodified, with a plane."""

import time
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.compat.process import Refused, Runtime
from tests.compat.reading import state
from tests.system.wire import Json, data

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = "kagent__NS__recorder"


def event(text: str = "", *, invocation: str = "i1", **fields: Any) -> Json:
    """An event of ADK, in its own spelling."""
    content: Json = {"role": "user", "parts": [{"text": text}]}
    return {
        "id": uuid4().hex,
        "author": "user",
        "invocation_id": invocation,
        **({"content": content} if text else {}),
        **fields,
    }


async def created(runtime: Runtime, user: str, **fields: Any) -> str:
    session: Json = await runtime.call("create_session", user=user, **fields)
    session_id: str = session["id"]
    return session_id


def texts(session: Json) -> list[str]:
    return [each["content"]["parts"][0]["text"] for each in session["events"]]


async def test_sessions_are_created_read_listed_and_deleted(
    runtime: Runtime, user: str, http: httpx.AsyncClient
) -> None:
    """S1, S3, S4: with and without an id; an empty list; an unknown session is None."""
    assert await runtime.call("list_sessions", user=user) == []
    first = await created(runtime, user, state={"session_name": "Named", "source": "agent"})
    second = await created(runtime, user, session_id=uuid4().hex)
    read = await runtime.call("get_session", user=user, session_id=first)
    assert (read["id"], read["user_id"], read["app_name"], read["events"]) == (first, user, APP, [])
    assert [each["id"] for each in await runtime.call("list_sessions", user=user)] == [second, first]
    shown = (await data(http, f"/api/sessions/{first}"))["session"]
    assert (shown["name"], shown["source"], shown["agent_id"]) == ("Named", "agent", APP)
    await runtime.call("delete_session", user=user, session_id=first)
    assert await runtime.call("get_session", user=user, session_id=first) is None
    assert [each["id"] for each in await runtime.call("list_sessions", user=user)] == [second]
    with pytest.raises(Refused) as refused:
        await runtime.call("delete_session", user=user, session_id=first)
    assert refused.value.status == 404


async def test_a_session_of_another_user_is_not_found(runtime: Runtime, user: str) -> None:
    """S2, S4: kagent's session service names the user in `user_id`."""
    session = await created(runtime, user)
    assert await runtime.call("get_session", user=f"not-{user}", session_id=session) is None
    with pytest.raises(Refused) as refused:
        await runtime.call("append_event", user=f"not-{user}", session_id=session, event=event("hi"))
    assert refused.value.status == 404


async def test_a_session_that_is_created_again_keeps_its_events(runtime: Runtime, user: str) -> None:
    """S4: an existing id of the same user is updated."""
    session = await created(runtime, user, session_id=uuid4().hex)
    await runtime.call("append_event", user=user, session_id=session, event=event("hi"))
    assert await created(runtime, user, session_id=session, state={"session_name": "Later"}) == session
    assert texts(await runtime.call("get_session", user=user, session_id=session)) == ["hi"]


async def test_events_are_read_back_unchanged_in_their_order(
    runtime: Runtime, user: str, http: httpx.AsyncClient
) -> None:
    """S5: more than one page of them; the stored text is the text that is read."""
    session = await created(runtime, user)
    given = [event(f"text {number} \u2028 é", timestamp=1000.5 + number) for number in range(12)]
    await runtime.call("requests")
    for each in given:
        await runtime.call("append_event", user=user, session_id=session, event=each)
    posted = [made["body"] for made in await runtime.call("requests")]
    read = await runtime.call("get_session", user=user, session_id=session)
    assert [(each["id"], each["timestamp"]) for each in read["events"]] == [
        (each["id"], each["timestamp"]) for each in given
    ]
    assert texts(read) == [each["content"]["parts"][0]["text"] for each in given]
    stored = (await data(http, f"/api/sessions/{session}?order=asc"))["events"]
    assert [{"id": each["id"], "data": each["data"]} for each in stored] == posted


async def test_a_growing_text_is_not_stored(runtime: Runtime, user: str) -> None:
    """S5: kagent's session service does not send it."""
    session = await created(runtime, user)
    await runtime.call("requests")
    await runtime.call("append_event", user=user, session_id=session, event=event("gro", partial=True))
    assert await runtime.call("requests") == []
    assert texts(await runtime.call("get_session", user=user, session_id=session)) == []


async def test_an_event_with_a_stored_id_is_refused_and_the_stored_event_stays(runtime: Runtime, user: str) -> None:
    """S5: with the status 409."""
    session = await created(runtime, user)
    first = event("first")
    await runtime.call("append_event", user=user, session_id=session, event=first)
    second = event("second") | {"id": first["id"]}
    with pytest.raises(Refused) as refused:
        await runtime.call("append_event", user=user, session_id=session, event=second)
    assert refused.value.status == 409
    assert texts(await runtime.call("get_session", user=user, session_id=session)) == ["first"]


async def test_events_of_another_agent_are_refused(runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
    """S2, S3, S5: kagent's clients name their agent in X-Agent-Name, and it is compared with the session's in kagent's
    spelling."""
    for reference, allowed in (("kagent/recorder", True), ("kagent/other", False)):
        answer = await http.post("/api/sessions", json={"agent_ref": reference})
        session = answer.json()["data"]["id"]
        if allowed:
            await runtime.call("append_event", user=user, session_id=session, event=event("hi"))
        else:
            with pytest.raises(Refused) as refused:
                await runtime.call("append_event", user=user, session_id=session, event=event("hi"))
            assert refused.value.status == 403


async def test_the_state_of_session_user_and_application_is_read_back(
    runtime: Runtime, user: str, http: httpx.AsyncClient
) -> None:
    """S5, R12: the last value counts, and another session of the user has the states of user and application. kagent's
    client makes its state of the session's own events, and keeps null and temporary values. The plane's state has
    neither."""
    session, app_key = await created(runtime, user), f"app:{user}"
    for delta in (
        {"color": "red", "user:lang": "en", app_key: "a", "temp:scratch": 1},
        {"color": "blue", "size": 2, app_key: "b"},
        {"size": None},
    ):
        changing = event("change", actions={"state_delta": delta})
        await runtime.call("append_event", user=user, session_id=session, event=changing)
    read = await runtime.call("get_session", user=user, session_id=session)
    kept = {"color": "blue", "user:lang": "en", app_key: "b"}
    assert {name: value for name, value in read["state"].items() if name not in ("size", "temp:scratch")} == kept
    assert await state(http, session, app_key) == kept
    assert await state(http, await created(runtime, user), app_key) == {"user:lang": "en", app_key: "b"}


async def test_the_newest_events_and_events_after_a_time_can_be_requested(runtime: Runtime, user: str) -> None:
    """S4: the client itself handles `recent`; the plane compares `after` with the time of storing."""
    session = await created(runtime, user)
    for number in range(3):
        await runtime.call("append_event", user=user, session_id=session, event=event(f"{number}"))
    assert texts(await runtime.call("get_session", user=user, session_id=session, recent=2)) == ["1", "2"]
    between = time.time()
    await runtime.call("append_event", user=user, session_id=session, event=event("3"))
    assert texts(await runtime.call("get_session", user=user, session_id=session, after=between)) == ["3"]
    assert texts(await runtime.call("get_session", user=user, session_id=session, after=1.5)) == ["0", "1", "2", "3"]
    assert texts(await runtime.call("get_session", user=user, session_id=session, after=between + 3600)) == []


async def test_events_in_either_spelling_are_read(runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
    """S5: ADK writes snake_case by default and camelCase by alias; the plane keeps either unchanged."""
    session = await created(runtime, user)
    body = '{"invocationId":"i1","author":"user","actions":{"stateDelta":{"color":"red"}},"timestamp":1.5,"id":"%s"}'
    event_id = uuid4().hex
    answer = await http.post(f"/api/sessions/{session}/events", json={"id": event_id, "data": body % event_id})
    assert answer.status_code == 201
    read = await runtime.call("get_session", user=user, session_id=session)
    assert (read["state"], read["events"][0]["invocation_id"]) == ({"color": "red"}, "i1")
