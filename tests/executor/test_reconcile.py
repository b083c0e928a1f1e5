"""Sessions with tasks that do not match their history: after crashes, after entries of other writers, and turns that
were cut before their task existed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.executor.plane import Held, Plane, Stores, eventually, open_plane, said, swept_at_start, text, until
from tests.executor.rewinding import answer, applied, gone, invocation, listed, rewind, rewind_session, turns
from tests.executor.scripted import Scripted
from tests.support.additions import untimed

from taskplane.agents.agent import ArtifactChunk, AskInput, Change, Complete, Fail, Policy, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime import retry
from taskplane.runtime.errors import NotFound, Refused, Unavailable

# An executor that ends without waiting.
MORTAL: dict[str, Any] = {"drain_timeout": 0.05, "cancel_grace": 0.05}
# Between the entry, the mark on the tasks, and the mark on the session.
PLACES = ["MarkSuperseded", "MarkApplied"]


async def half_done(stores: Stores, place: str) -> list[a2a.Task]:
    """Makes two turns, and a rewind before the second whose executor ends in the middle of it."""
    async with open_plane(stores, ("a", Scripted(answer)), **MORTAL) as plane:
        done = await turns(plane, "one", "two")
        held = Held(stores, place)
        call = asyncio.ensure_future(rewind(plane, invocation(done[1])))
        await held.reached.wait()
        await gone(call)
    del stores.channel.before[place]
    return done


@pytest.mark.parametrize("place", PLACES)
async def test_a_rewind_interrupted_by_the_end_of_its_executor_is_finished_by_the_sweep(
    stores: Stores, place: str
) -> None:
    """R4: by another executor, at its start."""
    one, _ = await half_done(stores, place)
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        await eventually(lambda: applied(plane), lambda done: done)
        assert await listed(plane) == [one.id]
        assert await plane.conversation("c") == ["one", "answer to one"]


async def test_a_sweep_continues_after_a_page_of_sessions_that_it_cannot_reconcile(stores: Stores) -> None:
    """R4: even if those that have waited longest always fail."""
    contexts = [f"c{number}" for number in range(5)]
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        await swept_at_start(stores)
        done = [await turns(plane, "one", "two", context_id=context_id) for context_id in contexts]
    for context_id, (_, two) in zip(contexts, done, strict=True):
        data = f'{{"actions": {{"rewindBeforeInvocationId": "{invocation(two)}"}}, "invocationId": "r"}}'
        event = sessions.Entry(id=f"{context_id}-event", kind=sessions.ENTRY_KIND_EVENT, data=data)
        await stores.sessions().AppendEntries(sessions.AppendEntriesRequest(context_id=context_id, entries=[event]))

    async def refuse(request: tasks.MarkSupersededRequest) -> None:
        if request.context_id in contexts[:3]:
            raise Refused("what a store cannot take", reason="WRONG")

    async def two_at_a_time(request: sessions.ListUnappliedRequest) -> None:
        request.limit = 2

    stores.channel.before["MarkSuperseded"] = refuse
    stores.channel.before["ListUnapplied"] = two_at_a_time
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        await eventually(lambda: applied(plane, contexts[4]), lambda done: done)
        assert [await applied(plane, context_id) for context_id in contexts] == [False] * 3 + [True] * 2


class Blind:
    """Sweeps that find nothing to look at."""

    def __init__(self, stores: Stores) -> None:
        stores.channel.before["ListUnapplied"] = self._refuse

    async def _refuse(self, request: object) -> None:
        raise Unavailable("not now")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("next_request", ["turn", "message", "rewind", "refused rewind", "refused undo", "apply"])
async def test_the_next_request_finishes_an_interrupted_rewind(stores: Stores, place: str, next_request: str) -> None:
    """R4: a request of any kind, also a refused one."""

    class Sometimes(Scripted):
        routes_at_sight = True

        async def route(self, turn: Turn) -> str | None:
            return "direct" if turn.text == "message" else None

    one, two = await half_done(stores, place)
    Blind(stores)
    async with open_plane(stores, ("a", Sometimes(answer))) as plane:
        assert not await applied(plane)
        expected = [one.id]
        if next_request == "turn":
            expected.append((await plane.run("three", context_id="c")).id)
        elif next_request == "message":
            assert text((await plane.submit("message", context_id="c")).message) == "direct"
        elif next_request == "rewind":
            await rewind(plane, invocation(one))
            expected = []
        elif next_request == "refused rewind":
            with pytest.raises(NotFound):
                await rewind_session(plane, invocation(two))
        elif next_request == "refused undo":
            await plane.stores.sessions().AppendEntries(
                sessions.AppendEntriesRequest(
                    context_id="c",
                    entries=[sessions.Entry(id="e", kind=sessions.ENTRY_KIND_MESSAGE, message=said("new"))],
                )
            )
            with pytest.raises(Refused):
                await plane.executor().UndoRewind(pb.UndoRewindRequest(context_id="c"))
        else:
            for _ in range(2):
                await plane.executor().ApplySession(pb.ApplySessionRequest(context_id="c"))
        assert await applied(plane)
        assert await listed(plane) == expected


async def test_a_rewind_waits_for_a_briefly_unavailable_store(
    stores: Stores, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "BRIEF", 60.0)
    one, two = await turns(plane, "one", "two")
    left = 3

    async def fail(request: object) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Unavailable("not now")

    for method in ("Rewind", *PLACES, "GetSessionTask"):
        left = 2
        stores.channel.before[method] = fail
        await rewind(plane, invocation(two), key="k", message_id="m")
        del stores.channel.before[method]
    assert await applied(plane) and await listed(plane) == [one.id]


def pushed(*messages: a2a.Message) -> sessions.AppendEntriesRequest:
    """A history that a runtime of its own pushes."""
    entry = sessions.Entry(id="pushed", kind=sessions.ENTRY_KIND_PUSHED, pushed=sessions.Messages(messages=messages))
    return sessions.AppendEntriesRequest(context_id="c", entries=[entry])


async def test_a_pushed_history_is_applied_and_is_the_history_of_the_next_turn(stores: Stores) -> None:
    """R7: by ApplySession, or by the turn; tasks that the history does not name are superseded."""
    agent = Scripted(answer)
    Blind(stores)
    async with open_plane(stores, ("a", agent)) as plane:
        one, _ = await turns(plane, "one", "two")

        async def shown() -> list[a2a.Message]:
            asked = sessions.GetSessionTaskRequest(context_id="c")
            return list((await stores.sessions().GetSessionTask(asked)).task.history)

        turn = (await eventually(shown, lambda history: len(history) == 4))[:2]
        await stores.sessions().AppendEntries(pushed(*turn, said("pushed")))
        assert not await applied(plane)
        await plane.executor().ApplySession(pb.ApplySessionRequest(context_id="c"))
        assert await applied(plane)
        (three,) = await turns(plane, "three")
        kept = [*map(text, turn), "pushed"]
        assert [text(message) for message in agent.turns[-1].history] == kept
        assert await listed(plane) == [one.id, three.id]
        rewound = (await rewind(plane, invocation(three), "four")).rewound
        assert [text(message) for message in rewound.task.history] == kept
        assert not untimed(rewound.task.history[-1]).HasField("metadata")
        task = await plane.at_rest(pb.SubmitResponse(task=rewound.next))
        assert await listed(plane) == [one.id, task.id]


async def test_a_rewind_by_an_event_of_a_runtime_is_applied_by_the_sweep(stores: Stores) -> None:
    """R10: without another request."""
    async with open_plane(stores, uncopied_every=0.05) as plane:
        one, two = await turns(plane, "one", "two")
        data = f'{{"actions": {{"rewindBeforeInvocationId": "{invocation(two)}"}}, "invocationId": "r"}}'
        entry = sessions.Entry(id="event", kind=sessions.ENTRY_KIND_EVENT, data=data)
        await stores.sessions().AppendEntries(sessions.AppendEntriesRequest(context_id="c", entries=[entry]))
        await eventually(lambda: applied(plane), lambda done: done)
        assert await listed(plane) == [one.id]


async def saved(plane: Plane, words: str) -> str:
    """The invocation of a turn once its message is in the session."""

    async def found() -> str:
        try:
            entries = await plane.entries("c")
        except NotFound:
            return ""
        return next((entry.invocation_id for entry in entries if text(entry.message) == words), "")

    return await eventually(found, bool)


async def cut_before_its_task(
    stores: Stores, plane: Plane, words: str = "one", *, key: str = "k", **fields: Any
) -> pb.SubmitResponse:
    """A turn of session c that a rewind cuts after it is saved and before its task is created."""
    held = Held(stores, "CreateTask")
    call = asyncio.ensure_future(plane.submit(words, context_id="c", key=key, **fields))
    before = await saved(plane, words)
    await held.reached.wait()
    await rewind(plane, before)
    assert await applied(plane)
    held.let_go.set()
    return await call


@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("key", ["", "k"])
async def test_a_turn_cut_before_its_task_was_created_does_not_run(stores: Stores, earlier: bool, key: str) -> None:
    """R4: its run supersedes the task, which MarkSuperseded could not see."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        kept = [task.id for task in await turns(plane, *(["one"] if earlier else []))]
        task = await plane.at_rest(await cut_before_its_task(stores, plane, "two", key=key, message_id="m"))
        record = await eventually(lambda: plane.record(task.id), lambda found: found.superseded)
        assert await listed(plane) == kept
        assert len(await plane.conversation("c")) == 2 * len(kept)
        if earlier:
            assert record.state == a2a.TASK_STATE_CANCELED
            assert [turn.text for turn in agent.turns] == ["one"]


@pytest.mark.parametrize(
    "last",
    [Complete("said"), Complete(), AskInput("which?"), Fail("no"), ArtifactChunk("a", text="x")],
    ids=["says", "is silent", "asks", "fails", "makes something"],
)
async def test_a_cut_turn_that_began_its_session_is_superseded_by_its_end(stores: Stores, last: Change) -> None:
    """R4: it had no history to read, so it cannot notice earlier. With any kind of end."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield last

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        reference = await cut_before_its_task(stores, plane)
        await eventually(lambda: plane.record(reference.task.task_id), lambda found: found.superseded)
        assert await listed(plane) == [] and await plane.conversation("c") == []


async def test_a_cut_turn_is_superseded_even_if_the_answer_to_its_end_is_lost(stores: Stores) -> None:
    """R4: its run is stopped, as by a drain, after the commit of its end and before the answer."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Fail("no")

    async def never(request: object) -> None:
        await asyncio.Event().wait()

    stores.channel.after["AppendEvents"] = never
    async with open_plane(stores, ("a", Scripted(script))) as plane:
        await swept_at_start(stores)
        reference = await cut_before_its_task(stores, plane)
        await plane.reaches(reference.task.task_id, a2a.TASK_STATE_FAILED)
        (run,) = plane.service.runs.active
        plane.service.runs.stop(run, "it is drained")
        await eventually(lambda: plane.record(reference.task.task_id), lambda found: found.superseded)
        assert await listed(plane) == [] and await plane.conversation("c") == []


async def test_a_run_stopped_by_a_rewind_does_not_affect_later_turns(stores: Stores) -> None:
    """R4: a refused message that is sent again after the rewind is a normal turn."""
    go_on = asyncio.Event()
    marks = 0

    async def script(turn: Turn) -> AsyncIterator[Change]:
        if turn.text == "one":
            await asyncio.Event().wait()
        yield Complete("done")

    async def hold(request: object) -> None:
        nonlocal marks
        marks += 1
        if marks > 1:
            await go_on.wait()

    stores.channel.before["MarkSuperseded"] = hold
    async with open_plane(stores, ("a", Scripted(script, policy=Policy(strategy="reject")))) as plane:
        await swept_at_start(stores)
        reference = await plane.submit("one", context_id="c")
        with pytest.raises(Refused, match="is running"):
            await plane.submit("two", context_id="c", key="k", message_id="m")
        looked = stores.calls.get("GetTask", 0)
        await rewind(plane, await saved(plane, "one"))
        assert (await plane.at_rest(reference)).status.state == a2a.TASK_STATE_CANCELED
        await until(lambda: not plane.service.runs.active and stores.calls.get("GetTask", 0) > looked)
        again = await plane.submit("two", context_id="c", key="k", message_id="m")
        go_on.set()
        assert (await plane.at_rest(again)).status.state == a2a.TASK_STATE_COMPLETED
        assert marks == 1


async def test_a_repeated_refused_turn_is_not_cut_by_a_slow_rewind(stores: Stores) -> None:
    """R4: the rewind lists its turns while the message was refused, and marks tasks after the repeat has created
    one."""
    ended = {"one": asyncio.Event(), "two": asyncio.Event()}
    marks: list[tasks.MarkSupersededRequest] = []
    asked, let_go = asyncio.Event(), asyncio.Event()

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await ended[turn.text].wait()
        yield Complete("done")

    async def hold(request: tasks.MarkSupersededRequest) -> None:
        marks.append(request)
        if len(marks) == 1:
            asked.set()
            await let_go.wait()

    async with open_plane(stores, ("a", Scripted(script, policy=Policy(strategy="reject")))) as plane:
        await swept_at_start(stores)
        one = await plane.submit("one", context_id="c")
        with pytest.raises(Refused, match="is running"):
            await plane.submit("two", context_id="c", key="k", message_id="m")
        stores.channel.before["MarkSuperseded"] = hold
        rewinding = asyncio.ensure_future(rewind(plane, await saved(plane, "one")))
        await asked.wait()
        ended["one"].set()
        await plane.at_rest(one)
        two = await plane.submit("two", context_id="c", key="k", message_id="m")
        let_go.set()
        await rewinding
        ended["two"].set()
        assert (await plane.at_rest(two)).status.state == a2a.TASK_STATE_COMPLETED


async def test_a_turn_cut_while_its_router_decides_does_not_run(stores: Stores) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Thinking(Scripted):
        async def route(self, turn: Turn) -> str | None:
            asked.set()
            await go_on.wait()
            return None

    agent = Thinking(answer)
    async with open_plane(stores, ("a", agent), route_timeout=60.0) as plane:
        call = asyncio.ensure_future(plane.submit("one", context_id="c"))
        await asked.wait()
        await rewind(plane, await saved(plane, "one"))
        go_on.set()
        task = await plane.at_rest(await call)
        assert task.status.state == a2a.TASK_STATE_CANCELED
        assert await listed(plane) == [] and await plane.conversation("c") == []
    assert agent.turns == []


async def test_a_queued_turn_that_was_cut_does_not_run(stores: Stores) -> None:
    agent = Scripted(answer)
    async with open_plane(stores, ("a", Scripted(answer)), capacity=0) as full:
        reference = await full.submit("one", context_id="c")
        await rewind(full, invocation(await full.task(reference.task.task_id)))
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.at_rest(reference)
        assert task.status.state == a2a.TASK_STATE_CANCELED
        await turns(plane, "two")
    assert [turn.text for turn in agent.turns] == ["two"]


async def test_a_turn_with_an_unsaved_message_is_not_taken_for_cut(stores: Stores) -> None:
    """C6: the message is in the session later, as a copy."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        one, two = await turns(plane, "one", "two")
        await rewind(plane, invocation(two))

        async def refuse(request: sessions.AppendEntriesRequest) -> None:
            if any(entry.kind == sessions.ENTRY_KIND_OUTCOME for entry in request.entries):
                raise Unavailable("not now")

        stores.channel.before["AppendEntries"] = refuse
        task = await plane.run("three", context_id="c")
        assert task.status.state == a2a.TASK_STATE_COMPLETED
        assert await plane.conversation("c") == ["one", "answer to one", "three", "answer to three"]
        assert await listed(plane) == [one.id, task.id]


async def test_a_turn_in_a_rewound_session_costs_no_more_calls(stores: Stores, plane: Plane) -> None:
    """One turn is 2 AppendEntries, 1 ListEntries, 1 CreateTask, 2 AppendEvents."""
    await swept_at_start(stores)
    _, two = await turns(plane, "echo one", "echo two")
    await rewind(plane, invocation(two))
    stores.calls.clear()
    await turns(plane, "echo three")
    calls = {name: count for name, count in stores.calls.items() if name not in ("Renew", "ListUncopied")}
    assert calls == {"AppendEntries": 2, "ListEntries": 1, "CreateTask": 1, "AppendEvents": 2}
