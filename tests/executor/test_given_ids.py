"""Messages under ids that agents give: all are kept, and a growing one is shown once, in its newest form."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import a2a_pb2 as sdk
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from tests.executor.plane import Plane, Stores, eventually, open_plane, text
from tests.executor.scripted import Scripted
from tests.support.sdk_server import sdk_server

from taskplane.agents.adapters import adapt
from taskplane.agents.adapters.remote import RemoteAgent
from taskplane.agents.agent import (
    ArtifactChunk,
    AskInput,
    Change,
    Complete,
    Fail,
    Message,
    Part,
    Policy,
    Say,
    Text,
    ToolCall,
    Turn,
    Working,
)
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks

C = "c"
# The messages of a turn, the last of which ends it; a text in brackets is a call of a tool.
Words = Sequence[str]
Adapted = Callable[[Callable[[str], Words], str], Any]


def named(words: str, message_id: str = "reply") -> Message:
    return Message(message_id=message_id, role=a2a.ROLE_AGENT, parts=[Part(text=words)])


def of_port(words_for: Callable[[str], Words], message_id: str) -> Any:
    async def script(turn: Turn) -> AsyncIterator[Change]:
        *before, last = words_for(turn.text)
        for words in before:
            yield ToolCall("1", words, {}) if words.startswith("[") else Say(named(words, message_id))
        yield Complete(named(last, message_id))

    return Scripted(script)


def of_function(words_for: Callable[[str], Words], message_id: str) -> Any:
    async def function(words: str) -> AsyncGenerator[Any]:
        for each in words_for(words):
            yield ToolCall("1", each, {}) if each.startswith("[") else Say(named(each, message_id))

    return adapt(function, "a")


class Executor(AgentExecutor):
    def __init__(self, words_for: Callable[[str], Words], message_id: str) -> None:
        self._words_for = words_for
        self._id = message_id

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(context.current_task or new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        for words in self._words_for(context.get_user_input()):
            message_id = "tool" if words.startswith("[") else self._id
            message = sdk.Message(message_id=message_id, role=sdk.ROLE_AGENT, parts=[sdk.Part(text=words)])
            await task.start_work(message)
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise AssertionError("nothing is canceled")


def of_sdk(words_for: Callable[[str], Words], message_id: str) -> Any:
    return adapt(Executor(words_for, message_id), "a")


class Adk(BaseAgent):
    words_for: Callable[[str], Words]
    message_id: str

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event]:
        assert ctx.user_content is not None and ctx.user_content.parts
        for words in self.words_for(ctx.user_content.parts[0].text or ""):
            part = types.Part(text=words)
            if words.startswith("["):
                part = types.Part.from_function_call(name="tool", args={})
            event_id = self.message_id if part.text else Event.new_id()
            content = types.Content(role="model", parts=[part])
            yield Event(id=event_id, author=self.name, invocation_id=ctx.invocation_id, content=content)


def of_adk(words_for: Callable[[str], Words], message_id: str) -> Any:
    return adapt(Adk(name="a", words_for=words_for, message_id=message_id), "a")


def of_graph(words_for: Callable[[str], Words], message_id: str) -> Any:
    def node(state: MessagesState) -> dict[str, Any]:
        write = get_stream_writer()
        for words in words_for(str(state["messages"][-1].text)):
            write(ToolCall("1", words, {}) if words.startswith("[") else Say(named(words, message_id)))
        return {"messages": []}

    built: Any = StateGraph(MessagesState)
    return adapt(built.add_node("node", node).add_edge(START, "node").compile(), "a")


AGENTS: dict[str, Adapted] = {
    "port": of_port,
    "function": of_function,
    "a2a-sdk": of_sdk,
    "adk": of_adk,
    "langgraph": of_graph,
}


@asynccontextmanager
async def plane_of(
    stores: Stores, kind: str, words_for: Callable[[str], Words], message_id: str = "reply"
) -> AsyncGenerator[Plane]:
    async with AsyncExitStack() as stack:
        if kind == "remote":
            server = await stack.enter_async_context(sdk_server(Executor(words_for, message_id)))
            agent: Any = await asyncio.to_thread(lambda: RemoteAgent(server.url))
        else:
            agent = AGENTS[kind](words_for, message_id)
        yield await stack.enter_async_context(open_plane(stores, ("a", agent)))


def texts(messages: Sequence[a2a.Message]) -> list[str]:
    return [text(message) or "[tool]" for message in messages]


def whole(task: a2a.Task) -> list[a2a.Message]:
    """The messages of a task, as `/api` shows them."""
    told = list(task.history)
    if task.status.HasField("message") and task.status.message.message_id not in {one.message_id for one in told}:
        told.append(task.status.message)
    return told


async def shown(plane: Plane) -> list[a2a.Message]:
    """Returns the messages of the session: the same in its session task, its pages, its tasks and the next prompt."""
    session_log = plane.stores.sessions()
    task = (await session_log.GetSessionTask(sessions.GetSessionTaskRequest(context_id=C))).task
    request = sessions.ListEntriesRequest(context_id=C, effective=True, distinct=True)
    pages = [entry.message for entry in (await session_log.ListEntries(request)).entries]
    ids = (await session_log.ListMessageIds(sessions.ListMessageIdsRequest(context_id=C))).message_ids
    of_tasks = (
        await plane.stores.tasks().ListMessages(tasks.ListMessagesRequest(context_id=C, page_size=100))
    ).messages
    expected = [(one.message_id, text(one)) for one in task.history]
    assert len(set(ids)) == len(ids)
    for told in (pages, of_tasks):
        assert [(one.message_id, text(one)) for one in told] == expected
    assert list(ids) == [name for name, _ in expected]
    return list(task.history)


@pytest.mark.parametrize("kind", [*AGENTS, "remote"])
async def test_answers_under_one_id_are_all_kept(stores: Stores, kind: str) -> None:
    """T12, T6: in several turns, and several in one turn; equal in the log, in its copy and in reads."""
    async with plane_of(stores, kind, lambda words: ["looking", "[tool]", f"answer to {words}"]) as plane:
        done = [await plane.run(words, context_id=C) for words in ("one", "two")]
        tool = "[tool]"
        assert texts(await shown(plane)) == [
            *("one", "looking", tool, "answer to one"),
            *("two", "looking", tool, "answer to two"),
        ]
        assert [texts(whole(task)) for task in done] == [
            ["one", "looking", tool, "answer to one"],
            ["two", "looking", tool, "answer to two"],
        ]
        logged = [event for task in done for event in await plane.events(task.id, tasks.EVENT_KIND_STATUS)]
        told = [event.event.status_update.status.message for event in logged if event.speaks]
        assert [one.message_id for one in told] == [one.message_id for one in await shown(plane) if one.role == 2]
        assert told[0].message_id == "reply" or kind == "adk"


# Each event of ADK has its own id, independent of the agent.
@pytest.mark.parametrize("kind", [*(kind for kind in AGENTS if kind != "adk"), "remote"])
async def test_a_text_that_grows_under_one_id_is_shown_in_its_newest_form(stores: Stores, kind: str) -> None:
    """T12: in the task, in the session and in the next turn."""
    steps = ["The", "The answer", "The answer", "The answer is 42"]
    async with plane_of(stores, kind, lambda words: steps if words == "grow" else ["well"], "m") as plane:
        task = await plane.run("grow", context_id=C)
        assert texts(whole(task)) == ["grow", "The answer is 42"]
        assert texts(await shown(plane)) == ["grow", "The answer is 42"]
        await plane.run("next", context_id=C)
        assert texts(await shown(plane)) == ["grow", "The answer is 42", "next", "well"]


Yielded = Sequence[Change]


def called() -> Message:
    """Returns a call of a tool in the form of another runtime, under the id of its texts."""
    part = Part(data=value_of({"id": "1", "name": "t", "args": {}}))
    part.metadata.fields["kagent_type"].string_value = "function_call"
    return Message(message_id="reply", role=a2a.ROLE_AGENT, parts=[part])


GROWTH: dict[str, tuple[Yielded, list[str]]] = {
    "status between": ([Say(named("A")), Working("..."), Say(named("AB"))], ["AB"]),
    "artifact between": ([Say(named("A")), ArtifactChunk("a", text="x"), Say(named("AB"))], ["AB"]),
    "replaced": ([Say(named("A")), Say(named("B"))], ["B"]),
    "completed with more": ([Say(named("A")), Complete(named("AB"))], ["AB"]),
    "completed with the same": ([Say(named("A")), Complete(named("A"))], ["A"]),
    "asked with more": ([Say(named("A")), AskInput(named("AB"))], ["AB"]),
    "back again": ([Say(named("A")), Say(named("AB")), Say(named("A"))], ["A"]),
    "message between": ([Say(named("A")), Say("x"), Say(named("AB"))], ["A", "x", "AB"]),
    "text between": ([Say(named("A")), Text("x"), Say(named("AB"))], ["A", "x", "AB"]),
    "tool between": ([Say(named("A")), ToolCall("1", "t", {}), Say(named("AB"))], ["A", "[tool]", "AB"]),
    "tool of a peer between": ([Say(named("A")), Say(called()), Say(named("AB"))], ["A", "[tool]", "AB"]),
    "repeated later": ([Say(named("A")), Say("x"), Say(named("A"))], ["A", "x"]),
    "repeated at the end": ([Say(named("A")), Say("x"), Complete(named("A"))], ["A", "x"]),
    "grows under its own id": (
        [Say(named("A")), Say("x"), Say(named("B")), Say(named("BC"))],
        ["A", "x", "BC"],
    ),
    "failed": ([Say(named("A")), Fail(named("B"))], ["A", "B"]),
    "id of the user": ([Say(named("A", "u")), Complete(named("AB", "u"))], ["AB"]),
}


@pytest.mark.parametrize("case", GROWTH)
async def test_a_message_grows_until_another_message_follows(stores: Stores, case: str) -> None:
    """T12: after another message the id begins a new message; an equal text is a repeat."""
    changes, expected = GROWTH[case]

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for change in changes:
            yield change

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go", context_id=C, message_id="u")
        assert texts(whole(task)) == ["go", *expected]
        await eventually(lambda: plane.record(task.id), lambda it: it.copied_generation >= it.message_generation)
        assert texts(await shown(plane)) == ["go", *expected]


async def test_a_message_that_grew_is_copied_once_in_its_newest_form(stores: Stores) -> None:
    """T12, C13: the copy of the run is complete."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        for words in ("The", "The answer"):
            yield Say(named(words))
        yield Complete(named("The answer is 42"))

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("go", context_id=C)
        record = await plane.record(task.id)
        told = [event for event in await plane.events(task.id) if event.speaks]
        assert record.copied_generation == told[-1].generation
        assert texts(await shown(plane)) == ["go", "The answer is 42"]


async def test_concurrent_runs_keep_their_answers_apart(stores: Stores) -> None:
    """T12, M1: the history of each has no answers of the other."""
    both = asyncio.Barrier(2)

    async def script(turn: Turn) -> AsyncIterator[Change]:
        await both.wait()
        yield Complete(named(f"answer to {turn.text}"))

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        await plane.submit("hello", context_id="other")
        begun = [await plane.submit("one", context_id=C)]
        begun += [await plane.submit("two", context_id=C) for _ in range(2)]
        for each in begun:
            await plane.at_rest(each)
        assert sorted(texts(await shown(plane))) == [
            "answer to one",
            "answer to two",
            "answer to two",
            "one",
            "two",
            "two",
        ]


async def test_answers_of_several_turns_of_one_task_are_all_kept(stores: Stores) -> None:
    """T12, I1: also under the ids of the user's messages, and the same answer in each."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say(named("yes", turn.message.message_id))
        yield AskInput(named("and?"))

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        task = await plane.run("one", context_id=C)
        await plane.run("two", task_id=task.id)
        await plane.run("three", task_id=task.id)
        expected = [word for words in ("one", "two", "three") for word in (words, "yes", "and?")]
        assert texts(await shown(plane)) == expected
        assert texts(whole(await plane.task(task.id))) == expected


async def test_a_repeated_attempt_stores_its_own_messages(stores: Stores) -> None:
    """T12, C8: the messages of the lost attempt stay, marked as lost."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Say(named("begun"))
        if len(agent.turns) == 1:
            reached.set()
            await asyncio.Event().wait()
        yield Say("then")
        yield Complete(named("done"))

    reached = asyncio.Event()
    agent = Scripted(script, policy=Policy(on_orphan="rerun"))
    async with open_plane(stores, ("a", agent), drain_timeout=0.0) as plane:
        begun = await plane.submit("go", context_id=C)
        await reached.wait()
        await eventually(lambda: plane.conversation(C), lambda told: told == ["go", "begun"])
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.at_rest(begun)
        told = [message for message in whole(task) if "taskplane.dev/lost_attempt" not in message.metadata.fields]
        assert texts(told) == ["go", "begun", "then", "done"]
        assert texts(whole(task)) == ["go", "begun", "begun", "then", "done"]


@pytest.mark.parametrize("at_sight", [False, True])
async def test_direct_answers_under_one_id_are_all_kept(stores: Stores, at_sight: bool) -> None:
    """T12, C5: also under the id of the user's message; the sender gets the stored id."""

    class Router(Scripted):
        routes_at_sight = at_sight

        async def route(self, turn: Turn) -> Message:
            if not at_sight:
                await asyncio.sleep(0)
            return named(f"answer to {turn.text}", turn.message.message_id if turn.text == "three" else "reply")

    async def script(turn: Turn) -> AsyncIterator[Change]:
        raise AssertionError("it answers directly")
        yield

    async with open_plane(stores, ("a", Router(script))) as plane:
        answers = [(await plane.submit(words, context_id=C)).message for words in ("one", "two", "three")]
        task = (await stores.sessions().GetSessionTask(sessions.GetSessionTaskRequest(context_id=C))).task
        assert texts(task.history) == [word for n in ("one", "two", "three") for word in (n, f"answer to {n}")]
        assert [one.message_id for one in answers] == [one.message_id for one in task.history if one.role == 2]
        assert answers[0].message_id == "reply"
        repeats = [(await plane.submit("four", context_id=C, message_id="4", key="k")).message for _ in range(2)]
        assert repeats[0].message_id == repeats[1].message_id != "reply"


async def test_the_same_words_of_a_user_in_two_turns_are_two_messages(stores: Stores) -> None:
    """T11, T12: under one id."""

    async def script(turn: Turn) -> AsyncIterator[Change]:
        yield Complete("ok")

    async with open_plane(stores, ("a", Scripted(script))) as plane:
        for _ in range(2):
            await plane.run("yes", context_id=C, message_id="m")
        assert texts(await shown(plane)) == ["yes", "ok", "yes", "ok"]


async def test_the_answers_of_a_graph_under_one_id_are_kept_in_each_turn(stores: Stores) -> None:
    """T12: messages of nodes, all with one id or without an id."""
    for context, name in (("one", "reply"), ("none", None)):

        def node(state: MessagesState, name: str | None = name) -> dict[str, Any]:
            words = str(state["messages"][-1].text)
            return {"messages": [AIMessage(f"answer to {words}", id=name)]}

        built: Any = StateGraph(MessagesState)
        agent = adapt(built.add_node("node", node).add_edge(START, "node").compile(), "a")
        async with open_plane(stores, ("a", agent)) as plane:
            for words in ("one", "two"):
                await plane.run(words, context_id=context)
            assert await plane.conversation(context) == ["one", "answer to one", "two", "answer to two"]


async def test_ids_given_by_agents_cost_no_further_call(stores: Stores) -> None:
    """T12: the history that is read anyway decides."""
    calls: list[dict[str, int]] = []
    for name in ("", "reply"):

        async def script(turn: Turn, name: str = name) -> AsyncIterator[Change]:
            yield Complete(named("ok", name))

        async with open_plane(stores, ("a", Scripted(script))) as plane:
            await plane.run("first", context_id=f"c{name}")
            stores.calls.clear()
            await plane.run("second", context_id=f"c{name}")
            names = ("CreateTask", "AppendEntries", "ListEntries", "GetTask", "ListEvents", "GetSession")
            calls.append({each: stores.calls.get(each, 0) for each in names})
    assert calls[0] == calls[1]
