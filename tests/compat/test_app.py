"""kagent's whole application, unmodified: its A2A server, task store and session service around an agent of ADK."""

import json
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from tests.compat.process import Runtime
from tests.compat.reading import effective, log, state
from tests.support.additions import without_additions
from tests.system.wire import Json, client, data, result, stream, text_message_0_3, texts_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Talk:
    """One conversation of a user with the application, each request with the header `X-Turn` counted up."""

    def __init__(self, app: httpx.AsyncClient, runtime: Runtime) -> None:
        self.app, self.runtime = app, runtime
        self.context = uuid4().hex
        self._turns = 0

    def _headers(self) -> dict[str, str]:
        self._turns += 1
        return {"X-Turn": str(self._turns)}

    async def send(self, text: str) -> Json:
        """Sends a blocking turn, and returns its task."""
        params = {"message": text_message_0_3(text, contextId=self.context)}
        return await result(self.app, "message/send", params, **self._headers())

    async def streamed(self, text: str) -> list[Json]:
        """Sends a streamed turn, and returns its events."""
        params = {"message": text_message_0_3(text, contextId=self.context)}
        async with stream(self.app, "message/stream", params, **self._headers()) as events:
            return [event.result async for event in events]

    async def seen(self) -> list[Any]:
        """The input of the model at its first call since the last call of this method."""
        found: list[Any] = await self.runtime.call("seen")
        return list(found[0])


@pytest_asyncio.fixture(loop_scope="session")
async def talk(address: str, user: str, runtime: Runtime) -> AsyncGenerator[Talk]:
    async with client(address, **{"X-User-Id": user}) as app:
        await runtime.call("seen")
        yield Talk(app, runtime)


def texts(messages: list[Json]) -> list[str]:
    """Each message in a line; tool calls and results by their kind and name."""
    return [
        "".join(
            part["text"] if part["kind"] == "text" else f"{part['metadata']['kagent_type']} {part['data']['name']}"
            for part in message["parts"]
        )
        for message in messages
    ]


def invocation(task: Json) -> str:
    """The turn of ADK that made a task."""
    found: str = task["metadata"]["kagent_invocation_id"]
    return found


async def test_turns_of_the_application_are_equal_in_its_answers_and_in_the_plane(
    talk: Talk, http: httpx.AsyncClient
) -> None:
    """T1, T2, T3, T5, T6, S1, S4, S7: the tasks as the application answers them, and the conversation flattened.
    Growing texts are streamed and not stored, and kagent sets the title of the session."""
    first = await talk.send("remember color=red")
    events = await talk.streamed("hello")
    partial = [
        event["status"]["message"]["metadata"].get("kagent_adk_partial")
        for event in events
        if event["kind"] == "status-update" and event["status"].get("message", {}).get("role") == "agent"
    ]
    assert partial == [True, True, False]
    second = await result(talk.app, "tasks/get", {"id": events[0]["taskId"]})
    stored = await data(http, f"/api/sessions/{talk.context}/tasks")
    assert [(task["id"], task["status"]["state"]) for task in stored] == [
        (first["id"], "completed"),
        (second["id"], "completed"),
    ]
    for own, kept in zip((first, second), stored, strict=True):
        assert texts(kept["history"]) == texts(own["history"])
        assert kept["artifacts"] == own["artifacts"]
        assert without_additions(kept)["metadata"] == without_additions(own)["metadata"]
    said = (await data(http, f"/api/sessions/{talk.context}/messages"))["messages"]
    assert texts(said) == [
        "remember color=red",
        "function_call remember",
        "function_response remember",
        "noted",
        "hello",
        "heard hello",
    ]
    (session,) = await data(http, "/api/sessions")
    assert (session["id"], session["name"]) == (talk.context, "remember color=red")
    assert session["agent_id"] == "kagent__NS__recorder"


async def test_a_rewind_between_turns_of_the_application_leaves_the_events_and_the_state_of_adks_rule(
    talk: Talk, http: httpx.AsyncClient, user: str
) -> None:
    """R7, R10, R12: kagent begins each turn with an event of the same invocation, `header_update`. Its position depends
    on ADK, so the events in effect are exactly those that ADK's own rule leaves, and so is their state."""
    await talk.send("one")
    second = await talk.send("two")
    await talk.send("three")
    before = await log(http, talk.context)
    await talk.runtime.call("rewind", user=user, session_id=talk.context, before=invocation(second))
    after = await effective(http, talk.context)
    assert after.said == [["user", "one"], ["model", "heard one"]]
    # The documents of the turns before are shown, the others are not.
    assert texts(after.messages) == ["one", "heard one"]
    begun = next(i for i, text in enumerate(before) if json.loads(text)["invocation_id"] == invocation(second))
    assert after.texts == before[:begun]
    read = await talk.runtime.call("get_session", user=user, session_id=talk.context)
    headers = (await state(http, talk.context))["headers"]
    assert headers == read["state"]["headers"]
    assert headers["x-turn"] == "2"
    await talk.seen()
    await talk.send("four")
    assert await talk.seen() == [["user", "one"], ["model", "heard one"], ["user", "four"]]
    assert (await effective(http, talk.context)).said[-2:] == [["user", "four"], ["model", "heard four"]]


async def test_without_a_user_the_tasks_belong_to_the_plane_and_not_to_kagents_user(
    address: str, runtime: Runtime, http: httpx.AsyncClient
) -> None:
    """S2: kagent's session service derives a user from the context, its task store names none, so callers should name
    their user."""
    async with client(address) as app:
        talk = Talk(app, runtime)
        task = await talk.send("one")
    unnamed = await http.get(f"/api/tasks/{task['id']}", headers={"X-User-Id": "local"})
    assert texts_of(unnamed.json()["data"]) == ["one", "one", "heard one"]
    kagents = f"/api/sessions/{talk.context}/tasks?user_id=A2A_USER_{talk.context}"
    assert "data" not in (await http.get(kagents)).json()
