"""Copies of messages while an agent works: a session is a moment behind its tasks, and no message is marked as copied
too early."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.executor.plane import ANN, SERVICE, Held, Plane, Stores, eventually, open_plane, said, text, until
from tests.executor.rewinding import answer, invocation, rewind, texts, turns
from tests.executor.scripted import Scripted
from tests.executor.test_deletion import submit_under_deletion, there

from taskplane.agents.agent import AskInput, Change, Complete, Fail, Say, Text, ToolCall, ToolResult, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import NotFound, Unavailable

STATUS = tasks.EVENT_KIND_STATUS


class Steps:
    """An agent that yields the changes of a test one after the other."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[Change] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        try:
            while True:
                change = await self.changes.get()
                yield change
                if isinstance(change, (Complete, Fail, AskInput)):
                    return
        finally:
            self.closed.set()

    def say(self, *changes: Change) -> None:
        for change in changes:
            self.changes.put_nowait(change)


class Copies:
    """Copies on their way into the session: a test can hold or refuse them."""

    def __init__(self, stores: Stores) -> None:
        self.seen: list[list[str]] = []
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.down = False
        self.at_once = 0
        self._now = 0
        stores.channel.before["AppendEntries"] = self._pass

    async def _pass(self, request: sessions.AppendEntriesRequest) -> None:
        copies = [entry for entry in request.entries if entry.message.role == a2a.ROLE_AGENT]
        if not copies:
            return
        self.seen.append([text(entry.message) for entry in copies])
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        try:
            await self.let_go.wait()
            if self.down:
                raise Unavailable("sessions are down")
        finally:
            self._now -= 1


async def spoken(plane: Plane, task_id: str, count: int) -> None:
    """Waits until the log has so many messages of the agent."""

    async def messages() -> int:
        return sum(event.speaks for event in await plane.events(task_id, STATUS))

    await eventually(messages, lambda found: found >= count)


def nothing_is_copied() -> bool:
    return not any(task.get_name().startswith("copy of task") for task in asyncio.all_tasks())


async def test_the_messages_of_a_running_task_are_copied_into_its_session(stores: Stores) -> None:
    """C6: whole messages, calls and results of tools and closed texts; nothing of a growing text."""
    agent = Steps()
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        agent.say(Say("one"), Text("tw"), Text("o"), ToolCall("1", "f", {}), ToolResult("1", "f", {}), Text("thr"))
        found = await eventually(lambda: plane.entries("c", effective=True), lambda found: len(found) == 5)
        assert [text(entry.message) for entry in found] == ["go", "one", "two", "", ""]
        assert (await plane.record(reference.task.task_id)).state == a2a.TASK_STATE_WORKING
        agent.say(Complete())
        await plane.at_rest(reference)
        assert (await plane.conversation("c"))[-1] == "thr"
    assert nothing_is_copied()


async def test_messages_during_a_copy_are_copied_together_by_the_next_one(stores: Stores) -> None:
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        copies.let_go.clear()
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        for number, words in enumerate(("two", "three", "four"), start=2):
            agent.say(Say(words))
            await spoken(plane, reference.task.task_id, number)
        assert copies.seen == [["one"]]
        copies.let_go.set()
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 5)
        assert copies.seen == [["one"], ["two", "three", "four"]] and copies.at_once == 1
        agent.say(Complete("five"))
        await plane.at_rest(reference)
        assert copies.seen[2:] == [["five"]] and copies.at_once == 1


@pytest.mark.parametrize("final", [Complete("two"), Complete(), AskInput("two")])
async def test_an_end_and_a_pause_wait_for_the_current_copy(stores: Stores, final: Change) -> None:
    """C6: a reader that sees the end can read all messages, including those in mid-run."""
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        copies.let_go.clear()
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        agent.say(final)
        if final != Complete():
            await spoken(plane, reference.task.task_id, 2)
        else:
            await until(agent.changes.empty)
        assert (await plane.record(reference.task.task_id)).state == a2a.TASK_STATE_WORKING
        copies.let_go.set()
        await plane.at_rest(reference)
        wanted = ["go", "one"] if final == Complete() else ["go", "one", "two"]
        assert await plane.conversation("c") == wanted
        assert copies.seen == [[words] for words in wanted[1:]] and copies.at_once == 1


async def test_the_messages_of_a_failed_copy_are_in_the_next_copy(stores: Stores) -> None:
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        copies.down = True
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        agent.say(Say("two"))
        await until(lambda: len(copies.seen) == 2)
        assert await plane.conversation("c") == ["go"]
        copies.down = False
        agent.say(Say("three"))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 4)
        assert copies.seen[-1] == ["one", "two", "three"]
        agent.say(Complete())
        await plane.at_rest(reference)


async def test_a_copy_is_marked_by_the_next_append(stores: Stores) -> None:
    """C6: only copied messages are marked as copied, and a copy during a run needs no extra call for the mark."""
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        copies.let_go.clear()
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        agent.say(Say("two"))
        await spoken(plane, reference.task.task_id, 2)
        record = await plane.record(reference.task.task_id)
        assert record.copied_generation == 0 and record.message_generation > 1
        copies.let_go.set()
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 3)
        # The run gets the answer to the copy of the second message a moment after the copy can be read.
        await until(nothing_is_copied)
        agent.say(Say("three"))
        await spoken(plane, reference.task.task_id, 3)
        record = await eventually(
            lambda: plane.record(reference.task.task_id), lambda record: record.copied_generation > 0
        )
        events = [event for event in await plane.events(record.id, STATUS) if event.speaks]
        assert record.copied_generation == events[1].generation
        assert "MarkCopied" not in stores.calls
        agent.say(Complete())
        await plane.at_rest(reference)
        record = await plane.record(record.id)
        assert record.copied_generation == record.message_generation


async def add_uncopied(stores: Stores, reference: pb.SubmitResponse, words: str) -> None:
    """Adds a further message that is not copied, as after the death of the executor that took it."""
    message = tasks.AddMessageRequest(
        task_id=reference.task.task_id, invocation_id=words, request_hash=b"h" * 32, message=said(words)
    )
    await stores.tasks(ANN).AddMessage(message)


async def test_messages_of_the_user_are_copied_in_their_place_between_those_of_the_run(stores: Stores) -> None:
    """C6: messages that the run did not append are read from the log, once; then the run remembers its own again."""
    agent = Steps()
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        agent.say(Say("one"))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 2)
        await add_uncopied(stores, reference, "and?")
        agent.say(Say("two"))
        found = await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 4)
        assert found == ["go", "one", "and?", "two"]
        await until(nothing_is_copied)
        read = stores.calls["ListEvents"]
        for words in ("three", "four"):
            agent.say(Say(words))
            await eventually(lambda: plane.conversation("c"), lambda found: found[-1] == words)  # noqa: B023
        assert stores.calls["ListEvents"] == read
        agent.say(Complete(), Complete())
        await plane.at_rest(reference)


async def test_a_message_under_the_key_of_another_turn_is_copied_under_a_new_id(stores: Stores) -> None:
    """C6: the others of its batch keep their ids, so that a repeated copy changes nothing."""
    agent = Steps()
    other = sessions.Entry(id="first", kind=sessions.ENTRY_KIND_MESSAGE, invocation_id="first", message=said("other"))
    await stores.sessions().AppendEntries(
        sessions.AppendEntriesRequest(context_id="other", entries=[other], create=sessions.NewSession(agent="a"))
    )
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        for words in ("zeroth", "first", "second"):
            await add_uncopied(stores, reference, words)
        agent.say(Say("one"))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 5)
        record = await plane.record(reference.task.task_id)
        entries = [entry for entry in await plane.entries("c", effective=True) if entry.message.role == a2a.ROLE_USER]
        (started, *_) = await plane.events(record.id)
        renamed = f"{record.uid}-{entries[2].generation}"
        assert [entry.id for entry in entries] == [started.invocation_id, "zeroth", renamed, "second"]
        assert entries[2].invocation_id == "first"
        agent.say(*[Complete()] * 4)
        await plane.at_rest(reference)
        assert await plane.conversation("c") == ["go", "zeroth", "first", "second", "one"]


@pytest.mark.parametrize("how", ["canceled", "lost", "drained", "erased"])
async def test_a_run_that_is_stopped_leaves_no_copy_running(stores: Stores, how: str) -> None:
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run)), drain_timeout=0.0) as plane:
        reference = await plane.submit("go", context_id="c")
        task_id = reference.task.task_id
        copies.let_go.clear()
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        if how == "canceled":
            await stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        elif how == "lost":
            (run,) = plane.service.runs.active
            plane.service.runs.stop(run, "a test takes its lease")
        elif how == "erased":
            await stores.tasks(SERVICE).DeleteTask(tasks.DeleteTaskRequest(task_id=task_id))
        else:
            await plane.service.drain()
        await until(lambda: not plane.service.runs.active)
        assert nothing_is_copied()
        copies.let_go.set()
        if how == "canceled":
            # The cleanup after the run copies the messages.
            await eventually(lambda: plane.conversation("c"), lambda found: found == ["go", "one"])


async def test_messages_before_a_failure_are_copied_with_the_failure(stores: Stores) -> None:
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        reference = await plane.submit("go", context_id="c")
        copies.let_go.clear()
        agent.say(Say("one"))
        await until(lambda: copies.seen == [["one"]])
        agent.say(Fail("no"))
        # A failure does not wait for the session.
        await plane.at_rest(reference)
        copies.let_go.set()
        await eventually(lambda: plane.conversation("c"), lambda found: found == ["go", "one", "no"])
        record = await eventually(
            lambda: plane.record(reference.task.task_id), lambda r: r.copied_generation == r.message_generation
        )
        assert record.state == a2a.TASK_STATE_FAILED


async def test_a_task_created_during_the_deletion_of_its_session_is_deleted_in_mid_run(stores: Stores) -> None:
    """S4, C6: no message is marked as copied, even if the session is created again, and the task is deleted too."""
    agent, copies = Steps(), Copies(stores)
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        agent.say(Say("one"))
        task_id = await submit_under_deletion(plane)
        await until(lambda: copies.seen == [["one"]] and nothing_is_copied())
        assert await there(plane) == (False, [task_id])
        await stores.sessions().CreateSession(sessions.CreateSessionRequest(context_id="c"))
        agent.say(Say("two"))
        await spoken(plane, task_id, 2)
        await until(nothing_is_copied)
        agent.say(Complete("three"))
        await agent.closed.wait()
        await eventually(lambda: there(plane), lambda found: found == (True, []))
        with pytest.raises(NotFound):
            await plane.task(task_id)
        assert copies.seen == [["one"]]


async def test_a_turn_cut_before_its_task_was_created_is_stopped_at_its_first_message(stores: Stores) -> None:
    """R4: a run that did not read its history finds the rewind at its first copy."""
    agent = Steps()
    async with open_plane(stores, ("a", Scripted(agent.run))) as plane:
        held = Held(stores, "CreateTask")
        sending = asyncio.create_task(plane.submit("one", context_id="c"))
        await held.reached.wait()
        (user, _) = await eventually(lambda: saved(plane), lambda found: len(found) == 2)
        await rewind(plane, user.invocation_id)
        held.let_go.set()
        reference = await sending
        agent.say(Say("one"))
        record = await eventually(lambda: plane.record(reference.task.task_id), lambda record: record.superseded)
        assert record.state == a2a.TASK_STATE_CANCELED
        await until(lambda: not plane.service.runs.active)
        assert await plane.conversation("c") == []


async def saved(plane: Plane) -> list[sessions.Entry]:
    try:
        return list(await plane.entries("c"))
    except NotFound:
        return []


async def test_a_rewind_during_the_run_of_an_earlier_task_shows_the_messages_of_that_task(stores: Stores) -> None:
    """R4: a later turn is rewound; the session task has every message of the earlier one, in order."""
    agent = Steps()
    async with open_plane(stores, ("runs", Scripted(agent.run)), ("a", Scripted(answer))) as plane:
        reference = await plane.submit("go", context_id="c", agent="runs")
        agent.say(Say("one"))
        await eventually(lambda: plane.conversation("c"), lambda found: found == ["go", "one"])
        (later,) = await turns(plane, "later", agent="a")
        agent.say(Say("two"))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 5)
        rewound = await rewind(plane, invocation(later))
        assert texts(rewound.rewound.task) == ["go", "one", "two"]
        agent.say(Complete("three"))
        await plane.at_rest(reference)
        assert await plane.conversation("c") == ["go", "one", "two", "three"]


async def test_a_history_leaves_out_a_tool_call_without_a_result(stores: Stores) -> None:
    """A model refuses a history with an open call. Open calls of the task itself stay in it for the agent."""
    calls, asked = Steps(), Scripted(answer)
    both = a2a.Message(parts=[a2a.Part(text="looking"), *tool("call", "2").parts, *tool("call", "3").parts])

    async def ask(turn: Turn) -> AsyncIterator[Change]:
        if len(own.turns) == 1:
            yield ToolCall("mine", "f", {})
            yield AskInput("may I?")

    own = Scripted(ask)
    async with open_plane(stores, ("calls", Scripted(calls.run)), ("a", asked), ("own", own)) as plane:
        reference = await plane.submit("go", context_id="c", agent="calls")
        calls.say(ToolCall("1", "f", {}), Say(both), Say(tool("response", "3")))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 4)
        await plane.run("now?", context_id="c", agent="a")
        history = asked.turns[0].history
        assert [text(message) for message in history] == ["go", "looking", ""]
        assert [data_ids(message) for message in history] == [[], ["3"], ["3"]]
        calls.say(ToolResult("1", "f", {}), ToolResult("2", "f", {}))
        await eventually(lambda: plane.conversation("c"), lambda found: len(found) == 8)
        await plane.run("and now?", context_id="c", agent="a")
        assert [data_ids(message) for message in asked.turns[1].history] == [
            [],
            ["1"],
            ["2", "3"],
            ["3"],
            ["1"],
            ["2"],
            [],
            [],
        ]
        calls.say(Complete())
        await plane.at_rest(reference)
        paused = await plane.run("ask", context_id="d", agent="own")
        await plane.submit("yes", task_id=paused.id, agent="own")
        await plane.reaches(paused.id, a2a.TASK_STATE_COMPLETED)
        assert [data_ids(message) for message in own.turns[1].history] == [[], ["mine"], []]


def tool(kind: str, call_id: str) -> a2a.Message:
    """Returns a message of one call or response."""
    message = a2a.Message(parts=[a2a.Part()])
    part = message.parts[0]
    part.data.struct_value.update({"id": call_id, "name": "f"})
    part.metadata["adk_type"] = f"function_{kind}"
    return message


def data_ids(message: a2a.Message) -> list[str]:
    return [part.data.struct_value.fields["id"].string_value for part in message.parts if part.HasField("data")]
