"""A router that begins work for its run: never repeated, in one asyncio task, and always closed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.executor.plane import Held, Plane, Stores, eventually, open_plane, said, text, until

from taskplane.agents.agent import AgentCard, Change, Complete, MakeTask, Policy, Router, Say, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Refused


class Deciding:
    """Begins, while it decides, the work of its run; the last word of a message chooses the case."""

    card = AgentCard(name="deciding", version="1")

    def __init__(self, **policy: Any) -> None:
        self.policy_of: Callable[[Turn], Policy] = lambda turn: Policy(**policy)
        self.let_go = asyncio.Event()
        self.begun = self.closed = self.runs = 0
        self.tasks: set[asyncio.Task[Any] | None] = set()

    def policy(self, turn: Turn) -> Policy:
        return self.policy_of(turn)

    async def route(self, turn: Turn) -> MakeTask | str | AsyncIterator[Change] | None:
        self.tasks.add(asyncio.current_task())
        match turn.text.split()[-1]:
            case "none":
                return None
            case "task":
                return MakeTask("it is long")
            case "slowly":
                await self.let_go.wait()
            case "answer":
                await self.let_go.wait()
                return "an answer"
            case _:
                pass
        changes = self.model(turn)
        first = await anext(changes)
        assert first == Text("one ")
        return self.rest(first, changes)

    async def model(self, turn: Turn) -> AsyncIterator[Change]:
        self.begun += 1
        self.tasks.add(asyncio.current_task())
        try:
            yield Text("one ")
            self.tasks.add(asyncio.current_task())
            if turn.text.endswith("hangs"):
                await asyncio.Event().wait()
            if turn.text.endswith("listens"):
                while not (more := await turn.incoming()):
                    await asyncio.sleep(0.005)
                yield Say(f"one and {text(more[0])}")
            yield Text("two")
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed += 1

    async def rest(self, first: Change, changes: AsyncIterator[Change]) -> AsyncIterator[Change]:
        try:
            yield first
            async for change in changes:
                yield change
        finally:
            await changes.aclose()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        self.runs += 1
        yield Complete("run")


async def test_a_run_continues_the_work_that_its_router_began(stores: Stores) -> None:
    """P2: the model is asked once, all of its steps are taken in one asyncio task, and nothing is lost; the agent is a
    Router by its type."""
    agent = Deciding()
    assert isinstance(agent, Router)
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_COMPLETED and text(task.status.message) == "one two"
        assert (agent.begun, agent.closed, agent.runs, len(agent.tasks)) == (1, 1, 0, 1)
        assert await plane.conversation(task.context_id) == ["go", "one two"]


@pytest.mark.parametrize("word", ["none", "task"])
async def test_a_router_may_request_a_task_without_beginning_its_work(stores: Stores, word: str) -> None:
    """P2: with a reason or without."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run(word)
        assert text(task.status.message) == "run" and (agent.begun, agent.runs) == (0, 1)


async def test_a_slow_router_continues_inside_the_task(stores: Stores) -> None:
    """P2: its answer becomes the completion, and the run continues its work."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent), route_timeout=0.01) as plane:
        answered, begun = await plane.submit("answer"), await plane.submit("slowly")
        assert answered.HasField("task") and begun.HasField("task")
        agent.let_go.set()
        assert text((await plane.at_rest(answered)).status.message) == "an answer"
        assert text((await plane.at_rest(begun)).status.message) == "one two"
        assert (agent.begun, agent.closed, agent.runs) == (1, 1, 0)


async def test_messages_during_the_run_reach_the_work_that_the_router_began(stores: Stores) -> None:
    """I1: they are read through the turn of the router."""
    async with open_plane(stores, ("a", Deciding())) as plane:
        waiting = await plane.submit("listens")
        await plane.submit("more", task_id=waiting.task.task_id)
        task = await plane.at_rest(waiting)
        assert [text(message) for message in task.history][-1:] == ["one and more"] or text(
            task.status.message
        ) == "two"
        assert "one and more" in await plane.conversation(task.context_id)


async def ends_it(plane: Plane, waiting: pb.SubmitResponse) -> None:
    await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=waiting.task.task_id))


async def test_a_cancel_closes_the_work_that_a_router_began(stores: Stores) -> None:
    """P8: also while it still decides, inside the task; nothing follows the cancel."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent), route_timeout=0.01) as plane:
        begun, deciding = await plane.submit("hangs"), await plane.submit("slowly")
        for waiting in (begun, deciding):
            await ends_it(plane, waiting)
        await until(lambda: not plane.service.runs.active)
        assert (agent.begun, agent.closed, agent.runs) == (1, 1, 0)
        for waiting in (begun, deciding):
            task = await plane.task(waiting.task.task_id)
            assert task.status.state == a2a.TASK_STATE_CANCELED


async def test_a_drain_closes_the_work_that_a_router_began(stores: Stores) -> None:
    """P8, C13: in a run, or before there is a task."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent), drain_timeout=0.0) as plane:
        await plane.submit("hangs")
        held = Held(stores, "CreateTask")
        sending = asyncio.create_task(plane.submit("hangs"))
        await held.reached.wait()
    assert (agent.begun, agent.closed, agent.runs) == (2, 2, 0)
    await asyncio.wait((sending,))
    assert sending.exception() is not None


async def test_a_queued_task_is_run_from_its_beginning(stores: Stores) -> None:
    """P2: it may be run elsewhere, so the work of the router is closed, and `run` called later."""
    agent = Deciding(strategy="queue")
    async with open_plane(stores, ("a", agent)) as plane:
        first = await plane.submit("hangs", context_id="c")
        second = await plane.submit("go", context_id="c")
        assert (agent.begun, agent.closed) == (2, 1)
        await ends_it(plane, first)
        assert text((await plane.at_rest(second)).status.message) == "run"
        assert (agent.begun, agent.closed, agent.runs) == (2, 2, 1)


async def test_a_refused_task_closes_the_work_that_a_router_began(stores: Stores) -> None:
    """P2: the message is refused, and the model does not keep running."""
    agent = Deciding(strategy="reject")
    async with open_plane(stores, ("a", agent)) as plane:
        first = await plane.submit("hangs", context_id="c")
        with pytest.raises(Refused):
            await plane.submit("go", context_id="c")
        await until(lambda: agent.closed == 1)
        await ends_it(plane, first)
        await until(lambda: agent.closed == 2)


async def test_a_slot_is_reserved_while_a_router_decides(stores: Stores) -> None:
    """P2: a turn that comes meanwhile does not take the last slot, so the work of the router is run here."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent), capacity=1) as plane:
        routed = asyncio.create_task(plane.submit("slowly"))
        await until(lambda: bool(agent.tasks))
        other = await plane.submit("none")
        agent.let_go.set()
        assert text((await plane.at_rest(await routed)).status.message) == "one two"
        assert text((await plane.at_rest(other)).status.message) == "run" and agent.begun == 1


async def test_repeats_do_not_ask_the_router_again(stores: Stores) -> None:
    """C10: of fifty equal sends one asks the router, and all get the one task."""
    agent = Deciding()
    async with open_plane(stores, ("a", agent)) as plane:
        sending = [asyncio.create_task(plane.submit("slowly", key="k", message_id="m")) for _ in range(50)]
        await until(lambda: bool(agent.tasks))
        agent.let_go.set()
        replies = await asyncio.gather(*sending)
        assert len({reply.task.task_id for reply in replies}) == 1
        assert text((await plane.at_rest(replies[0])).status.message) == "one two"
        assert (agent.begun, agent.closed, agent.runs, len(agent.tasks)) == (1, 1, 0, 1)


class Faulty(Deciding):
    """Fails after it began, in the way that the message names."""

    async def model(self, turn: Turn) -> AsyncIterator[Change]:
        yield Text("one ")
        match turn.text:
            case "raises":
                raise RuntimeError("secret")
            case "cancels itself":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            case "cancels itself between":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                yield Text("two")
                yield Text("three")
            case _:
                raise SystemExit(3)


@pytest.mark.parametrize("fault", ["raises", "cancels itself", "cancels itself between", "exits"])
async def test_a_fault_in_the_work_that_a_router_began_fails_the_task(stores: Stores, fault: str) -> None:
    """P9: as in `run`; other tasks complete."""
    async with open_plane(stores, ("a", Faulty())) as plane:
        task = await plane.run(fault)
        assert task.status.state == a2a.TASK_STATE_FAILED and "secret" not in text(task.status.message)
        assert text((await plane.run("none")).status.message) == "run"


async def test_a_router_gets_the_options_of_its_request(stores: Stores) -> None:
    """P2: metadata, media types and extensions, before there is a task."""
    seen: list[Turn] = []

    class Seeing(Deciding):
        async def route(self, turn: Turn) -> str:
            seen.append(turn)
            return "seen"

    async with open_plane(stores, ("a", Seeing())) as plane:
        request = pb.SubmitRequest(
            request=a2a.SendMessageRequest(
                message=said("Hi"),
                configuration=a2a.SendMessageConfiguration(accepted_output_modes=["text/plain"]),
            ),
            extensions=["https://example.com/x"],
        )
        request.request.metadata.update({"a": 1, "b": {"c": [True, None, 1.5]}})
        await plane.executor().Submit(request)
    assert seen[0].metadata == {"a": 1, "b": {"c": [True, None, 1.5]}}
    assert (*seen[0].output_modes, *seen[0].extensions) == ("text/plain", "https://example.com/x")
    assert seen[0].checkpoint is None
    assert await eventually(seen[0].incoming, lambda found: not found) == []
