"""Turns without a result are voided, by any executor; turns with a result never stay void."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from tests.executor.plane import Held, Plane, Stores, eventually, open_plane, text, until
from tests.executor.scripted import Scripted

from taskplane.agents.agent import Change, Complete, Text, Turn
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Exhausted, Unavailable

# An executor that sweeps all the time, and takes any turn that is a tenth of a second old for lost.
SWEEPING: dict[str, Any] = {"uncopied_every": 0.05, "abandoned_after": 0.1}
# An executor that takes no turn of these tests for lost, and ends without waiting.
MORTAL: dict[str, Any] = {"drain_timeout": 0.05, "cancel_grace": 0.05}
VOID = sessions.ENTRY_KIND_VOID


async def answer(turn: Turn) -> AsyncIterator[Change]:
    yield Complete(f"answer to {turn.text}")


class Thinking(Scripted):
    """Routes after the test lets it."""

    def __init__(self, verdict: str | None) -> None:
        super().__init__(answer)
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self._verdict = verdict

    async def route(self, turn: Turn) -> str | None:
        self.asked.set()
        await self.go_on.wait()
        return self._verdict


async def swept(stores: Stores, times: int = 3) -> None:
    """Waits for that many whole sweeps."""
    wanted = stores.calls.get("ListUnsettled", 0) + times
    await until(lambda: stores.calls.get("ListUnsettled", 0) > wanted)


async def left_behind(stores: Stores, words: str, **options: Any) -> None:
    """Leaves a turn whose executor ended after the message was saved and before a task was created."""
    held = Held(stores, "CreateTask")
    async with open_plane(stores, ("a", Scripted(answer)), **MORTAL) as plane:
        call = asyncio.ensure_future(plane.submit(words, **options))
        await held.reached.wait()
        await eventually(lambda: outcomes(plane, options["context_id"]), lambda found: found > 0)
        call.cancel()
        await asyncio.wait([call])
    del stores.channel.before["CreateTask"]


async def outcomes(plane: Plane, context_id: str) -> int:
    request = sessions.ListSessionsRequest()
    if context_id not in {one.context_id for one in (await plane.stores.sessions().ListSessions(request)).sessions}:
        return 0
    return [entry.kind for entry in await plane.entries(context_id)].count(sessions.ENTRY_KIND_OUTCOME)


async def voids(plane: Plane, context_id: str) -> list[bool]:
    """Returns each void in order: whether it takes another back."""
    return [entry.off for entry in await plane.entries(context_id) if entry.kind == VOID]


@pytest.mark.parametrize("key", ["", "k"])
async def test_an_abandoned_turn_is_voided_by_another_executor(stores: Stores, key: str) -> None:
    """C10: its message is in no further prompt; a repeat under its key takes the void back and runs it, once."""
    agent = Scripted(answer)
    await left_behind(stores, "lost", key=key, message_id="m", context_id="c")
    async with open_plane(stores, ("a", agent), **SWEEPING) as plane:
        assert await eventually(lambda: plane.conversation("c"), lambda found: found == []) == []
        await plane.run("next", context_id="c")
        assert [text(message) for message in agent.turns[0].history] == []
        if key:
            first, second = [await plane.submit("lost", key=key, message_id="m", context_id="c") for _ in range(2)]
            assert first.task.task_id == second.task.task_id
            await plane.at_rest(first)
            await swept(stores)
            assert await plane.conversation("c") == ["lost", "answer to lost", "next", "answer to next"]
            assert [turn.text for turn in agent.turns] == ["next", "lost"]
            assert [text(message) for message in agent.turns[1].history] == ["next", "answer to next"]
        else:
            await swept(stores)
            assert await plane.conversation("c") == ["next", "answer to next"]


async def test_an_abandoned_repeat_is_voided_again(stores: Stores) -> None:
    """C10: the first void is taken back, and a second one is added."""
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        await left_behind(stores, "lost", key="k", message_id="m", context_id="c")
        await eventually(lambda: voids(plane, "c"), lambda found: found == [False])
        await left_behind(stores, "lost", key="k", message_id="m", context_id="c")
        await eventually(lambda: voids(plane, "c"), lambda found: found == [False, True, False])
        assert await plane.conversation("c") == []


async def test_a_turn_without_a_routing_decision_is_voided(stores: Stores) -> None:
    """Its executor ends while the router thinks; the router is asked again for a repeat."""
    agent = Thinking("direct")
    async with open_plane(stores, ("a", agent), route_timeout=60.0, **MORTAL) as plane:
        call = asyncio.ensure_future(plane.submit("lost", key="k", message_id="m", context_id="c"))
        await agent.asked.wait()
        assert await plane.conversation("c") == ["lost"]
        call.cancel()
        await asyncio.wait([call])
    agent.go_on.set()
    async with open_plane(stores, ("a", agent), **SWEEPING) as plane:
        await eventually(lambda: plane.conversation("c"), lambda found: found == [])
        reply = await plane.submit("lost", key="k", message_id="m", context_id="c")
        assert text(reply.message) == "direct"
        await swept(stores)
        assert await plane.conversation("c") == ["lost", "direct"]


async def test_an_answer_after_the_void_of_its_turn_is_in_the_conversation(stores: Stores) -> None:
    agent = Thinking("direct")
    async with open_plane(stores, ("a", agent), route_timeout=60.0, **SWEEPING) as plane:
        call = asyncio.ensure_future(plane.submit("slow", context_id="c"))
        await agent.asked.wait()
        await eventually(lambda: plane.conversation("c"), lambda found: found == [])
        agent.go_on.set()
        assert text((await call).message) == "direct"
        assert await plane.conversation("c") == ["slow", "direct"]
        await swept(stores)
        assert await plane.conversation("c") == ["slow", "direct"]


@pytest.mark.parametrize("key", ["", "k"])
async def test_a_task_created_after_its_turn_was_voided_is_in_the_conversation(stores: Stores, key: str) -> None:
    """A stalled executor has its turn voided by another one, and continues."""
    held = Held(stores, "CreateTask")
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        call = asyncio.ensure_future(plane.submit("slow", key=key, message_id="m", context_id="c"))
        await held.reached.wait()
        await eventually(lambda: outcomes(plane, "c"), lambda found: found > 0)
        await eventually(lambda: voids(plane, "c"), lambda found: found == [False])
        held.let_go.set()
        await plane.at_rest(await call)
        assert await plane.conversation("c") == ["slow", "answer to slow"]
        await swept(stores)
        assert await plane.conversation("c") == ["slow", "answer to slow"]


async def test_a_task_created_while_its_turn_is_voided_is_in_the_conversation(stores: Stores) -> None:
    """The sweep finds no task before it voids the turn, and a task after it; the creator of the task does nothing
    more."""
    await left_behind(stores, "lost", key="k", message_id="m", context_id="c")
    created: list[str] = []

    async def create(request: sessions.AppendEntriesRequest) -> None:
        (entry,) = request.entries
        if entry.kind == VOID and not created:
            stored = (await stores.sessions().ListEntries(sessions.ListEntriesRequest(context_id="c"))).entries
            message = stored[0].message
            response = await stores.tasks().CreateTask(
                tasks.CreateTaskRequest(
                    invocation_id=entry.target,
                    request_hash=stored[0].request_hash,
                    task_id=message.task_id,
                    context_id="c",
                    agent="nobody",
                    message=message,
                )
            )
            created.append(response.record.id)

    stores.channel.before["AppendEntries"] = create
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        await eventually(lambda: voids(plane, "c"), lambda found: found == [False, True])
        assert created and await plane.conversation("c") == ["lost"]


async def test_a_silent_task_is_checked_once_and_its_turn_stays(stores: Stores) -> None:
    go_on = asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Text("one ")
        await go_on.wait()
        yield Complete("done")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await plane.submit("go", context_id="c")
        # Not earlier: the sweep might look for the task before it exists.
        async with open_plane(stores, ("a", Scripted(script)), **SWEEPING):
            await until(lambda: stores.calls.get("MarkSettled", 0) > 0)
            looks = stores.calls["ListEvents"]
            marks = stores.calls["MarkSettled"]
            await swept(stores)
            assert (stores.calls["ListEvents"], stores.calls["MarkSettled"]) == (looks, marks)
            assert await plane.conversation("c") == ["go"] and await voids(plane, "c") == []
        go_on.set()
        await plane.at_rest(reference)


async def test_a_refused_turn_is_not_restored_by_the_task_of_another_turn(stores: Stores) -> None:
    """Both turns asked for the same task id, made by the client."""
    more = {"create_unknown_task": True}

    async def refuse(request: object) -> None:
        raise Exhausted("too many tasks")

    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        stores.channel.before["CreateTask"] = refuse
        with pytest.raises(Exhausted):
            await plane.submit("refused", task_id="mine", context_id="c", more=more)
        del stores.channel.before["CreateTask"]
        await plane.at_rest(await plane.submit("again", task_id="mine", context_id="c", more=more))
        await until(lambda: stores.calls.get("MarkSettled", 0) > 0)
        await swept(stores)
        assert await plane.conversation("c") == ["again", "answer to again"]


async def test_a_turn_that_became_a_message_to_the_task_of_another_turn_stays(stores: Stores) -> None:
    """Two sends asked for the same new task id, made by the client; the message of the second send waits there."""
    made: list[str] = []

    async def overtake(request: tasks.CreateTaskRequest) -> None:
        if not made:
            made.append(request.task_id)
            first = tasks.CreateTaskRequest()
            first.CopyFrom(request)
            first.invocation_id, first.request_hash, first.agent = "first", bytes(32), "nobody"
            first.ClearField("claim_for")
            first.ClearField("first_changes")
            first.message.parts[0].text = "first"
            await stores.tasks().CreateTask(first)

    stores.channel.before["CreateTask"] = overtake
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        await plane.submit("second", task_id="mine", context_id="c", more={"create_unknown_task": True})
    # Not earlier: the sweep might look for the task before it exists.
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        await until(lambda: stores.calls.get("MarkSettled", 0) > 0)
        assert made and await voids(plane, "c") == []
        assert sorted(await plane.conversation("c")) == ["first", "second"]


async def test_a_turn_is_checked_again_after_the_task_store_was_unavailable(stores: Stores) -> None:
    """C15: the task store is unavailable while the sweep asks it."""
    await left_behind(stores, "lost", context_id="c")
    down = True

    async def unreachable(request: object) -> None:
        if down:
            raise Unavailable("no task store")

    stores.channel.before["ListEvents"] = unreachable
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        await until(lambda: stores.calls.get("ListEvents", 0) > 1)
        assert await plane.conversation("c") == ["lost"] and "MarkSettled" not in stores.calls
        down = False
        await eventually(lambda: plane.conversation("c"), lambda found: found == [])


async def test_concurrent_sweeps_of_two_executors_have_the_same_result(stores: Stores) -> None:
    for n in range(4):
        await left_behind(stores, "lost", key=f"k{n}", message_id="m", context_id=f"c{n}")
    async with (
        open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane,
        open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as other,
    ):
        for n in range(4):
            await eventually(lambda n=n: plane.conversation(f"c{n}"), lambda found: found == [])  # type: ignore[misc]
            reply = await other.submit("lost", key=f"k{n}", message_id="m", context_id=f"c{n}")
            await other.at_rest(reply)
        await swept(stores)
        # One of the two executors may still be in an earlier sweep, between a void and its reversal.
        for n in range(4):
            read = partial(plane.conversation, f"c{n}")
            await eventually(read, lambda found: found == ["lost", "answer to lost"])
