"""Graphs of LangGraph: cases beyond the scenarios of all adapters."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from google.protobuf.json_format import MessageToDict
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_config, get_stream_writer
from langgraph.func import entrypoint  # pyright: ignore[reportMissingTypeStubs]
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from tests.executor.plane import ANN, BOB, Plane, Stores, eventually, open_plane, open_stores, said, text, until

from taskplane.agents.adapters import adapt
from taskplane.agents.agent import Complete, Policy, Turn
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.errors import Invalid, Unavailable

COMPLETED, FAILED, ASKS = a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED, a2a.TASK_STATE_INPUT_REQUIRED


Graph: Any = StateGraph


class Caller(BaseChatModel):
    """Calls a tool, in pieces."""

    @property
    def _llm_type(self) -> str:
        return "caller"

    def _generate(self, *args: Any, **more: Any) -> Any:
        raise AssertionError("it is streamed")

    async def _astream(self, *args: Any, **more: Any) -> AsyncIterator[ChatGenerationChunk]:
        for words in ("Let me ", "look."):
            yield ChatGenerationChunk(message=AIMessageChunk(content=words))
        for name, given, number in (("weather", '{"city": ', "call-1"), (None, '"Bonn"}', None)):
            piece = tool_call_chunk(name=name, args=given, id=number, index=0)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[piece]))
        used = UsageMetadata(input_tokens=3, output_tokens=2, total_tokens=5)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))


def graph(*nodes: Any, saver: Any = None, state: Any = MessagesState) -> Any:
    """Returns a graph of these nodes one after the other."""
    built = Graph(state).add_sequence(nodes)
    return built.add_edge(START, nodes[0].__name__).compile(checkpointer=saver)


def heard(state: MessagesState) -> dict[str, Any]:
    """Answers with all messages of its state."""
    told = [str(message.text) for message in state["messages"]]
    return {"messages": [AIMessage(" | ".join(told))]}


@asynccontextmanager
async def cut_off(stores: Stores) -> AsyncGenerator[Stores]:
    """Stores for another executor, while calls over the given stores fail."""

    async def refuse(request: object) -> None:
        raise Unavailable("this executor is cut off")

    calls = ("Renew", "AppendEvents", "Release", "Claim", "GetTask", "AppendEntries", "ListUncopied")
    stores.channel.before.update(dict.fromkeys(calls, refuse))
    other = Stores(stores.services)
    yield other
    await other.channel.close()
    stores.channel.before.clear()


async def run(plane: Plane, words: str, **more: Any) -> tuple[int, str]:
    task = await plane.run(words, **more)
    return task.status.state, text(task.status.message)


async def test_a_graph_shows_its_messages_calls_and_results_once_and_in_order(stores: Stores) -> None:
    """P3, T1: the user's message is not repeated; the usage is in the task."""

    @tool
    def weather(city: str) -> str:
        """Tells the weather."""
        return f"rain in {city}"

    async def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await Caller().ainvoke(state["messages"])]}

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [*state["messages"], AIMessage("It rains.")]}

    built = Graph(MessagesState).add_sequence([model, ("tools", ToolNode([weather])), answer])
    agent = adapt(built.add_edge(START, "model"), "a")
    async with open_plane(stores, ("a", agent)) as plane:
        task = await plane.run("weather?")
        assert [text(message) for message in task.history] == ["weather?", "Let me look.", "", ""]
        called, answered = [MessageToDict(message.parts[0].data) for message in task.history[2:]]
        assert called == {"id": "call-1", "name": "weather", "args": {"city": "Bonn"}}
        assert answered == {"id": "call-1", "name": "weather", "response": {"result": "rain in Bonn"}}
        assert text(task.status.message) == "It rains."
        used = MessageToDict(task.metadata)["taskplane.dev/usage"]
        assert used == {"requests": 1, "input_tokens": 3, "output_tokens": 2}


async def test_texts_of_concurrent_models_are_shown_one_after_the_other(stores: Stores) -> None:
    """P3: pieces of two texts are not mixed, one of them in a subgraph; the text of a model with `nostream` is not
    shown."""
    begun, spoken = asyncio.Event(), asyncio.Event()

    class Held(GenericFakeChatModel):
        async def _astream(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
            async for piece in super()._astream(*args, **more):
                yield piece
                begun.set()
                await spoken.wait()

    async def first(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await Held(messages=iter(["one two three"])).ainvoke("go")]}

    async def second(state: MessagesState) -> dict[str, Any]:
        await begun.wait()
        quiet = GenericFakeChatModel(messages=iter(["to itself"])).with_config(tags=["nostream"])
        await quiet.ainvoke("go")
        said = await GenericFakeChatModel(messages=iter(["four five six"])).ainvoke("go")
        spoken.set()
        return {"messages": [said]}

    built = Graph(MessagesState).add_node("first", graph(first)).add_node(second)
    built.add_edge(START, "first").add_edge(START, "second")
    async with open_plane(stores, ("a", adapt(built, "a"))) as plane:
        task = await plane.run("go")
        conversation = await plane.conversation(task.context_id)
    assert conversation == ["go", "one two three", "four five six"]


async def test_a_thread_gets_only_the_messages_that_it_lacks(tmp_path: Path) -> None:
    """P1: a graph without a checkpointer gets the conversation, a graph with a thread the new message, and a graph that
    lost its thread the conversation again."""
    async with open_stores(tmp_path) as stores:
        for saver in (None, InMemorySaver()):
            context = f"c-{saver is None}"
            async with open_plane(stores, ("a", adapt(graph(heard, saver=saver), "a"))) as plane:
                assert await run(plane, "one", context_id=context) == (COMPLETED, "one")
                assert await run(plane, "two", context_id=context) == (COMPLETED, "one | one | two")
        async with open_plane(stores, ("a", adapt(graph(heard, saver=InMemorySaver()), "a"))) as plane:
            assert (await run(plane, "three", context_id="c-False"))[1] == "one | one | two | one | one | two | three"


async def test_a_rewind_continues_the_thread_from_the_last_turn_in_effect(stores: Stores) -> None:
    """R3: or from nothing, by a fork; an undo restores the rest."""
    async with open_plane(stores, ("a", adapt(graph(heard, saver=InMemorySaver()), "a"))) as plane:
        for words, answer in (("one", "one"), ("two", "one | one | two")):
            assert await run(plane, words, context_id="c") == (COMPLETED, answer)
        entries = await plane.entries("c", effective=True)
        first, second = dict.fromkeys(entry.invocation_id for entry in entries)

        async def rewind(before: str) -> None:
            message = said("", context_id="c", metadata={"kagent_rewind_before_invocation_id": before})
            await plane.executor().Submit(pb.SubmitRequest(request=a2a.SendMessageRequest(message=message)))

        await rewind(second)
        assert await run(plane, "three", context_id="c") == (COMPLETED, "one | one | three")
        assert await run(plane, "four", context_id="c") == (COMPLETED, "one | one | three | one | one | three | four")
        await rewind(first)
        assert await run(plane, "five", context_id="c") == (COMPLETED, "five")


async def test_each_user_and_each_agent_has_its_own_thread_under_one_session_id(stores: Stores) -> None:
    """S7: session ids, and so threads, belong to their owner."""
    saver = InMemorySaver()
    agents = [(name, adapt(graph(heard, saver=saver), name)) for name in ("a", "b")]
    async with open_plane(stores, *agents) as plane:
        assert await run(plane, "secret", context_id="c", who=ANN) == (COMPLETED, "secret")
        task = await plane.at_rest(await plane.submit("hello", context_id="c", who=BOB), who=BOB)
        assert text(task.status.message) == "hello"
        task = await plane.at_rest(await plane.submit("three", context_id="c", agent="b"))
        assert text(task.status.message) == "secret | secret | three"


def two_questions() -> Any:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Name: {interrupt('Name?')}")]}

    def age(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Age: {interrupt({'question': 'Age?', 'unit': 'years'})}")]}

    built = Graph(MessagesState).add_node("name", graph(ask)).add_node(age)
    built.add_edge(START, "name").add_edge(START, "age")
    return built.compile(checkpointer=InMemorySaver())


async def test_several_questions_are_answered_together_by_id_or_one_after_the_other(stores: Stores) -> None:
    """I1: each interrupt is a part of the question, a text or data by its value."""
    async with open_plane(stores, ("a", adapt(two_questions(), "a"))) as plane:
        for together in (True, False):
            asked = await plane.run("go")
            assert asked.status.state == ASKS
            parts = sorted(asked.status.message.parts, key=lambda part: part.text, reverse=True)
            assert parts[0].text == "Name?" and parts[1].data.struct_value["unit"] == "years"
            ids = [part.metadata["interrupt_id"] for part in parts]
            if together:
                answer = a2a.Part()
                answer.data.struct_value.update({ids[0]: "Ann", ids[1]: 40})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
                done = await plane.run("", task_id=asked.id, context_id=asked.context_id, parts=[answer])
            else:
                answers = {"Name?": "Ann", "": "40"}
                again = await plane.run(
                    answers[asked.status.message.parts[0].text], task_id=asked.id, context_id=asked.context_id
                )
                assert again.status.state == ASKS and len(again.status.message.parts) == 1
                rest = answers[again.status.message.parts[0].text]
                done = await plane.run(rest, task_id=asked.id, context_id=asked.context_id)
            assert done.status.state == COMPLETED
            spoken = await plane.conversation(asked.context_id)
            assert "Name: Ann" in spoken and any(words.startswith("Age: 40") for words in spoken)


def acting() -> Any:
    """A graph that asks for the approval of two actions as HumanInTheLoopMiddleware of langchain does."""
    told = "May it be called?"
    actions: list[dict[str, Any]] = [{"name": name, "args": {}, "description": told} for name in ("read", "remove")]

    def act(state: MessagesState) -> dict[str, Any]:
        decisions = interrupt({"action_requests": actions})["decisions"]
        return {"messages": [AIMessage(" ".join(one["type"] + one.get("message", "") for one in decisions))]}

    return graph(act, saver=InMemorySaver())


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("yes", "approve approve"),
        ({"approved": False, "reason": ": later"}, "reject: later reject: later"),
        ({"decisions": [{"type": "approve"}, {"type": "reject"}]}, "approve reject"),
    ],
)
async def test_actions_are_approved_or_rejected_by_any_clear_answer(
    stores: Stores, answer: object, outcome: str
) -> None:
    """I1: an unclear answer asks the same question again."""
    async with open_plane(stores, ("a", adapt(acting(), "a"))) as plane:
        asked = await plane.run("go")
        question = asked.status.message
        again = await plane.run("ok, but not remove", task_id=asked.id, context_id=asked.context_id)
        assert again.status.state == ASKS and list(again.status.message.parts) == list(question.parts)
        part = a2a.Part(text=answer) if isinstance(answer, str) else a2a.Part(data=value_of(answer))
        done = await plane.run("", task_id=asked.id, context_id=asked.context_id, parts=[part])
        assert (done.status.state, text(done.status.message)) == (COMPLETED, outcome)


async def test_an_answer_to_a_superseded_question_fails_with_the_reason(stores: Stores) -> None:
    """P9: the answer would have no effect."""
    async with open_plane(stores, ("a", adapt(two_questions(), "a"))) as plane:
        asked = await plane.run("go")
        again = await plane.run("something else", context_id=asked.context_id)
        assert again.status.state == ASKS and again.id != asked.id
        failed = await plane.run("Ann", task_id=asked.id, context_id=asked.context_id)
        assert failed.status.state == FAILED and "no longer open" in text(failed.status.message)


async def test_a_question_of_a_graph_without_a_checkpointer_fails_with_the_reason(stores: Stores) -> None:
    """P9: no answer could ever reach the graph."""

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(interrupt("Name?"))]}

    async with open_plane(stores, ("a", adapt(graph(ask), "a"))) as plane:
        state, words = await run(plane, "go")
    assert state == FAILED and "no checkpointer" in words


async def test_a_breakpoint_fails_with_the_reason(stores: Stores) -> None:
    """P9: a completed task would silently lose the later steps."""
    built = Graph(MessagesState).add_node(heard).add_edge(START, "heard")
    agent = adapt(built.compile(checkpointer=InMemorySaver(), interrupt_before=["heard"]), "a")
    async with open_plane(stores, ("a", agent)) as plane:
        state, words = await run(plane, "go")
    assert state == FAILED and "breakpoint" in words


async def test_a_graph_that_does_not_end_is_stopped(stores: Stores) -> None:
    """P9: after a hundred steps, or after the limit of the graph."""
    steps: list[int] = []

    def step(state: MessagesState) -> dict[str, Any]:
        steps.append(1)
        return {}

    built = Graph(MessagesState).add_node(step).add_edge(START, "step").add_edge("step", "step")
    for compiled, most in ((built.compile(), 100), (built.compile().with_config(recursion_limit=7), 7)):
        steps.clear()
        async with open_plane(stores, ("a", adapt(compiled, "a"))) as plane:
            state, words = await run(plane, "go")
        assert state == FAILED and "exceeded its number of steps" in words and len(steps) == most


async def test_a_graph_of_messages_or_one_text_is_accepted_and_any_other_is_refused(stores: Stores) -> None:
    """P1: by the graph's own schema; the error for a state of several keys has the remedy."""

    class Question(TypedDict):
        question: str

    class State(Question):
        answer: str

    def answer(state: State) -> dict[str, Any]:
        get_stream_writer()(f"{state['question']}? ")
        turn: Turn = get_config().get("configurable", {})["turn"]
        get_stream_writer()(Complete(f"{state['question']}? {turn.caller.owner}"))
        return {"answer": "42"}

    @entrypoint()
    async def work(text: str) -> str:
        return text.upper()

    def quiet(state: Question) -> dict[str, Any]:
        return {"question": f"{state['question']}? 42"}

    built = Graph(State, input_schema=Question).add_node(answer).add_edge(START, "answer")
    agents: list[tuple[str, Any]] = [("a", built), ("b", work), ("c", graph(quiet, state=Question))]
    async with open_plane(stores, *[(name, adapt(found, name)) for name, found in agents]) as plane:
        assert await run(plane, "why", agent="a") == (COMPLETED, "why? ann")
        assert await run(plane, "why", agent="b") == (COMPLETED, "WHY")
        assert await run(plane, "why", agent="c") == (COMPLETED, "why? 42")
    with pytest.raises(Invalid, match="needs the keys question, answer") as refused:
        adapt(graph(answer, state=State), "a")
    assert "input_schema" in refused.value.suggestion


async def test_a_lost_run_with_the_policy_to_resume_continues_after_its_last_step(tmp_path: Path) -> None:
    """C9: finished steps are not repeated, and their messages stay; the next process has only the database."""
    counted, reached, let_go = [0, 0], asyncio.Event(), asyncio.Event()

    def first(state: MessagesState) -> dict[str, Any]:
        counted[0] += 1
        return {"messages": [AIMessage("first done")]}

    async def second(state: MessagesState) -> dict[str, Any]:
        counted[1] += 1
        reached.set()
        await let_go.wait()
        return {"messages": [AIMessage("second done")]}

    @asynccontextmanager
    async def serving(stores: Stores) -> AsyncGenerator[Plane]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
            agent = adapt(graph(first, second, saver=saver), "a", Policy(on_orphan="resume"))
            async with open_plane(stores, ("a", agent)) as plane:
                yield plane

    async with open_stores(tmp_path, lease_ttl=1.5) as stores, serving(stores) as lost:
        task_id = (await lost.submit("go")).task.task_id
        await reached.wait()
        await eventually(lambda: lost.events(task_id), lambda events: "first done" in str(events))
        async with cut_off(stores) as other, serving(other) as survivor:
            reached.clear()
            await reached.wait()
            let_go.set()
            task = await survivor.reaches(task_id, COMPLETED, FAILED)
            assert task.status.state == COMPLETED and text(task.status.message) == "second done"
            assert counted == [1, 2]
            assert await survivor.conversation(task.context_id) == ["go", "first done", "second done"]


async def test_an_answer_is_given_again_after_its_run_was_lost(tmp_path: Path) -> None:
    """C9, I1: also if the graph had continued after it and sent a message."""
    reached, let_go = asyncio.Event(), asyncio.Event()

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Hello, {interrupt('Name?')}.")]}

    async def second(state: MessagesState) -> dict[str, Any]:
        reached.set()
        await let_go.wait()
        return {"messages": [AIMessage("second done")]}

    agent = adapt(graph(ask, second, saver=InMemorySaver()), "a", Policy(on_orphan="rerun"))
    async with open_stores(tmp_path, lease_ttl=1.5) as stores, open_plane(stores, ("a", agent)) as lost:
        asked = await lost.run("go")
        await lost.submit("Ann", task_id=asked.id, context_id=asked.context_id)
        await reached.wait()
        await eventually(lambda: lost.events(asked.id), lambda events: "Hello, Ann." in str(events))
        async with cut_off(stores) as other, open_plane(other, ("a", agent)) as survivor:
            reached.clear()
            await reached.wait()
            let_go.set()
            task = await survivor.reaches(asked.id, COMPLETED, FAILED)
            assert task.status.state == COMPLETED and text(task.status.message) == "second done"
            said = await survivor.conversation(task.context_id)
            assert said == ["go", "Name?", "Ann", "Hello, Ann.", "Hello, Ann.", "second done"]


async def test_a_cancelled_graph_keeps_its_finished_steps_and_stores_nothing_more(stores: Stores) -> None:
    """P8: the current node is stopped, and the next turn continues from the finished steps."""
    reached, let_go = asyncio.Event(), asyncio.Event()

    def first(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("first done")]}

    async def second(state: MessagesState) -> dict[str, Any]:
        reached.set()
        await let_go.wait()
        return {"messages": [AIMessage(f"{len(state['messages'])} messages")]}

    async with open_plane(stores, ("a", adapt(graph(first, second, saver=InMemorySaver()), "a"))) as plane:
        task_id = (await plane.submit("go", context_id="c")).task.task_id
        await reached.wait()
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=task_id))
        await until(lambda: not plane.service.runs.active)
        let_go.set()
        assert await run(plane, "again", context_id="c") == (COMPLETED, "4 messages")
        task = await plane.task(task_id)
        assert task.status.state == a2a.TASK_STATE_CANCELED
        assert [text(message) for message in task.history] == ["go", "first done"]


async def test_a_message_that_a_node_streams_and_returns_is_stored_once(stores: Stores) -> None:
    """T6: under another id, after a stream of its own, or as a tuple or dict."""

    async def again(state: MessagesState) -> dict[str, Any]:
        said = await GenericFakeChatModel(messages=iter(["one two"])).ainvoke("go")
        return {"messages": [AIMessage(said.text)]}

    def written(state: MessagesState) -> dict[str, Any]:
        for piece in ("three ", "four"):
            get_stream_writer()(piece)
        return {"messages": [AIMessage("three four")]}

    async def plain(state: MessagesState) -> dict[str, Any]:
        said = await GenericFakeChatModel(messages=iter(["five"])).ainvoke("go")
        return {"messages": [("ai", said.text)]}

    def last(state: MessagesState) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": "six"}]}

    for saver in (None, InMemorySaver()):
        async with open_plane(stores, ("a", adapt(graph(again, plain, written, last, saver=saver), "a"))) as plane:
            spoken = ["go", "one two", "five", "three four", "six"]
            task = await plane.run("go")
            assert await plane.conversation(task.context_id) == spoken
            await plane.run("go", context_id=task.context_id)
            assert await plane.conversation(task.context_id) == spoken * 2
