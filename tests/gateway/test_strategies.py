"""A further message while the agent is at work in the session: what its policy says, as clients see it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio
from tests.executor.plane import until
from tests.executor.scripted import Scripted
from tests.gateway.conversing import INVOCATION, REWIND, WAYS, Way, data, flat, name_of, payload, state_of, texts
from tests.gateway.plane import GROWING, Event, Plane, fresh, open_all

from taskplane.agents.agent import Change, Complete, Policy, Text, Turn, text_of
from taskplane.cli.chat import Chat
from taskplane.cli.connection import connected
from taskplane.cli.options import Options
from taskplane.client.failures import Failure

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
each_version = pytest.mark.parametrize("way", [Way("0.3", True), Way("1.0", True)], ids=name_of)


class Gated(Scripted):
    """Says half of its answer, and the rest when the gate of the turn's text is opened."""

    def __init__(self, strategy: Literal["queue", "reject", "interrupt"]) -> None:
        super().__init__(self._answer, policy=Policy(strategy=strategy))
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.canceled: list[str] = []

    async def _answer(self, turn: Turn) -> AsyncIterator[Change]:
        yield Text("half ")
        try:
            await self.gates[turn.text].wait()
        finally:
            if turn.cancelled.is_set():
                self.canceled.append(turn.text)
        yield Text(turn.text)
        yield Complete()


AGENTS = {"queue": Gated("queue"), "reject": Gated("reject"), "interrupt": Gated("interrupt")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """One agent for each strategy, by its name."""
    async with open_all(tmp_path_factory.mktemp("plane"), *AGENTS.items()) as plane:
        yield plane


class Client:
    """Sends to one of the agents, in a session of its own."""

    def __init__(self, plane: Plane, way: Way, strategy: str) -> None:
        self.plane, self.way, self.path = plane, way, f"/agents/{strategy}"
        self.agent = AGENTS[strategy]
        self.context = fresh()
        # Each test has words of its own, for the gates.
        self.words = [f"{word}-{self.context}" for word in ("one", "two", "three")]
        # So that a send with the same words is the same send.
        self._params: dict[str, Any] = {}

    def params(self, text: str, metadata: Any = None) -> Any:
        return self._params.setdefault(text, self.way.params(self.context, text, metadata))

    async def tell(self, text: str, metadata: Any = None, **headers: str) -> Any:
        """A send to its end; the last task or status update."""
        params = self.params(text, metadata)
        if self.way.streams:
            events = await self.plane.streamed(self.way.method, params, path=self.path, **headers)
            return payload(events[-1].result)[1]
        return payload(await self.plane.result(self.way.method, params, path=self.path, **headers))[1]

    async def refusal(self, text: str, **headers: str) -> tuple[int, str]:
        """Of a send that is refused: the code, and the reason where the version says it."""
        params = self.params(text)
        if self.way == Way("0.3", True):
            (event,) = await self.plane.streamed(self.way.method, params, path=self.path, **headers)
            error = event.data["error"]
        else:
            error = await self.plane.error(self.way.method, params, path=self.path, **headers)
        details = error["data"] if self.way.version == "0.3" else error["data"][0]["metadata"]
        return error["code"], details["reason"]

    async def works(self, text: str) -> None:
        """Waits until the agent is in mid-answer."""
        await until(lambda: any(turn.text == text for turn in self.agent.turns) and text in self.agent.gates)

    async def infos(self) -> Any:
        return await data(self.plane, f"/api/sessions/{self.context}/task-infos")

    async def shown(self) -> list[str]:
        return texts(await flat(self.plane, self.context))

    def before(self, text: str) -> list[str]:
        """The history that the turn of a text was given."""
        (turn,) = [turn for turn in self.agent.turns if turn.text == text]
        return [text_of(message) for message in turn.history]


def what(event: Event) -> str:
    """The state that an event of a task leads to."""
    return state_of(payload(event.result)[1])


def words(event: Event) -> str:
    """What is said with it."""
    said = payload(event.result)[1]["status"].get("message")
    return texts([said])[0] if said else ""


@each_way
async def test_an_agent_may_take_one_task_of_a_session_at_a_time(plane: Plane, way: Way) -> None:
    """REJECT (P2): a typed refusal that leaves no task and no message, with a key and without; once the task has ended
    the same send is taken."""
    client = Client(plane, way, "reject")
    one, two, three = client.words
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    key = fresh()
    for _ in range(2):
        assert await client.refusal(two) == (-32004, "SESSION_BUSY")
        assert await client.refusal(three, idempotency_key=key) == (-32004, "SESSION_BUSY")
    assert [info["state"] for info in await client.infos()] == ["working"]
    assert await client.shown() == [one]

    client.agent.gates[one].set()
    client.agent.gates[three].set()
    assert state_of(await first) == "completed"
    assert state_of(await client.tell(three, idempotency_key=key)) == "completed"
    assert client.before(three) == [one, f"half {one}"]
    assert await client.shown() == [one, f"half {one}", three, f"half {three}"]


@each_version
async def test_a_refused_message_is_taken_after_a_rewind_too(plane: Plane, way: Way) -> None:
    """R3, REJECT: it was in nobody's history when the rewind was made, so there was nothing of it to cut."""
    client = Client(plane, way, "reject")
    one, two, _ = client.words
    key = fresh()
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    assert await client.refusal(two, idempotency_key=key) == (-32004, "SESSION_BUSY")
    (said, *_) = await flat(plane, client.context)
    body = {"before": said["metadata"][INVOCATION]}
    assert (await plane.http.post(f"/api/sessions/{client.context}/rewind", json=body)).status_code == 200
    assert state_of(await first) == "canceled"
    client.agent.gates[two].set()
    assert state_of(await client.tell(two, idempotency_key=key)) == "completed"
    assert await client.shown() == [two, f"half {two}"]


async def test_a_rewind_makes_room_for_the_turn_after_it(plane: Plane) -> None:
    """R6, REJECT: what the rewind cuts is no longer at work when the new turn begins."""
    client = Client(plane, Way("1.0", True), "reject")
    one, two, _ = client.words
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    client.agent.gates[two].set()
    (said, *_) = await flat(plane, client.context)
    assert state_of(await client.tell(two, {REWIND: said["metadata"][INVOCATION]})) == "completed"
    assert state_of(await first) == "canceled"
    assert await client.shown() == [two, f"half {two}"]


async def test_who_is_refused_after_its_rewind_is_told_that_the_rewind_is_done(plane: Plane) -> None:
    """R6, R11: nothing that was cut is to be restored; what runs and was not cut stands in the way of the new turn."""
    client, other = Client(plane, Way("1.0", False), "reject"), Client(plane, Way("1.0", False), "interrupt")
    other.context = client.context
    one, two, three = client.words
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    other.agent.gates[two].set()
    assert state_of(await other.tell(two)) == "completed"
    second = next(said for said in await flat(plane, client.context) if texts([said]) == [two])
    params = client.params(three, {REWIND: second["metadata"][INVOCATION]})
    error = await plane.error(client.way.method, params, path=client.path)
    details = error["data"][0]["metadata"]
    assert (error["code"], details["reason"], details["rewound"]) == (-32004, "SESSION_BUSY", "true")
    assert await client.shown() == [one]
    client.agent.gates[one].set()
    await first


async def test_a_chat_that_is_refused_after_its_rewind_shows_what_is_left(plane: Plane) -> None:
    """R11: nothing is restored that the server has cut, and the text that was not sent is offered again."""
    client, other = Client(plane, Way("1.0", False), "reject"), Client(plane, Way("1.0", False), "interrupt")
    other.context = client.context
    one, two, three = client.words
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    other.agent.gates[two].set()
    await other.tell(two)
    options = Options(plane.gateway.url, agent="reject")
    async with connected(options) as connection:
        chat = Chat(connection, options)
        await chat.load(client.context)
        with pytest.raises(Failure) as refused:
            await chat.rewind(2, three)
    assert refused.value.rewound
    assert ([message.text for message in chat.transcript.messages], chat.draft) == ([one], three)
    assert not chat.transcript.rewinding
    client.agent.gates[one].set()
    await first


@each_version
async def test_an_agent_may_work_on_one_message_after_the_other(plane: Plane, way: Way) -> None:
    """QUEUE (P3): the answer is the submitted task, which works when those before it have ended, and knows them."""
    client = Client(plane, way, "queue")
    one, two, three = client.words
    first = asyncio.create_task(client.tell(one))
    await client.works(one)
    third: asyncio.Task[Any] | None = None
    async with asyncio.timeout(20), plane.stream(way.method, client.params(two), path=client.path) as events:
        begun = payload((await anext(events)).result)
        assert (begun[0], state_of(begun[1])) == ("task", "submitted")
        third = asyncio.create_task(client.tell(three))
        while len(await client.infos()) < 3:
            await asyncio.sleep(0.01)
        assert [info["state"] for info in await client.infos()] == ["working", "pending", "pending"]
        client.agent.gates[three].set()
        client.agent.gates[one].set()
        states: list[str] = []
        async for event in events:
            states += [what(event)]
            # What follows `working` is said only now.
            client.agent.gates[two].set()
    assert (states[0], states[-1], set(states)) == ("working", "completed", {"working", "completed"})
    assert state_of(await first) == state_of(await third) == "completed"
    # In turn, so that the last one knows what the others said.
    assert client.before(two) == [one, f"half {one}"]
    assert client.before(three) == [one, f"half {one}", two, f"half {two}"]


@each_version
async def test_a_new_message_may_interrupt_the_work_on_the_one_before(plane: Plane, way: Way) -> None:
    """INTERRUPT (P8): the clients of the running task see it canceled, the new one knows what it had said."""
    client = Client(plane, way, "interrupt")
    one, two, _ = client.words
    client.agent.gates[two].set()
    async with asyncio.timeout(20), plane.stream(way.method, client.params(one), path=client.path, **GROWING) as seen:
        async for event in seen:
            if words(event) == "half ":
                break
        assert state_of(await client.tell(two)) == "completed"
        left = [what(event) async for event in seen]
    assert left[-1] == "canceled" and left.count("canceled") == 1
    assert [info["state"] for info in await client.infos()] == ["cancelled", "completed"]
    assert client.before(two) == [one, "half "]
    await until(lambda: one in client.agent.canceled)
