"""A runner of google-adk on kagent's session service, both unmodified, that rewinds by itself."""

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


def spoken(text: str) -> list[list[str]]:
    """A turn without a tool."""
    return [["user", text], ["model", f"heard {text}"]]


class Conversation:
    """A session of a user with the runtime. `http` reads it past the runtime."""

    def __init__(self, runtime: Runtime, user: str, http: httpx.AsyncClient) -> None:
        self.runtime, self.user, self.http = runtime, user, http
        self.session = uuid4().hex

    async def begin(self) -> None:
        await self.runtime.call("create_session", user=self.user, session_id=self.session)

    async def turn(self, text: str, *, before: list[list[str]], stream: bool = False) -> str:
        """One turn; its invocation. The model must be shown `before` and the text, and the plane must have said so."""
        assert (await effective(self.http, self.session)).said == before
        done: Json = await self.runtime.call("turn", user=self.user, session_id=self.session, text=text, stream=stream)
        assert done["seen"][0] == [*before, ["user", text]]
        invocation: str = done["invocation"]
        return invocation

    async def rewind(self, before: str) -> str:
        """The runtime rewinds; the invocation of the rewind itself."""
        await self.runtime.call("rewind", user=self.user, session_id=self.session, before=before)
        event = json.loads((await log(self.http, self.session))[-1])
        assert event["actions"]["rewind_before_invocation_id"] == before
        invocation: str = event["invocation_id"]
        return invocation

    async def state_at_the_runtime(self) -> Json:
        """What kagent's client makes of the events, without what ADK calls temporary and what is null."""
        read: Json = await self.runtime.call("get_session", user=self.user, session_id=self.session)
        return {
            name: value for name, value in read["state"].items() if not name.startswith("temp:") and value is not None
        }


@pytest.fixture
def conversation(runtime: Runtime, user: str, http: httpx.AsyncClient) -> Conversation:
    return Conversation(runtime, user, http)


async def test_three_turns_a_rewind_and_a_fourth_turn(conversation: Conversation) -> None:
    """R3, R7, R10, R12: the model sees what was before the rewound turn and nothing of what was cut; the plane's
    effective history is exactly that at each step, its events the stored texts, and so is the state; the log keeps
    everything."""
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
    assert (last.texts, last.said) == (whole[:4] + kept[-2:], RED + spoken("again"))


async def test_rewinding_before_the_rewind_takes_it_back(conversation: Conversation) -> None:
    """R8, R10, R12: ADK's rule, also when a turn came after the rewind."""
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


async def test_rewinds_stack(conversation: Conversation) -> None:
    """R3, R10: before a point that lies before an earlier rewind, and again."""
    talk = conversation
    await talk.begin()
    first = await talk.turn("one", before=[])
    second = await talk.turn("two", before=spoken("one"))
    await talk.rewind(second)
    third = await talk.turn("three", before=spoken("one"))
    await talk.rewind(third)
    await talk.turn("four", before=spoken("one"))
    await talk.rewind(first)
    await talk.turn("five", before=[])
    assert (await effective(talk.http, talk.session)).said == spoken("five")


async def test_the_states_of_user_and_application_are_not_rewound(conversation: Conversation) -> None:
    """R12: ADK leaves them; and what it calls temporary is in no state of the plane."""
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


async def test_a_rewind_to_what_was_never_said_is_the_runtimes_own_refusal(conversation: Conversation) -> None:
    """R9, R10: nothing is stored."""
    talk = conversation
    await talk.begin()
    await talk.turn("one", before=[])
    before = await log(talk.http, talk.session)
    with pytest.raises(Refused) as refused:
        await talk.runtime.call("rewind", user=talk.user, session_id=talk.session, before="e-none")
    assert refused.value.kind == "ValueError"
    assert await log(talk.http, talk.session) == before


async def test_a_rewind_in_the_other_spelling_is_the_same_rewind(conversation: Conversation) -> None:
    """R10: an event written by alias."""
    talk = conversation
    await talk.begin()
    await talk.turn("one", before=[])
    second = await talk.turn("two", before=spoken("one"))
    actions: Json = {"rewindBeforeInvocationId": second, "stateDelta": {}, "artifactDelta": {}}
    event: Json = {"id": uuid4().hex, "invocationId": "e-alias", "author": "user", "actions": actions, "timestamp": 1.5}
    body = {"id": event["id"], "data": json.dumps(event)}
    assert (await talk.http.post(f"/api/sessions/{talk.session}/events", json=body)).status_code == 201
    await talk.turn("three", before=spoken("one"))
