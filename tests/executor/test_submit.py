"""Submit: one turn for one key, after repeats, losses and refusals."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import BOB, Plane, Stores, eventually, open_plane, open_stores, text
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AskInput, Change, Complete, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime import message_times, retry
from taskplane.runtime.errors import Exhausted, Invalid, NotFound, Refused, Unavailable

CREATED = tasks.EVENT_KIND_CREATED


async def answer(turn: Turn) -> AsyncIterator[Change]:
    yield Complete(f"answer to {turn.text}")


class Routed(Scripted):
    """Answers directly with the result of `route`; counts its calls."""

    def __init__(self, route: Any, *, at_sight: bool = False) -> None:
        super().__init__(answer)
        self.routes_at_sight = at_sight
        self.asked = 0
        self.histories: list[list[str]] = []
        self._route = route

    async def route(self, turn: Turn) -> str | None:
        self.asked += 1
        self.histories.append([text(message) for message in turn.history])
        answer: str | None = await self._route(turn)
        return answer


async def test_a_new_task_is_returned_with_a_cursor_for_its_watch(plane: Plane) -> None:
    reference = (await plane.submit("hello", metadata={"mine": "kept"})).task
    assert reference.task.id == reference.task_id and reference.task.context_id == reference.context_id
    assert reference.task.status.state == a2a.TASK_STATE_SUBMITTED
    assert [text(message) for message in reference.task.history] == ["hello"]
    (message,) = reference.task.history
    assert message.task_id == reference.task_id and message.context_id == reference.context_id
    assert set(message.metadata.fields) == {"mine", "kagent_invocation_id", message_times.KEY}
    record = await plane.record(reference.task_id)
    assert reference.cursor == f"{record.incarnation}-1"
    watch = plane.stores.tasks().WatchTask(
        tasks.WatchTaskRequest(task_id=reference.task_id, cursor=reference.cursor, stop_at=[a2a.TASK_STATE_COMPLETED])
    )
    generations = [event.generation async for part in watch for event in part.events.events]
    assert generations[0] == 2


async def test_fifty_concurrent_equal_sends_make_one_task_and_one_run(stores: Stores) -> None:
    """C10: without a key the sends make fifty tasks."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        replies = await asyncio.gather(*(plane.submit("go", key="k", message_id="m") for _ in range(50)))
        ids = {reply.task.task_id for reply in replies}
        assert len(ids) == 1 and len({reply.task.context_id for reply in replies}) == 1
        task = await plane.at_rest(replies[0])
        assert len(agent.turns) == 1
        assert await plane.conversation(task.context_id) == ["go", "answer to go"]
        control = await asyncio.gather(*(plane.submit("go", message_id="m") for _ in range(50)))
        for reply in control:
            await plane.at_rest(reply)
        assert len({reply.task.task_id for reply in control}) == 50 and len(agent.turns) == 51


async def test_a_repeat_after_a_restart_of_all_processes_gets_the_same_task(tmp_path: Path) -> None:
    """C10: the key is remembered as long as its task or answer."""
    agent = Scripted(answer)
    async with open_stores(tmp_path) as stores, open_plane(stores, ("a", agent)) as plane:
        first = await plane.submit("go", key="k", message_id="m")
        await plane.at_rest(first)
    async with open_stores(tmp_path) as stores, open_plane(stores, ("a", agent)) as plane:
        second = await plane.submit("go", key="k", message_id="m")
        assert second.task.task_id == first.task.task_id and not second.task.cursor
        assert len(agent.turns) == 1
        assert await plane.conversation(first.task.context_id) == ["go", "answer to go"]


@pytest.mark.parametrize("command", ["go", "message hello"])
async def test_a_key_used_with_another_request_is_refused_and_changes_nothing(plane: Plane, command: str) -> None:
    """C10: same key, other hash: KEY_REUSED."""
    first = await plane.submit(command, key="k", message_id="m", context_id="c")
    with pytest.raises(Refused) as refused:
        await plane.submit(f"{command} else", key="k", message_id="m", context_id="c")
    assert refused.value.reason == "KEY_REUSED"
    with pytest.raises(Refused):
        await plane.submit(command, key="k", message_id="m", context_id="other")
    if first.HasField("task"):
        await plane.at_rest(first)
    assert (await plane.conversation("c"))[0] == command
    assert len(await plane.conversation("c")) == 2


async def test_a_key_is_separate_for_each_caller_agent_and_kind(stores: Stores) -> None:
    async with open_plane(stores, ("a", Scripted(answer)), ("b", Scripted(answer))) as plane:
        replies = [
            await plane.submit("go", key="k", message_id="m"),
            await plane.submit("go", key="k", message_id="m", who=BOB),
            await plane.submit("go", key="k", message_id="m", agent="b"),
            await plane.submit("go", key="k", message_id="m", more={"key_is_message_id": True}),
        ]
        assert len({reply.task.task_id for reply in replies}) == 4


async def test_a_repeat_gets_the_same_direct_answer(plane: Plane) -> None:
    """C10: one answer is stored."""
    replies = await asyncio.gather(*(plane.submit("message hi", key="k", message_id="m") for _ in range(10)))
    assert len({reply.message.message_id for reply in replies}) == 1
    assert await plane.conversation(replies[0].message.context_id) == ["message hi", "hi"]


async def test_a_router_that_decides_at_once_costs_no_further_call(stores: Stores, plane: Plane) -> None:
    stores.calls.clear()
    await plane.submit("message hi")
    assert stores.calls["AppendEntries"] == 1 and "CreateTask" not in stores.calls


async def test_a_router_sees_the_conversation_and_is_asked_after_the_message_was_saved(stores: Stores) -> None:
    """P2: the user message is saved first."""
    saved: list[list[str]] = []

    async def route(turn: Turn) -> str | None:
        entries = await stores.sessions().ListEntries(sessions.ListEntriesRequest(context_id=turn.context_id))
        saved.append([text(entry.message) for entry in entries.entries if entry.HasField("message")])
        return "direct" if turn.text == "one" else None

    agent = Routed(route)
    async with open_plane(stores, ("a", agent)) as plane:
        first = await plane.submit("one")
        assert text(first.message) == "direct"
        task = await plane.run("two", context_id=first.message.context_id)
        assert text(task.status.message) == "answer to two"
    assert agent.histories == [[], ["one", "direct"]]
    assert saved == [["one"], ["one", "direct", "two"]]


@pytest.mark.parametrize("at_sight", [False, True])
async def test_a_router_that_is_too_slow_continues_inside_a_task(stores: Stores, at_sight: bool) -> None:
    thinking = asyncio.Event()

    async def route(turn: Turn) -> str | None:
        await thinking.wait()
        return "direct after all"

    agent = Routed(route, at_sight=at_sight)
    async with open_plane(stores, ("a", agent), route_timeout=0.05) as plane:
        reference = await plane.submit("go")
        assert reference.HasField("task")
        thinking.set()
        task = await plane.at_rest(reference)
        assert text(task.status.message) == "direct after all"
        assert agent.asked == 1 and not agent.turns
        assert await plane.conversation(task.context_id) == ["go", "direct after all"]


async def test_a_router_may_take_longer_if_the_client_waits(stores: Stores) -> None:
    """P2: the router gets this option; for any other client the same router is too slow."""
    thinking = asyncio.Event()
    waits: list[bool] = []

    async def route(turn: Turn) -> str | None:
        waits.append(turn.waits)
        await thinking.wait()
        return "direct after all"

    async with open_plane(stores, ("a", Routed(route)), route_timeout=0.05, unary_route_timeout=20.0) as plane:
        patient = asyncio.create_task(plane.submit("go", more={"waits": True}))
        reference = await plane.submit("go")
        assert reference.HasField("task") and not patient.done()
        thinking.set()
        answer = await patient
        assert text(answer.message) == "direct after all" and sorted(waits) == [False, True]
        assert text((await plane.at_rest(reference)).status.message) == "direct after all"


async def test_a_router_that_raises_makes_a_task_that_fails(stores: Stores) -> None:
    async def route(turn: Turn) -> str | None:
        raise RuntimeError("no idea")

    async with open_plane(stores, ("a", Routed(route))) as plane:
        task = await plane.run("go")
        assert task.status.state == a2a.TASK_STATE_FAILED
        assert text(task.status.message).startswith("The agent failed unexpectedly; its log has the cause under ")


async def test_repeats_get_the_first_routing_decision(stores: Stores) -> None:
    """The outcome entry decides once about a turn; the router may decide otherwise later."""
    answers = iter(["first", "second", None])

    async def route(turn: Turn) -> str | None:
        return next(answers)

    async with open_plane(stores, ("a", Routed(route, at_sight=True))) as plane:
        replies = [await plane.submit("go", key="k", message_id="m") for _ in range(3)]
    assert [text(reply.message) for reply in replies] == ["first"] * 3


async def test_a_turn_completes_after_its_caller_has_left(stores: Stores) -> None:
    agent = Scripted(answer)
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold(request: object) -> None:
        reached.set()
        await go_on.wait()

    stores.channel.before["CreateTask"] = hold
    async with open_plane(stores, ("a", agent)) as plane:
        call = asyncio.ensure_future(plane.submit("go", context_id="c"))
        await reached.wait()
        call.cancel()
        await asyncio.wait([call])
        go_on.set()

        async def conversation() -> list[str]:
            try:
                return await plane.conversation("c")
            except NotFound:  # both stores write at the same time
                return []

        assert await eventually(conversation, lambda found: len(found) == 2) == [
            "go",
            "answer to go",
        ]
    assert len(agent.turns) == 1


async def test_create_task_is_repeated_after_a_lost_reply_and_the_task_runs_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "BRIEF", 60.0)
    agent = Scripted(answer)
    lost: list[object] = []
    async with open_plane(stores, ("a", agent), process_id="p") as plane:

        async def lose(request: tasks.CreateTaskRequest) -> None:
            if not lost:
                lost.append(request)
                await stores.tasks().CreateTask(request)
                raise Unavailable("the answer was lost")

        stores.channel.before["CreateTask"] = lose
        task = await plane.run("go")
        assert lost and task.status.state == a2a.TASK_STATE_COMPLETED
        assert len(agent.turns) == 1
        assert await plane.conversation(task.context_id) == ["go", "answer to go"]


async def test_a_refused_turn_is_not_in_the_next_prompt(stores: Stores) -> None:
    agent = Scripted(answer)

    async def refuse(request: object) -> None:
        raise Exhausted("too many tasks")

    async with open_plane(stores, ("a", agent)) as plane:
        stores.channel.before["CreateTask"] = refuse
        with pytest.raises(Exhausted):
            await plane.submit("refused", context_id="c")
        del stores.channel.before["CreateTask"]
        await plane.run("next", context_id="c")
        assert await plane.conversation("c") == ["next", "answer to next"]
    assert [text(message) for message in agent.turns[0].history] == []


async def test_a_turn_with_a_key_is_not_voided_after_a_temporary_refusal_and_its_repeat_runs(stores: Stores) -> None:
    async def refuse(request: object) -> None:
        raise Exhausted("too many tasks")

    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        stores.channel.before["CreateTask"] = refuse
        with pytest.raises(Exhausted):
            await plane.submit("go", key="k", message_id="m", context_id="c")
        kinds = [entry.kind for entry in await plane.entries("c")]
        assert kinds == [sessions.ENTRY_KIND_MESSAGE, sessions.ENTRY_KIND_OUTCOME]
        del stores.channel.before["CreateTask"]
        await plane.at_rest(await plane.submit("go", key="k", message_id="m", context_id="c"))
        assert await plane.conversation("c") == ["go", "answer to go"]


async def test_a_refusal_for_a_reused_key_voids_no_turn(stores: Stores) -> None:
    async def refuse(request: object) -> None:
        raise Refused("used before", reason="KEY_REUSED")

    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        stores.channel.before["CreateTask"] = refuse
        with pytest.raises(Refused):
            await plane.submit("go", key="k", message_id="m", context_id="c")
        assert await plane.conversation("c") == ["go"]


async def test_a_repeat_reverts_a_void(stores: Stores) -> None:
    """A message id as the key does not protect a refused turn from its void."""

    async def refuse(request: object) -> None:
        raise Exhausted("too many tasks")

    more = {"key_is_message_id": True}
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        for _ in range(2):
            stores.channel.before["CreateTask"] = refuse
            with pytest.raises(Exhausted):
                await plane.submit("go", key="m", message_id="m", context_id="c", more=more)
            assert await plane.conversation("c") == []
        del stores.channel.before["CreateTask"]
        await plane.at_rest(await plane.submit("go", key="m", message_id="m", context_id="c", more=more))
        assert await plane.conversation("c") == ["go", "answer to go"]


async def test_a_message_to_a_task_is_checked_against_its_state_owner_and_context(plane: Plane) -> None:
    """I1, I2: an ended task is refused, an unknown or foreign one not found, another context invalid; the context may
    be left out."""
    done = await plane.run("echo done")
    with pytest.raises(Refused) as ended:
        await plane.submit("more", task_id=done.id)
    assert ended.value.reason == "TERMINAL"
    with pytest.raises(NotFound) as unknown:
        await plane.submit("more", task_id="unknown")
    assert unknown.value.reason == "TASK_NOT_FOUND"
    with pytest.raises(NotFound) as foreign:
        await plane.submit("more", task_id=done.id, who=BOB)
    assert foreign.value.message.replace(done.id, "x") == unknown.value.message.replace("unknown", "x")
    asked = await plane.run("ask")
    with pytest.raises(Invalid) as mismatch:
        await plane.submit("Ann", task_id=asked.id, context_id="another")
    assert mismatch.value.reason == "CONTEXT_MISMATCH"
    assert await plane.conversation(done.context_id) == ["echo done", "done"]


async def test_an_answer_with_a_key_is_added_once(stores: Stores) -> None:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield AskInput("more?") if turn.text != "stop" else Complete("stopped")

    agent = Scripted(script)
    async with open_plane(stores, ("a", agent)) as plane:
        asked = await plane.run("go")
        for _ in range(3):
            await plane.submit("again", task_id=asked.id, key="k", message_id="m")
        await eventually(lambda: plane.conversation(asked.context_id), lambda found: len(found) == 4)
        with pytest.raises(Refused) as reused:
            await plane.submit("other", task_id=asked.id, key="k", message_id="m")
        assert reused.value.reason == "KEY_REUSED"
        await plane.submit("stop", task_id=asked.id)
        await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
        assert await plane.conversation(asked.context_id) == ["go", "more?", "again", "more?", "stop", "stopped"]
    assert [turn.text for turn in agent.turns] == ["go", "again", "stop"]


async def test_a_task_id_made_by_the_client_creates_the_task_if_allowed(plane: Plane) -> None:
    """I1 with client_task_ids = create: a message to an existing task of that id, otherwise a new task."""
    more = {"create_unknown_task": True}
    first = await plane.submit("ask", task_id="mine", more=more, key="k", message_id="m")
    assert first.task.task_id == "mine" and first.task.cursor
    await plane.at_rest(first)
    repeated = await plane.submit("ask", task_id="mine", more=more, key="k", message_id="m")
    assert repeated.task.task_id == "mine" and not repeated.task.cursor
    await plane.submit("Ann", task_id="mine", more=more)
    assert text((await plane.reaches("mine", a2a.TASK_STATE_COMPLETED)).status.message) == 'You said: "Ann"'
    with pytest.raises(NotFound) as foreign:
        await plane.submit("hello", task_id="mine", more=more, who=BOB)
    assert foreign.value.reason == "TASK_NOT_FOUND"
    with pytest.raises(Refused):
        await plane.submit("ask", task_id="mine", more=more, key="k", message_id="other")


async def test_references_to_unknown_tasks_and_tasks_of_others_are_dropped(plane: Plane) -> None:
    """I3, I5: task B refers to task A of the same context."""
    asked = await plane.run("ask")
    await plane.submit("Ann", task_id=asked.id)
    await plane.reaches(asked.id, a2a.TASK_STATE_COMPLETED)
    foreign = await plane.at_rest(await plane.submit("hello", who=BOB), BOB)
    task = await plane.run(
        "make it shorter", context_id=asked.context_id, reference_task_ids=[asked.id, foreign.id, "unknown"]
    )
    assert task.id != asked.id and task.context_id == asked.context_id
    assert list(task.history[0].reference_task_ids) == [asked.id]


async def test_an_implicit_session_belongs_to_the_caller_and_has_the_first_words_as_its_title(plane: Plane) -> None:
    """S7: another user does not find it."""
    words = "A rather long message that goes on and on until it is much longer than any title should ever be"
    reference = await plane.submit(words)
    request = sessions.GetSessionRequest(context_id=reference.task.context_id)
    session = (await plane.stores.sessions().GetSession(request)).session
    assert session.title == "A rather long message that goes on and on until it is much"
    assert session.agent == "demo" and session.owner == "ann"
    with pytest.raises(NotFound):
        await plane.stores.sessions(BOB).GetSession(request)


async def test_an_invalid_request_is_refused_with_the_wrong_field(plane: Plane) -> None:
    with pytest.raises(NotFound) as agent:
        await plane.submit("hello", agent="dmeo")
    assert agent.value.reason == "AGENT_NOT_FOUND" and agent.value.suggestion == "did you mean 'demo'?"
    with pytest.raises(Invalid) as empty:
        await plane.submit("", parts=[])
    assert "message.parts" in empty.value.fields
    with pytest.raises(Invalid) as key:
        await plane.submit("hello", key="k" * 256)
    assert "idempotency_key" in key.value.fields


async def test_deleting_a_session_deletes_its_tasks(plane: Plane) -> None:
    running = await plane.submit("slow 40", context_id="c")
    asked = await plane.run("ask", context_id="c")
    await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id="c"))
    for task_id in (running.task.task_id, asked.id):
        with pytest.raises(NotFound):
            await plane.task(task_id)
    with pytest.raises(NotFound):
        await plane.conversation("c")
    with pytest.raises(NotFound):
        await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id="c"))
    assert await eventually(lambda: _active(plane), lambda active: active == 0) == 0


async def _active(plane: Plane) -> int:
    return len(plane.service.runs.active)
