"""A runner of google-adk with kagent's session service, both unmodified, that rewinds by itself."""

import json
from uuid import uuid4

import httpx
import pytest
from tests.compat.process import Refused, Runtime
from tests.compat.reading import effective, log, state
from tests.system.wire import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

RED = [
    ["user", "remember color=red"],
    ["model", "remember(key=color, value=red)"],
    ["user", "remember: {'kept': 'red'}"],
    ["model", "noted"],
]
BLUE = [
    ["user", "remember color=blue"],
    ["model", "remember(key=color, value=blue)"],
    ["user", "remember: {'kept': 'blue'}"],
    ["model", "noted"],
]


def turn_of(text: str) -> list[list[str]]:
    """The contents of a turn without a tool."""
    return [["user", text], ["model", f"heard {text}"]]


class Conversation:
    """A session of a user with the runtime. `http` reads it without the runtime."""

    def __init__(self, runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
        self.runtime, self.user, self.http = runtime, user, http
        self.session = uuid4().hex

    async def begin(self) -> None:
        await self.runtime.call("create_session", user=self.user, session_id=self.session)

    async def turn(self, text: str, *, before: list[list[str]], stream: bool = False) -> str:
        """Runs one turn, and returns its invocation. Fails unless the plane has `before` and the model gets `before`
        and the text."""
        assert (await effective(self.http, self.session)).said == before
        done: Json = await self.runtime.call("turn", user=self.user, session_id=self.session, text=text, stream=stream)
        assert done["seen"][0] == [*before, ["user", text]]
        invocation: str = done["invocation"]
        return invocation

    async def rewind(self, before: str) -> str:
        """Rewinds in the runtime, and returns the invocation of the rewind itself."""
        await self.runtime.call("rewind", user=self.user, session_id=self.session, before=before)
        event = json.loads((await log(self.http, self.session))[-1])
        assert event["actions"]["rewind_before_invocation_id"] == before
        invocation: str = event["invocation_id"]
        return invocation

    async def state_at_the_runtime(self) -> Json:
        """The state that kagent's client makes of the events, without temporary names of ADK and null values."""
        read: Json = await self.runtime.call("get_session", user=self.user, session_id=self.session)
        return {
            name: value for name, value in read["state"].items() if not name.startswith("temp:") and value is not None
        }


@pytest.fixture
def conversation(runtime: Runtime, user: str, http: httpx.AsyncClient) -> Conversation:
    return Conversation(runtime, user, http)


async def test_after_a_rewind_the_model_and_the_plane_have_only_the_turns_before(conversation: Conversation) -> None:
    """R3, R7, R10, R12: at each step the plane's effective history and state are exactly those of the runtime, and its
    events are the stored texts. The log keeps everything."""
    talk = conversation
    await talk.begin()
    assert (await effective(talk.http, talk.session)).messages == []
    await talk.turn("remember color=red", before=[])
    second = await talk.turn("remember color=blue", before=RED, stream=True)
    await talk.turn("hello", before=RED + BLUE, stream=True)
    whole = await log(talk.http, talk.session)
    before = await effective(talk.http, talk.session)
    assert (before.texts, before.messages) == (whole, [])
    assert (await state(talk.http, talk.session)) == {"color": "blue"} == await talk.state_at_the_runtime()

    await talk.rewind(second)
    after = await effective(talk.http, talk.session)
    assert (after.texts, after.said, after.messages) == (whole[:4], RED, [])
    assert after.version > before.version
    assert (await state(talk.http, talk.session)) == {"color": "red"} == await talk.state_at_the_runtime()

    await talk.turn("again", before=RED)
    kept = await log(talk.http, talk.session)
    assert kept[: len(whole)] == whole
    last = await effective(talk.http, talk.session)
    assert (last.texts, last.said) == (whole[:4] + kept[-2:], RED + turn_of("again"))


async def test_a_rewind_before_a_rewind_undoes_it(conversation: Conversation) -> None:
    """R8, R10, R12: by ADK's rule, also when a turn follows the rewind."""
    talk = conversation
    await talk.begin()
    first = await talk.turn("remember color=red", before=[])
    await talk.turn("remember color=blue", before=RED)
    rewind = await talk.rewind(first)
    assert (await effective(talk.http, talk.session)).said == []
    assert (await state(talk.http, talk.session)) == {} == await talk.state_at_the_runtime()
    await talk.turn("instead", before=[])
    await talk.rewind(rewind)
    assert (await state(talk.http, talk.session)) == {"color": "blue"} == await talk.state_at_the_runtime()
    await talk.turn("on", before=RED + BLUE)


async def test_rewinds_can_be_repeated_and_nested(conversation: Conversation) -> None:
    """R3, R10: to a turn before an earlier rewind, and again."""
    talk = conversation
    await talk.begin()
    first = await talk.turn("one", before=[])
    second = await talk.turn("two", before=turn_of("one"))
    await talk.rewind(second)
    third = await talk.turn("three", before=turn_of("one"))
    await talk.rewind(third)
    await talk.turn("four", before=turn_of("one"))
    await talk.rewind(first)
    await talk.turn("five", before=[])
    assert (await effective(talk.http, talk.session)).said == turn_of("five")


async def test_the_states_of_user_and_application_are_not_rewound(conversation: Conversation) -> None:
    """R12: ADK keeps them. Temporary values of ADK are in no state of the plane."""
    talk = conversation
    await talk.begin()
    app_key = f"app:{talk.user}"
    first = await talk.turn("remember user:lang=en", before=[])
    for text in (f"remember {app_key}=a", "remember size=2"):
        await talk.runtime.call("turn", user=talk.user, session_id=talk.session, text=text)
    kept = {"user:lang": "en", app_key: "a"}
    assert await state(talk.http, talk.session, app_key) == {**kept, "size": "2"}
    assert await talk.state_at_the_runtime() == {**kept, "size": "2"}
    await talk.rewind(first)
    assert (await effective(talk.http, talk.session)).said == []
    assert await state(talk.http, talk.session, app_key) == kept == await talk.state_at_the_runtime()


async def test_a_rewind_to_an_unknown_invocation_is_refused_by_the_runtime(conversation: Conversation) -> None:
    """R9, R10: nothing is stored."""
    talk = conversation
    await talk.begin()
    await talk.turn("one", before=[])
    before = await log(talk.http, talk.session)
    with pytest.raises(Refused) as refused:
        await talk.runtime.call("rewind", user=talk.user, session_id=talk.session, before="e-none")
    assert refused.value.kind == "ValueError"
    assert await log(talk.http, talk.session) == before


async def test_a_rewind_event_in_camel_case_has_the_same_effect(conversation: Conversation) -> None:
    """R10: an event written by alias."""
    talk = conversation
    await talk.begin()
    await talk.turn("one", before=[])
    second = await talk.turn("two", before=turn_of("one"))
    actions: Json = {"rewindBeforeInvocationId": second, "stateDelta": {}, "artifactDelta": {}}
    event: Json = {"id": uuid4().hex, "invocationId": "e-alias", "author": "user", "actions": actions, "timestamp": 1.5}
    body = {"id": event["id"], "data": json.dumps(event)}
    assert (await talk.http.post(f"/api/sessions/{talk.session}/events", json=body)).status_code == 201
    await talk.turn("three", before=turn_of("one"))
