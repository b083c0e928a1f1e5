"""A further message while the agent works in the session: the strategies of its policy, as clients see them."""

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
    """An agent that sends half of its answer, and the rest when the gate of the turn's text is opened."""

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
    """Open a plane with one agent for each strategy, by its name."""
    async with open_all(tmp_path_factory.mktemp("plane"), *AGENTS.items()) as plane:
        yield plane


class Client:
    """A client of one of the agents, in a session of its own."""

    def __init__(self, plane: Plane, way: Way, strategy: str) -> None:
        self.plane, self.way, self.path = plane, way, f"/agents/{strategy}"
        self.agent = AGENTS[strategy]
        self.context = fresh()
        # Each test has its own words, which name its gates.
        self.words = [f"{word}-{self.context}" for word in ("one", "two", "three")]
        # A second send with the same words is a repeat.
        self._params: dict[str, Any] = {}

    def params(self, text: str, metadata: Any = None) -> Any:
        return self._params.setdefault(text, self.way.params(self.context, text, metadata))

    async def send(self, text: str, metadata: Any = None, **headers: str) -> Any:
        """Send a message, wait for the end, and return the last task or status update."""
        params = self.params(text, metadata)
        if self.way.streams:
            events = await self.plane.streamed(self.way.method, params, path=self.path, **headers)
            return payload(events[-1].result)[1]
        return payload(await self.plane.result(self.way.method, params, path=self.path, **headers))[1]

    async def refusal(self, text: str, **headers: str) -> tuple[int, str]:
        """Return the code of a refused send, and the reason."""
        params = self.params(text)
        if self.way == Way("0.3", True):
            (event,) = await self.plane.streamed(self.way.method, params, path=self.path, **headers)
            error = event.data["error"]
        else:
            error = await self.plane.error(self.way.method, params, path=self.path, **headers)
        details = error["data"] if self.way.version == "0.3" else error["data"][0]["metadata"]
        return error["code"], details["reason"]

    async def works(self, text: str) -> None:
        """Wait until the agent has sent half of its answer."""
        await until(lambda: any(turn.text == text for turn in self.agent.turns) and text in self.agent.gates)

    async def infos(self) -> Any:
        return await data(self.plane, f"/api/sessions/{self.context}/task-infos")

    async def shown(self) -> list[str]:
        return texts(await flat(self.plane, self.context))

    def before(self, text: str) -> list[str]:
        """Return the history that the turn of a text got."""
        (turn,) = [turn for turn in self.agent.turns if turn.text == text]
        return [text_of(message) for message in turn.history]


def state(event: Event) -> str:
    """Return the state in an event of a task."""
    return state_of(payload(event.result)[1])


def words(event: Event) -> str:
    """Return the text of an event."""
    said = payload(event.result)[1]["status"].get("message")
    return texts([said])[0] if said else ""


@each_way
async def test_strategy_reject_refuses_a_message_while_a_task_runs(plane: Plane, way: Way) -> None:
    """REJECT (P2): the refusal leaves no task and no message, with and without a key. The same send is accepted once
    the task has ended."""
    client = Client(plane, way, "reject")
    one, two, three = client.words
    first = asyncio.create_task(client.send(one))
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
    assert state_of(await client.send(three, idempotency_key=key)) == "completed"
    assert client.before(three) == [one, f"half {one}"]
    assert await client.shown() == [one, f"half {one}", three, f"half {three}"]


@each_version
async def test_a_refused_message_is_accepted_after_a_rewind(plane: Plane, way: Way) -> None:
    """R3, REJECT: the refused message was in no history, so the rewind has not cut it."""
    client = Client(plane, way, "reject")
    one, two, _ = client.words
    key = fresh()
    first = asyncio.create_task(client.send(one))
    await client.works(one)
    assert await client.refusal(two, idempotency_key=key) == (-32004, "SESSION_BUSY")
    (said, *_) = await flat(plane, client.context)
    body = {"before": said["metadata"][INVOCATION]}
    assert (await plane.http.post(f"/api/sessions/{client.context}/rewind", json=body)).status_code == 200
    assert state_of(await first) == "canceled"
    client.agent.gates[two].set()
    assert state_of(await client.send(two, idempotency_key=key)) == "completed"
    assert await client.shown() == [two, f"half {two}"]


async def test_a_rewind_stops_the_cut_task_before_the_new_turn_begins(plane: Plane) -> None:
    """R6, REJECT: so the new turn is not refused."""
    client = Client(plane, Way("1.0", True), "reject")
    one, two, _ = client.words
    first = asyncio.create_task(client.send(one))
    await client.works(one)
    client.agent.gates[two].set()
    (said, *_) = await flat(plane, client.context)
    assert state_of(await client.send(two, {REWIND: said["metadata"][INVOCATION]})) == "completed"
    assert state_of(await first) == "canceled"
    assert await client.shown() == [two, f"half {two}"]


async def test_a_turn_refused_after_its_rewind_reports_that_the_rewind_is_done(plane: Plane) -> None:
    """R6, R11: the cut messages stay cut. A running task that was not cut is the reason of the refusal."""
    client, other = Client(plane, Way("1.0", False), "reject"), Client(plane, Way("1.0", False), "interrupt")
    other.context = client.context
    one, two, three = client.words
    first = asyncio.create_task(client.send(one))
    await client.works(one)
    other.agent.gates[two].set()
    assert state_of(await other.send(two)) == "completed"
    second = next(said for said in await flat(plane, client.context) if texts([said]) == [two])
    params = client.params(three, {REWIND: second["metadata"][INVOCATION]})
    error = await plane.error(client.way.method, params, path=client.path)
    details = error["data"][0]["metadata"]
    assert (error["code"], details["reason"], details["rewound"]) == (-32004, "SESSION_BUSY", "true")
    assert await client.shown() == [one]
    client.agent.gates[one].set()
    await first


async def test_a_chat_refused_after_its_rewind_shows_the_rewound_conversation(plane: Plane) -> None:
    """R11: the cut messages are not restored, and the unsent text is offered as a draft."""
    client, other = Client(plane, Way("1.0", False), "reject"), Client(plane, Way("1.0", False), "interrupt")
    other.context = client.context
    one, two, three = client.words
    first = asyncio.create_task(client.send(one))
    await client.works(one)
    other.agent.gates[two].set()
    await other.send(two)
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
async def test_strategy_queue_runs_messages_one_after_another(plane: Plane, way: Way) -> None:
    """QUEUE (P3): the answer is the submitted task. It runs when the earlier ones have ended, and knows their
    messages."""
    client = Client(plane, way, "queue")
    one, two, three = client.words
    first = asyncio.create_task(client.send(one))
    await client.works(one)
    third: asyncio.Task[Any] | None = None
    async with asyncio.timeout(20), plane.stream(way.method, client.params(two), path=client.path) as events:
        begun = payload((await anext(events)).result)
        assert (begun[0], state_of(begun[1])) == ("task", "submitted")
        third = asyncio.create_task(client.send(three))
        while len(await client.infos()) < 3:
            await asyncio.sleep(0.01)
        assert [info["state"] for info in await client.infos()] == ["working", "pending", "pending"]
        client.agent.gates[three].set()
        client.agent.gates[one].set()
        states: list[str] = []
        async for event in events:
            states += [state(event)]
            # The events after `working` come only now.
            client.agent.gates[two].set()
    assert (states[0], states[-1], set(states)) == ("working", "completed", {"working", "completed"})
    assert state_of(await first) == state_of(await third) == "completed"
    # Each turn has the messages of the earlier ones.
    assert client.before(two) == [one, f"half {one}"]
    assert client.before(three) == [one, f"half {one}", two, f"half {two}"]


@each_version
async def test_strategy_interrupt_cancels_the_running_task(plane: Plane, way: Way) -> None:
    """INTERRUPT (P8): clients of the running task see its cancel. The new turn has the text that was sent before."""
    client = Client(plane, way, "interrupt")
    one, two, _ = client.words
    client.agent.gates[two].set()
    async with asyncio.timeout(20), plane.stream(way.method, client.params(one), path=client.path, **GROWING) as seen:
        async for event in seen:
            if words(event) == "half ":
                break
        assert state_of(await client.send(two)) == "completed"
        left = [state(event) async for event in seen]
    assert left[-1] == "canceled" and left.count("canceled") == 1
    assert [info["state"] for info in await client.infos()] == ["cancelled", "completed"]
    assert client.before(two) == [one, "half "]
    await until(lambda: one in client.agent.canceled)
