"""The words of a deleted task disappear from its session at once, and nothing restores them. C16, C10, R3, R7."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.executor.plane import (
    BOB,
    SERVICE,
    Held,
    Plane,
    Stores,
    eventually,
    open_plane,
    open_stores,
    said,
    text,
    until,
)
from tests.executor.rewinding import answer, invocation, rewind, turns, undo
from tests.executor.scripted import Scripted

from taskplane.agents.agent import AskInput, Change, Complete, Say, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Conflict, NotFound, PlaneError, Refused, Unavailable

# An executor that sweeps all the time, and takes any turn that is a tenth of a second old for lost.
SWEEPING: dict[str, Any] = {"uncopied_every": 0.05, "abandoned_after": 0.1}
_SHOWN = (
    sessions.ENTRY_KIND_MESSAGE,
    sessions.ENTRY_KIND_OUTCOME,
    sessions.ENTRY_KIND_EVENT,
    sessions.ENTRY_KIND_PUSHED,
)


@pytest.fixture
async def stores(tmp_path: Path, database_url: str) -> AsyncGenerator[Stores, None]:
    """Both stores on each engine."""
    async with open_stores(tmp_path, database_url=database_url) as stores:
        yield stores


async def delete_task(plane: Plane, task_id: str) -> None:
    await plane.executor().DeleteTask(pb.DeleteTaskRequest(task_id=task_id))


async def everything_of(stores: Stores, context_id: str = "c") -> str:
    """Returns all answers of a session as one text."""
    log = stores.sessions()
    found: list[Any] = [await log.GetSession(sessions.GetSessionRequest(context_id=context_id))]
    found.append(await log.GetSessionTask(sessions.GetSessionTaskRequest(context_id=context_id)))
    found.append(await log.GetState(sessions.GetStateRequest(context_id=context_id)))
    for effective in (False, True):
        asked = sessions.ListEntriesRequest(context_id=context_id, effective=effective)
        if effective:
            asked.kinds.extend(_SHOWN)
        found.append(await log.ListEntries(asked))
    watched = log.WatchEntries(sessions.WatchEntriesRequest(context_id=context_id, after_seq=0))
    count = found[0].session.entry_count
    async for each in watched:
        found.append(each)
        if each.HasField("entries") and each.entries.entries[-1].seq >= count:
            break
    watched.cancel()
    return "\n".join(map(str, found))


async def refused(call: Any) -> str:
    with pytest.raises(PlaneError) as error:
        await call
    return error.value.reason


@pytest.mark.parametrize("which", [0, 1, 2], ids=["the first", "one between", "the last"])
async def test_a_deleted_task_is_out_of_conversation_prompt_log_and_title(stores: Stores, which: int) -> None:
    """C16: at once, for every reader, also from the position of an earlier watch."""
    agent = Scripted(answer)
    async with open_plane(stores, ("a", agent)) as plane:
        words = ["wonderful one", "terrible two", "thoughtful three"]
        made = await turns(plane, *words)
        assert words[which] in await everything_of(stores)
        await delete_task(plane, made[which].id)
        left = [each for each in words if each != words[which]]
        assert words[which] not in await everything_of(stores)
        assert await plane.conversation("c") == [each for word in left for each in (word, f"answer to {word}")]
        await turns(plane, "next")
        assert [text(each) for each in agent.turns[-1].history[::2]] == left
        session = (await stores.sessions().GetSession(sessions.GetSessionRequest(context_id="c"))).session
        assert session.title == left[0] and session.applied_seq == session.steered_seq
        assert await refused(delete_task(plane, made[which].id)) == "TASK_NOT_FOUND"


@pytest.mark.parametrize("state", ["runs", "asks", "asked twice", "has ended", "superseded"])
async def test_all_turns_of_a_deleted_task_are_forgotten_in_any_state(stores: Stores, state: str) -> None:
    """C16, C7: also a text that is incomplete, and messages after the deletion."""

    async def run(turn: Turn) -> AsyncIterator[Change]:
        yield Say(f"secret of {turn.text}")
        if state == "runs" and turn.text != "last":
            yield Text("half a secret")
            await asyncio.Event().wait()
        yield AskInput("which secret?") if state.startswith("ask") and turn.text != "last" else Complete("secret end")

    async with open_plane(stores, ("a", Scripted(run))) as plane:
        kept = await plane.run("last", context_id="c")
        reference = await plane.submit("secret one", context_id="c")
        task_id = reference.task.task_id
        if state == "runs":
            await eventually(lambda: plane.record(task_id), lambda record: "half a" in str(record.task))
        else:
            await plane.at_rest(reference)
        if state == "asked twice":
            await plane.run("secret two", task_id=task_id)
        if state == "superseded":
            await rewind(plane, invocation(await plane.task(task_id)))
        await delete_task(plane, task_id)
        await until(lambda: not plane.service.runs.active)
        if state == "superseded":
            await undo(plane)
        assert "secret one" not in await everything_of(stores) and "half a" not in await everything_of(stores)
        assert "secret two" not in await everything_of(stores) and "which" not in await everything_of(stores)
        assert await plane.conversation("c") == ["last", "secret of last", "secret end"]
        listed = await stores.tasks().ListTasks(tasks.ListTasksRequest(context_id="c", include_superseded=True))
        assert [record.id for record in listed.records] == [kept.id]


async def test_rewinds_undos_and_a_pushed_history_do_not_restore_a_deleted_task(stores: Stores) -> None:
    """C16, R3, R7, R8: in several orders."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        first, gone, third = [await plane.run(each, context_id="c", key=each) for each in ("one", "secret", "three")]
        shown = (await stores.sessions().GetSessionTask(sessions.GetSessionTaskRequest(context_id="c"))).task.history
        await delete_task(plane, gone.id)
        left = ["one", "answer to one", "three", "answer to three"]
        assert (await rewind(plane, invocation(gone))).rewound.task.status.state == a2a.TASK_STATE_FAILED
        assert await plane.conversation("c") == left
        await rewind(plane, invocation(third))
        assert await plane.conversation("c") == left[:2]
        await undo(plane)
        assert await plane.conversation("c") == left
        await rewind(plane, invocation(first))
        await undo(plane)
        assert await plane.conversation("c") == left
        await push(stores, shown)
        assert await pushed(stores) == left
        await rewind(plane, invocation(first))
        await undo(plane)
        assert await pushed(stores) == left
        assert "secret" not in await everything_of(stores)


async def push(stores: Stores, messages: Any) -> None:
    entry = sessions.Entry(
        id=said("").message_id, kind=sessions.ENTRY_KIND_PUSHED, pushed=sessions.Messages(messages=messages)
    )
    await stores.sessions().AppendEntries(sessions.AppendEntriesRequest(context_id="c", entries=[entry]))


def anonymous(messages: Any, *, ids: bool) -> list[a2a.Message]:
    """Messages of a runtime that names no turns, and that may have ids of its own."""
    found: list[a2a.Message] = []
    for message in messages:
        found.append(a2a.Message(message_id=message.message_id if ids else f"new {message.message_id}"))
        found[-1].role = message.role
        found[-1].parts.extend(message.parts)
    return found


async def pushed(stores: Stores) -> list[str]:
    request = sessions.GetSessionTaskRequest(context_id="c")
    return [text(message) for message in (await stores.sessions().GetSessionTask(request)).task.history]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("ids", [True, False], ids=["its ids", "its words"])
async def test_a_pushed_history_loses_the_messages_of_a_deleted_task(stores: Stores, when: str, ids: bool) -> None:
    """C16, R7: found by id, or without ids by words. Equal words of another task stay if the history has ids."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        kept, gone = await turns(plane, "yes", "secret")
        more = (await turns(plane, "yes"))[0]
        request = sessions.GetSessionTaskRequest(context_id="c")
        shown = (await stores.sessions().GetSessionTask(request)).task.history
        history = anonymous(shown, ids=ids)
        if when == "before":
            await push(stores, history)
        await delete_task(plane, gone.id)
        if when == "after":
            await push(stores, history)
        left = ["yes", "answer to yes"] * 2
        assert await pushed(stores) == left and "secret" not in await everything_of(stores)
        await delete_task(plane, more.id)
        assert await pushed(stores) == (left[:2] if ids else left)
        await push(stores, history)
        assert await pushed(stores) == (left[:2] if ids else left)
        assert kept.id


async def test_the_answer_to_a_repeated_push_has_no_deleted_words(stores: Stores) -> None:
    """C10, C16: the answer has the entry as stored."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        _, gone = await turns(plane, "kept", "secret")
        shown = (await stores.sessions().GetSessionTask(sessions.GetSessionTaskRequest(context_id="c"))).task.history
        pushed = sessions.Messages(messages=anonymous(shown, ids=True))
        entry = sessions.Entry(id="p", kind=sessions.ENTRY_KIND_PUSHED, pushed=pushed)
        request = sessions.AppendEntriesRequest(context_id="c", entries=[entry])
        await stores.sessions().AppendEntries(request)
        await delete_task(plane, gone.id)
        again = await stores.sessions().AppendEntries(request)
        assert (again.appended, [one.id for one in again.known]) == (0, ["p"])
        assert "kept" in str(again) and "secret" not in str(again)


@pytest.mark.parametrize("sweeping", [False, True])
async def test_a_repeat_under_the_key_of_a_deleted_turn_is_refused_and_creates_no_task(
    stores: Stores, sweeping: bool
) -> None:
    """C10, C16: for a new turn and for a further message, with sweeps and without."""

    async def run(turn: Turn) -> AsyncIterator[Change]:
        yield AskInput("which?") if turn.text == "secret" else Complete("done")

    agent = Scripted(run)
    async with open_plane(stores, ("a", agent), **(SWEEPING if sweeping else {})) as plane:
        await plane.run("kept", context_id="c")
        one = await plane.run("secret", key="k", message_id="m", context_id="c")
        await plane.run("more", key="l", message_id="n", context_id="c", task_id=one.id)
        await delete_task(plane, one.id)
        if sweeping:
            wanted = stores.calls.get("ListUnsettled", 0) + 3
            await until(lambda: stores.calls.get("ListUnsettled", 0) > wanted)
        ran = len(agent.turns)
        for _ in range(2):
            assert await refused(plane.submit("secret", key="k", message_id="m", context_id="c")) == "TASK_DELETED"
            again = plane.submit("more", key="l", message_id="n", context_id="c", task_id=one.id)
            assert await refused(again) == "TASK_DELETED"
        minted = {"create_unknown_task": True}
        again = plane.submit("anew", context_id="c", task_id=one.id, more=minted)
        assert await refused(again) == "TASK_DELETED"
        listed = (await stores.tasks().ListTasks(tasks.ListTasksRequest(context_id="c"))).records
        assert len(listed) == 1 and len(agent.turns) == ran
        assert await plane.conversation("c") == ["kept", "done"]


@pytest.mark.parametrize("place", ["void", "task"])
async def test_an_interrupted_deletion_is_finished_by_a_repeat_and_by_the_sweep(stores: Stores, place: str) -> None:
    """C16: from the void on no answer shows the task; a sweep deletes it."""

    async def fail(request: Any) -> None:
        raise Unavailable("the store is away")

    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        kept, gone, other = await turns(plane, "one", "secret", "last")
        for each in (gone, other):
            stores.channel.before["DeleteTask" if place == "void" else "MarkApplied"] = fail
            with pytest.raises(Unavailable) if place == "void" else nullcontext():
                await delete_task(plane, each.id)
            assert text(each.history[0]) not in await everything_of(stores)
            stores.channel.before.clear()
            if each is gone:
                if place == "void":
                    await delete_task(plane, each.id)
                assert await refused(plane.record(each.id)) == "TASK_NOT_FOUND"
        assert await plane.conversation("c") == ["one", "answer to one"]
        assert (await session_of(stores)).applied_seq < (await session_of(stores)).steered_seq
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        await eventually(lambda: session_of(stores), lambda one: one.applied_seq == one.steered_seq)
        assert await refused(plane.record(other.id)) == "TASK_NOT_FOUND"
        assert await plane.conversation("c") == ["one", "answer to one"]
        assert (await plane.record(kept.id)).id == kept.id


async def session_of(stores: Stores) -> sessions.Session:
    return (await stores.sessions().GetSession(sessions.GetSessionRequest(context_id="c"))).session


async def test_a_task_created_by_a_late_call_after_its_deletion_is_deleted_again(stores: Stores) -> None:
    """C10, C16: its executor repeats CreateTask after a lost answer; the session refuses the turn."""
    held = Held(stores, "CreateTask")
    async with open_plane(stores, ("a", Scripted(answer)), **SWEEPING) as plane:
        call = asyncio.ensure_future(plane.submit("secret", key="k", message_id="m", context_id="c"))
        await held.reached.wait()
        turn = (await eventually(lambda: log_of(stores), lambda entries: len(entries) > 1))[0].invocation_id
        deleted = sessions.DeletedTask(invocation_ids=[turn])
        void = sessions.Entry(id="void", kind=sessions.ENTRY_KIND_VOID, task_id="gone", target=turn, deleted=deleted)
        request = sessions.AppendEntriesRequest(context_id="c", entries=[void], openings=["secret"])
        await stores.sessions().AppendEntries(request)
        held.let_go.set()
        await asyncio.wait([call])
        await until(lambda: not plane.service.runs.active)
        await eventually(lambda: tasks_of(stores), lambda found: not found)
        assert "secret" not in await everything_of(stores)


async def log_of(stores: Stores) -> list[sessions.Entry]:
    try:
        return list((await stores.sessions().ListEntries(sessions.ListEntriesRequest(context_id="c"))).entries)
    except NotFound:
        return []


async def tasks_of(stores: Stores, context_id: str = "c") -> list[str]:
    listed = await stores.tasks().ListTasks(tasks.ListTasksRequest(context_id=context_id, include_superseded=True))
    return [record.id for record in listed.records]


async def test_a_message_of_a_task_deleted_before_it_was_saved_is_refused(stores: Stores) -> None:
    """C16: both stores write at once, and the session begins with the void."""
    held = Held(stores, "AppendEntries")
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        call = asyncio.ensure_future(plane.submit("secret"))
        await held.reached.wait()
        (task_id,) = await eventually(lambda: tasks_of(stores, ""), lambda found: len(found) == 1)
        context_id = (await plane.record(task_id)).context_id
        del stores.channel.before["AppendEntries"]
        await delete_task(plane, task_id)
        held.let_go.set()
        assert await refused(call) == "TASK_DELETED"
        await until(lambda: not plane.service.runs.active)
        assert await tasks_of(stores, "") == [] and await plane.conversation(context_id) == []
        assert "secret" not in await everything_of(stores, context_id)


async def test_events_and_state_of_a_deleted_turn_are_removed(stores: Stores) -> None:
    """R12, C16: also the state that a rewind restored, and the words with which a rewind began the turn."""

    async def run(turn: Turn) -> AsyncIterator[Change]:
        await turn.session.append({"actions": {"state_delta": {"word": turn.text}}, "text": turn.text})
        yield Complete(f"answer to {turn.text}")

    async with open_plane(stores, ("a", Scripted(run))) as plane:
        kept = await plane.run("kept", context_id="c")
        first = await plane.run("gone", context_id="c")
        begun = await rewind(plane, invocation(first), "secret")
        task = await plane.reaches(begun.rewound.next.task_id, 3)
        asked = sessions.GetStateRequest(context_id="c")
        assert (await stores.sessions().GetState(asked)).state["word"] == "secret"
        await delete_task(plane, task.id)
        assert "secret" not in await everything_of(stores)
        assert (await stores.sessions().GetState(asked)).state["word"] == "kept"
        assert (
            await refused(
                stores.sessions().AppendEntries(
                    sessions.AppendEntriesRequest(
                        context_id="c",
                        entries=[
                            sessions.Entry(
                                id="late", kind=sessions.ENTRY_KIND_EVENT, invocation_id=invocation(task), data="{}"
                            )
                        ],
                    )
                )
            )
            == "TASK_DELETED"
        )
        assert kept.id


async def test_a_later_page_of_an_older_listing_does_not_show_a_deleted_task(stores: Stores) -> None:
    """C16: positions and counts stay, without the words."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        _, gone, _ = await turns(plane, "one", "secret", "three")
        asked = sessions.ListEntriesRequest(context_id="c", effective=True, page_size=2)
        asked.page_token = (await stores.sessions().ListEntries(asked)).next_page_token
        await delete_task(plane, gone.id)
        page = await stores.sessions().ListEntries(asked)
        assert [entry.withheld for entry in page.entries] == [True, True] and "secret" not in str(page)
        asked.page_token = page.next_page_token
        page = await stores.sessions().ListEntries(asked)
        assert [text(entry.message) for entry in page.entries] == ["three", "answer to three"]


async def test_a_deletion_by_another_owner_or_directly_in_the_task_store_is_refused(stores: Stores) -> None:
    """C16, I3: so each deletion also removes the words from the session."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        task = await plane.run("go", context_id="c")
        with pytest.raises(NotFound):
            await plane.executor(BOB).DeleteTask(pb.DeleteTaskRequest(task_id=task.id))
        request = tasks.DeleteTaskRequest(task_id=task.id)
        assert await refused(stores.tasks().DeleteTask(request)) == "SERVICE_ONLY"
        with pytest.raises(Conflict):
            await stores.tasks(SERVICE).DeleteTask(tasks.DeleteTaskRequest(task_id=task.id, expected_generation=1))
        assert await plane.conversation("c") == ["go", "answer to go"]


async def test_a_void_of_a_deleted_task_cannot_be_taken_back(stores: Stores) -> None:
    """C16: nor by entries written to the session directly."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        task = await plane.run("secret", context_id="c")
        turn = invocation(task)
        await delete_task(plane, task.id)
        off = sessions.Entry(id="off", kind=sessions.ENTRY_KIND_VOID, invocation_id=turn, target=turn, off=True)
        late = sessions.Entry(
            id="late",
            kind=sessions.ENTRY_KIND_MESSAGE,
            invocation_id="t",
            task_invocation_id=turn,
            message=said("secret"),
        )
        in_task = sessions.Entry(
            id="in", kind=sessions.ENTRY_KIND_MESSAGE, invocation_id="t", task_id=task.id, message=said("secret")
        )
        for entry in (off, late, in_task):
            request = sessions.AppendEntriesRequest(context_id="c", entries=[entry])
            assert await refused(stores.sessions().AppendEntries(request)) == "TASK_DELETED"
        with pytest.raises(Refused):
            await stores.sessions().TouchSession(sessions.TouchSessionRequest(context_id="c", task_id=task.id))
        assert await plane.conversation("c") == []


async def test_retention_adds_no_voids(stores: Stores) -> None:
    """C16: the session is deleted together with its tasks, so no void is needed."""
    async with open_plane(stores, ("a", Scripted(answer))) as plane:
        await plane.run("one", context_id="c")
        await plane.executor().DeleteSession(pb.DeleteSessionRequest(context_id="c"))
        assert await tasks_of(stores) == []
        await plane.run("two", context_id="c")
        assert await plane.conversation("c") == ["two", "answer to two"]
