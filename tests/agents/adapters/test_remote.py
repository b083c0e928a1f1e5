"""Remote A2A agents: cases beyond the scenarios of all adapters, over real servers and sockets."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, TaskState
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.executor.plane import Plane, Stores, holds, open_plane, open_stores, shown, text, until
from tests.gateway.plane import open_all
from tests.support.cutting import CuttingProxy
from tests.support.ports import refusing_port
from tests.support.sdk_server import SdkServer, sdk_server, serving

from taskplane.agents.adapters.remote import RemoteAgent, adapt
from taskplane.agents.agent import AgentCard, ArtifactChunk, AskInput, Change, Complete, Text, Turn, Working
from taskplane.agents.loading import load_agents
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Invalid, Unavailable

Gate = asyncio.Event
# The chunks of an artifact of a test, and the number after which the server waits for the gate.
_CHUNKS, _HALF = 40, 20


class FarAway(AgentExecutor):
    """Makes an artifact in chunks, and waits in the middle; or asks, pauses for authentication, or hangs."""

    def __init__(self, gate: Gate) -> None:
        self.contexts: list[RequestContext] = []
        self.stopped = 0
        self._gate = gate

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None and context.task_id is not None and context.context_id is not None
        self.contexts.append(context)
        words = context.get_user_input()
        if words == "hang":
            await self._gate.wait()
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if words == "chunks":
            await task.update_status(TaskState.TASK_STATE_WORKING, new_text_message("I begin."))
            for number in range(_CHUNKS):
                if number == _HALF:
                    await self._gate.wait()
                last = number == _CHUNKS - 1
                await task.add_artifact([Part(text=f"<{number}>")], "r", append=number > 0, last_chunk=last)
            await task.complete(new_text_message("It is done."))
        elif words == "log in":
            await task.requires_auth(new_text_message("Log in first."))
            await self._gate.wait()
            await task.complete(new_text_message("You are in."))
        else:
            await task.complete(new_text_message(f"You said {words}."))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.stopped += 1
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


async def remote(url: str, **options: object) -> RemoteAgent:
    """Returns the agent at a URL. Its card is read in a thread, since its server runs in this event loop."""
    return await asyncio.to_thread(lambda: RemoteAgent(url, **options))  # type: ignore[arg-type]


@asynccontextmanager
async def far_away(stores: Stores, gate: Gate, **server: object) -> AsyncGenerator[tuple[Plane, SdkServer, FarAway]]:
    """An executor of one remote agent, its server, and the executor of the SDK there."""
    executor = FarAway(gate)
    async with (
        sdk_server(executor, **server) as found,  # type: ignore[arg-type]
        open_plane(stores, ("far", await remote(found.url))) as plane,
    ):
        yield plane, found, executor


async def chunks_of(plane: Plane, task_id: str) -> list[str]:
    """Returns the texts of the chunks of an artifact in stored order, as far as they were stored apart."""
    events = await plane.events(task_id, tasks.EVENT_KIND_ARTIFACT)
    whole = "".join(part.text for e in events for part in e.event.artifact_update.artifact.parts)
    return whole.replace("><", "> <").split()


_ALL = [f"<{number}>" for number in range(_CHUNKS)]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def proxy() -> AsyncGenerator[CuttingProxy]:
    """A proxy without a target; `aim` sets it."""
    found = CuttingProxy("127.0.0.1", 0)
    await found.listen()
    yield found
    await found.close()


async def test_no_event_is_lost_or_repeated_after_a_dropped_connection(
    stores: Stores, gate: Gate, proxy: CuttingProxy
) -> None:
    """P5, P12: the remote task is read and subscribed to; the rest of its artifact is shown, and no message twice."""
    executor = FarAway(gate)
    async with sdk_server(executor, through=proxy.port) as server:
        proxy.aim("127.0.0.1", server.port)
        async with open_plane(stores, ("far", await remote(server.url))) as plane:
            reference = await plane.submit("chunks")
            await shown(plane, reference.task.task_id, f"<{_HALF - 1}>")
            proxy.cut()
            gate.set()
            task = await plane.at_rest(reference)
            assert task.status.state == a2a.TASK_STATE_COMPLETED and text(task.status.message) == "It is done."
            assert await chunks_of(plane, task.id) == _ALL
            assert await plane.conversation(task.context_id) == ["chunks", "I begin.", "It is done."]
    assert proxy.cuts == 1 and len(executor.contexts) == 1


async def test_events_during_an_outage_of_the_connection_are_read_later(
    stores: Stores, gate: Gate, proxy: CuttingProxy
) -> None:
    """P12: the remote task ends meanwhile."""
    executor = FarAway(gate)
    async with sdk_server(executor, through=proxy.port) as server:
        proxy.aim("127.0.0.1", server.port)
        async with open_plane(stores, ("far", await remote(server.url))) as plane:
            reference = await plane.submit("chunks")
            await shown(plane, reference.task.task_id, f"<{_HALF - 1}>")
            with refusing_port() as nobody:
                proxy.aim("127.0.0.1", nobody)
                proxy.cut()
                gate.set()
                await until(lambda: proxy.cuts > 0 and executor.contexts[0].task_id is not None)
                far = executor.contexts[0].task_id or ""
                while (found := await server.store.get(far, ServerCallContext())) is None or (
                    found.status.state != TaskState.TASK_STATE_COMPLETED
                ):
                    await asyncio.sleep(0.01)
                proxy.aim("127.0.0.1", server.port)
            task = await plane.at_rest(reference)
            assert task.status.state == a2a.TASK_STATE_COMPLETED
            assert await chunks_of(plane, task.id) == _ALL


async def test_after_the_loss_of_its_executor_a_task_continues_with_the_remote_task(tmp_path: Path, gate: Gate) -> None:
    """C9, P5: from its checkpoint. The message is not sent again, the remote task is not canceled, and no event is
    shown twice."""
    executor = FarAway(gate)
    async with (
        sdk_server(executor) as server,
        open_stores(tmp_path, lease_ttl=1.5) as stores,
        open_plane(stores, ("far", await remote(server.url))) as lost,
    ):
        task_id = (await lost.submit("chunks")).task.task_id
        await shown(lost, task_id, f"<{_HALF - 1}>")

        async def cut_off(request: object) -> None:
            raise Unavailable("this executor is cut off")

        calls = ("Renew", "AppendEvents", "Release", "Claim", "GetTask", "AppendEntries", "ListUncopied")
        stores.channel.before.update(dict.fromkeys(calls, cut_off))
        other = Stores(stores.services)
        async with open_plane(other, ("far", await remote(server.url))) as survivor:
            await until_attempt(survivor, task_id, 2)
            gate.set()
            task = await survivor.reaches(task_id, a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED)
            assert task.status.state == a2a.TASK_STATE_COMPLETED
            assert await chunks_of(survivor, task_id) == _ALL
            assert await survivor.conversation(task.context_id) == ["chunks", "I begin.", "It is done."]
        await other.channel.close()
        stores.channel.before.clear()
    assert len(executor.contexts) == 1 and not executor.stopped


async def test_after_the_end_of_its_process_another_executor_follows_the_remote_task(
    stores: Stores, gate: Gate
) -> None:
    """P8, C9: the end of a process is not a cancel, so the remote task continues."""
    executor = FarAway(gate)
    async with sdk_server(executor) as server:
        async with open_plane(stores, ("far", await remote(server.url))) as ending:
            task_id = (await ending.submit("chunks")).task.task_id
            await shown(ending, task_id, f"<{_HALF - 1}>")
        async with open_plane(stores, ("far", await remote(server.url))) as survivor:
            await until(lambda: bool(survivor.service.runs.active))
            gate.set()
            task = await survivor.reaches(task_id, a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED)
            assert task.status.state == a2a.TASK_STATE_COMPLETED
            assert await chunks_of(survivor, task_id) == _ALL
    assert len(executor.contexts) == 1 and not executor.stopped


async def until_attempt(plane: Plane, task_id: str, attempt: int) -> None:
    """Waits until a task runs for the nth time."""
    while (await plane.record(task_id)).attempt < attempt:
        await asyncio.sleep(0.02)


async def test_the_turns_of_a_session_share_a_context_of_the_remote_server(stores: Stores, gate: Gate) -> None:
    """P1, I2: the remote server's context id is stored per session."""
    async with far_away(stores, gate) as (plane, _, executor):
        first = await plane.run("one")
        await plane.run("two", context_id=first.context_id)
        await plane.run("three")
    one, two, three = [context.context_id for context in executor.contexts]
    assert one == two != three
    assert [context.get_user_input() for context in executor.contexts] == ["one", "two", "three"]


async def test_a_cancel_reaches_the_remote_task(stores: Stores, gate: Gate) -> None:
    """P8: both tasks are canceled."""
    async with far_away(stores, gate) as (plane, server, executor):
        task_id = (await plane.submit("chunks")).task.task_id
        await shown(plane, task_id, f"<{_HALF - 1}>")
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        await until(lambda: not plane.service.runs.active)
        found = await server.store.get(executor.contexts[0].task_id or "", ServerCallContext())
        assert found is not None and found.status.state == TaskState.TASK_STATE_CANCELED
        assert (await plane.task(task_id)).status.state == a2a.TASK_STATE_CANCELED


async def test_a_cancel_waits_for_the_id_of_the_remote_task(stores: Stores, gate: Gate) -> None:
    """P8: it comes after the message was sent and before the first answer."""
    async with far_away(stores, gate) as (plane, server, executor):
        task_id = (await plane.submit("hang")).task.task_id
        await until(lambda: bool(executor.contexts))
        await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        (run,) = plane.service.runs.active
        await run.cancelled.wait()
        gate.set()
        await until(lambda: not plane.service.runs.active)
        found = await server.store.get(executor.contexts[0].task_id or "", ServerCallContext())
        assert found is not None and found.status.state in (
            TaskState.TASK_STATE_CANCELED,
            TaskState.TASK_STATE_COMPLETED,
        )


async def test_a_remote_agent_that_waits_for_a_login_continues_by_itself(stores: Stores, gate: Gate) -> None:
    """I1: its request is shown at once, and the task does not pause."""
    async with far_away(stores, gate) as (plane, _, _):
        reference = await plane.submit("log in")
        await shown(plane, reference.task.task_id, "Log in first.")
        gate.set()
        task = await plane.at_rest(reference)
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert await plane.conversation(task.context_id) == ["log in", "Log in first.", "You are in."]


@pytest.mark.parametrize("server", [{"streaming": False}, {"binding": "HTTP+JSON"}], ids=["polled", "rest"])
async def test_servers_without_streams_or_with_rest_are_served(
    stores: Stores, gate: Gate, server: dict[str, object]
) -> None:
    """P1, P5: without streams the task is polled."""
    gate.set()
    async with far_away(stores, gate, **server) as (plane, _, _):
        task = await plane.run("chunks")
        assert task.status.state == a2a.TASK_STATE_COMPLETED and text(task.status.message) == "It is done."
        assert await chunks_of(plane, task.id) == _ALL


async def test_only_the_credentials_of_the_environment_are_sent(
    stores: Stores, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: with the card request as well; nothing about the caller is sent."""
    monkeypatch.setenv("A2A_FAR_AWAY_AUTHORIZATION", "Bearer ours")
    async with sdk_server(FarAway(gate)) as server:
        agent = await asyncio.to_thread(adapt, server.url, "far-away")
        async with open_plane(stores, ("far-away", agent)) as plane:
            await plane.run("hello")
    assert [call["authorization"] for call in server.calls] == ["Bearer ours"] * len(server.calls)
    assert len(server.calls) == 2 and not any("ann" in value for call in server.calls for value in call.values())


async def test_connections_are_shared_and_closed_with_the_executor(stores: Stores, gate: Gate) -> None:
    """P11: at most two for five runs."""
    gate.set()
    async with sdk_server(FarAway(gate)) as server:
        async with open_plane(stores, ("far", await remote(server.url))) as plane:
            for _ in range(5):
                await plane.run("hello")
            assert len({call[":client"] for call in server.calls}) <= 2
        await until(lambda: server.serving.connections == 0)


async def test_an_unreachable_server_fails_the_task_with_a_readable_reason(stores: Stores, gate: Gate) -> None:
    """P9: without its address or the text of an exception."""
    async with sdk_server(FarAway(gate)) as server:
        agent = await remote(server.url)
    async with open_plane(stores, ("far", agent)) as plane:
        task = await plane.run("hello")
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message) == "The remote agent could not be reached."


async def test_a_connection_that_stays_lost_fails_the_task_with_a_readable_reason(
    stores: Stores, gate: Gate, proxy: CuttingProxy
) -> None:
    """P9: after the patience of the agent."""
    async with sdk_server(FarAway(gate), through=proxy.port) as server:
        proxy.aim("127.0.0.1", server.port)
        async with open_plane(stores, ("far", await remote(server.url, patience=0.3))) as plane:
            reference = await plane.submit("chunks")
            await shown(plane, reference.task.task_id, f"<{_HALF - 1}>")
            with refusing_port() as nobody:
                proxy.aim("127.0.0.1", nobody)
                proxy.cut()
                task = await plane.at_rest(reference)
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message) == "The connection to the remote agent was lost."


BAD_URL = "http://:abc/"


@asynccontextmanager
async def answer_with(status: int, body: object) -> AsyncGenerator[str]:
    async def answer(_: Request) -> Response:
        return JSONResponse(body, status)

    async with serving(Starlette(routes=[Route("/{path:path}", answer)])) as up:
        yield up.url


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, {}, "HTTP 404"),
        (401, {}, "HTTP 401"),
        (200, ["no card"], "no usable agent card"),
        (200, {"name": "x", "supportedInterfaces": [{"url": "x", "protocolBinding": "GRPC"}]}, "no usable agent card"),
        (200, {"name": "x", "supportedInterfaces": [{"url": BAD_URL, "protocolBinding": "JSONRPC"}]}, "an invalid URL"),
    ],
)
async def test_an_unusable_card_is_refused_at_start(status: int, body: object, problem: str) -> None:
    """P9: with the address, the fault, and the remedy."""
    async with answer_with(status, body) as url:
        with pytest.raises(Invalid, match=problem) as refused:
            await remote(url)
        assert url in str(refused.value) and refused.value.reason == "BAD_AGENT" and refused.value.suggestion


async def test_an_invalid_url_is_refused_at_start() -> None:
    """P9: with the form of a valid one."""
    with pytest.raises(Invalid, match="the URL is invalid") as refused:
        load_agents([f"x={BAD_URL}"])
    assert refused.value.reason == "BAD_AGENT" and "https://HOST" in refused.value.suggestion


async def test_an_unreachable_server_is_refused_at_start() -> None:
    """P9: with the remedy."""
    with refusing_port() as port, pytest.raises(Invalid, match="could not be read") as refused:
        await remote(f"http://127.0.0.1:{port}/agents/x/card.json")
    assert refused.value.suggestion == "check that the server is running"


async def test_the_card_of_a_remote_agent_is_served_without_its_interfaces(gate: Gate) -> None:
    """P1: the gateway adds its own."""
    async with sdk_server(FarAway(gate)) as server:
        card = (await remote(f"{server.url}/.well-known/agent-card.json")).card
    assert (card.name, card.version, len(card.skills)) == ("Far away", "7", 1)
    assert not card.supported_interfaces and card.capabilities.streaming


class Ours:
    """An agent of another plane: texts that grow, status texts, an artifact in chunks, a question."""

    card = AgentCard(name="Ours", description="One of ours.", version="1")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "ask":
            yield Text("What ")
            yield Text("name?")
            yield AskInput("What name?")
            return
        yield Working("Thinking")
        for piece in ("one ", "two "):
            yield Text(piece)
        await self._gate.wait()
        yield Text("three")
        for number in range(_CHUNKS):
            yield ArtifactChunk("r", text=f"<{number}>", append=number > 0, last=number == _CHUNKS - 1)
        yield Complete("one two three")


@asynccontextmanager
async def two_planes(tmp_path: Path, gate: Gate, proxy: CuttingProxy) -> AsyncGenerator[tuple[Plane, CuttingProxy]]:
    """A plane with an agent of another plane, behind a proxy."""
    (tmp_path / "here").mkdir()
    async with (
        open_all(tmp_path, ("ours", Ours(gate)), public_url=f"http://127.0.0.1:{proxy.port}") as there,
        open_stores(tmp_path / "here") as stores,
    ):
        proxy.aim("127.0.0.1", there.gateway.port)
        async with open_plane(stores, ("far", await remote(f"http://127.0.0.1:{proxy.port}"))) as here:
            yield here, proxy


async def test_a_text_of_another_plane_is_streamed_and_stored_once(
    tmp_path: Path, gate: Gate, proxy: CuttingProxy
) -> None:
    """P1, P4: its pieces as they come, its status texts outside the conversation, and each message once."""
    async with two_planes(tmp_path, gate, proxy) as (here, _):
        reference = await here.submit("go")
        await shown(here, reference.task.task_id, "two ")
        gate.set()
        task = await here.at_rest(reference)
        assert await here.conversation(task.context_id) == ["go", "one two three"]
        assert text(task.status.message) == "one two three"
        assert await chunks_of(here, task.id) == _ALL
        events = await here.events(task.id)
        assert any(holds(event, "Thinking") for event in events)
        assert sum(holds(event, "one two three") for event in events) == 2


async def test_a_question_of_another_plane_is_answered_in_the_same_remote_task(
    tmp_path: Path, gate: Gate, proxy: CuttingProxy
) -> None:
    """I1, I5: in the same remote task."""
    gate.set()
    async with two_planes(tmp_path, gate, proxy) as (here, _):
        asked = await here.run("ask")
        assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED and text(asked.status.message) == "What name?"
        answered = await here.run("Ann", task_id=asked.id, context_id=asked.context_id)
        assert answered.status.state == a2a.TASK_STATE_COMPLETED
        assert await here.conversation(asked.context_id) == ["ask", "What name?", "Ann", "one two three"]


async def test_a_text_continues_after_a_dropped_connection_without_loss_or_repetition(
    tmp_path: Path, gate: Gate, proxy: CuttingProxy
) -> None:
    """P12: of a text that grows nothing is lost and nothing comes twice."""
    async with two_planes(tmp_path, gate, proxy) as (here, cutting):
        reference = await here.submit("go")
        await shown(here, reference.task.task_id, "two ")
        cutting.cut()
        gate.set()
        task = await here.at_rest(reference)
        assert await here.conversation(task.context_id) == ["go", "one two three"]
        assert await chunks_of(here, task.id) == _ALL
