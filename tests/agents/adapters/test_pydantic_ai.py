"""Agents of pydantic-ai on a scripted model, served by the adapter."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests
from tests.agents.llm.turns import Given, all_of, answered, model_at, text_of, turn
from tests.executor.plane import said
from tests.support.scripted_model import Delta, ScriptedModel, calls, open_model, text

from taskplane.agents.adapters.pydantic_ai import adapt
from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    AskInput,
    Change,
    Checkpoint,
    Complete,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from taskplane.agents.agent import (
    text_of as words_of,
)
from taskplane.agents.changes import value_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a


@asynccontextmanager
async def served(
    make: Callable[[Agent[None, Any]], None] = lambda agent: None, **options: Any
) -> AsyncGenerator[tuple[Any, ScriptedModel], None]:
    async with open_model() as server:
        agent: Agent[None, Any] = Agent(model_at(server), **options)
        make(agent)
        async with agent:
            yield adapt(agent, "a"), server


async def test_an_agent_is_served_with_its_text_its_tools_and_its_system_prompt() -> None:
    """T1: also with a history, and with a message that comes between two model calls."""

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain
        def lookup(question: str) -> dict[str, int]:
            return {"answer": 42}

    async with served(with_tool, system_prompt="Be brief.", name="Finder", description="Finds.") as (agent, server):
        assert (agent.card.name, agent.card.description) == ("a", "Finds.")
        server.add([Delta("Looking. "), *calls(("lookup", {"question": "why"}))], text("It ", "is 42."))
        given = turn("why?", [said("hi"), answered("hello")], Given(["and how?"]))
        found = await all_of(agent.run(given))
        assert [change for change in found if not isinstance(change, Usage)] == [
            Text("Looking. "),
            ToolCall("call-0", "lookup", {"question": "why"}),
            ToolResult("call-0", "lookup", {"answer": 42}),
            Text("It "),
            Text("is 42."),
        ]
        first, second = server.requests
        assert first.system == "Be brief."
        assert first.said == [("user", "hi"), ("assistant", "hello"), ("user", "why?")]
        assert second.said[-1] == ("user", "and how?")


async def test_a_tool_named_create_artifact_makes_an_artifact() -> None:
    """P5: like the tool of the llm agent."""

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain(name="createArtifact")
        def make(name: str, content: str) -> str:
            return "made"

    async with served(with_tool) as (agent, server):
        server.add(calls(("createArtifact", {"name": "n", "content": "one two three"}), piece=5), text("Done."))
        found = await all_of(agent.run(turn("write")))
        made = [change for change in found if isinstance(change, ArtifactChunk)]
        assert "".join(chunk.text or "" for chunk in made) == "one two three" and len(made) > 2
        assert text_of(found) == "Done."


async def test_an_output_that_is_not_text_becomes_data() -> None:
    """P3: here a model of pydantic."""

    class City(BaseModel):
        name: str

    async with served(output_type=City) as (agent, server):
        server.add(calls(("final_result", {"name": "Ulm"})))
        *_, last = await all_of(agent.run(turn("which?")))
        assert isinstance(last, Complete) and isinstance(last.message, Message)
        assert MessageToDict(last.message.parts[0].data) == {"name": "Ulm"}


def later(asked: list[Change], given: Message, first: Message) -> Any:
    """Returns the turn in which the user answers."""
    checkpoint = next(change.data for change in asked if isinstance(change, Checkpoint))
    question = next(change.message for change in asked if isinstance(change, AskInput))
    assert isinstance(question, Message)
    stored = a2a.Message(role=a2a.ROLE_AGENT, task_id="task")
    stored.MergeFrom(question)
    return turn("", [first, stored], message=given, checkpoint=checkpoint)


async def test_a_deferred_call_asks_the_user_and_continues_with_the_answer() -> None:
    """I1: the model gets the answer as the result of its call, and no request before that."""

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain
        def ask_user(question: str) -> str:
            raise CallDeferred(kind="question")

    async with served(with_tool, output_type=[str, DeferredToolRequests]) as (agent, server):
        server.add(calls(("ask_user", {"question": "What is your name?"})), text("Hello, Ann."))
        first = said("hi")
        asked = await all_of(agent.run(turn("", message=first)))
        assert isinstance(asked[-1], AskInput) and isinstance(asked[-1].message, Message)
        assert words_of(asked[-1].message) == "What is your name?"
        found = await all_of(agent.run(later(asked, said("Ann"), first)))
        assert text_of(found) == "Hello, Ann."
        assert [role for role, _ in server.requests[1].said] == ["user", "assistant", "tool"]
        assert server.requests[1].said[-1] == ("tool", "Ann")
        # A message that answers no question begins a run.
        server.add(text("Hello again."))
        follow_up = later(asked, said("And now?"), first)
        moved_on = turn("", [*follow_up.history, said("Ann", task_id="task"), answered("x")], message=follow_up.message)
        assert text_of(await all_of(agent.run(moved_on))) == "Hello again."


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (said("Yes."), "gone: a"),
        (said("", parts=[a2a.Part(data=value_of({"approved": True}))]), "gone: a"),
        (said("", parts=[a2a.Part(data=value_of({"approved": False, "reason": "not now"}))]), "not now"),
        (said("No"), "denied"),
        (said("", parts=[a2a.Part(data=value_of({"call-0": True}))]), "gone: a"),
        (said("", parts=[a2a.Part(data=value_of({"call-0": "Approved!"}))]), "gone: a"),
        (said("", parts=[a2a.Part(data=value_of({"call-0": {"confirmed": True}}))]), "gone: a"),
    ],
)
async def test_a_tool_is_called_after_the_user_approves(answer: Message, result: str) -> None:
    """I1: by a text, or by data under the id of the call."""

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain(requires_approval=True)
        def remove(file: str) -> str:
            return f"gone: {file}"

    async with served(with_tool, output_type=[str, DeferredToolRequests]) as (agent, server):
        server.add(calls(("remove", {"file": "a"})), text("So be it."))
        first = said("remove it")
        asked = await all_of(agent.run(turn("", message=first)))
        assert isinstance(asked[-1], AskInput)
        assert text_of(await all_of(agent.run(later(asked, answer, first)))) == "So be it."
        assert result in server.requests[1].said[-1][1]


@pytest.mark.parametrize("given", ["no", "false", "deny", {"approved": False}, {"denied": True}, False])
async def test_a_clear_no_denies_a_call(given: object) -> None:
    """I1: with any other text beside it."""
    called: list[str] = []

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain(requires_approval=True)
        def remove(file: str) -> str:
            called.append(file)
            return "gone"

    async with served(with_tool, output_type=[str, DeferredToolRequests]) as (agent, server):
        server.add(calls(("remove", {"file": "a"})), text("So be it."))
        first = said("remove it")
        asked = await all_of(agent.run(turn("", message=first)))
        answer = said("", parts=[a2a.Part(text="yes"), a2a.Part(data=value_of({"call-0": given}))])
        assert text_of(await all_of(agent.run(later(asked, answer, first)))) == "So be it."
        assert called == []


UNCLEAR = ["ok, but not the delete", "not now", "", 0, 1, None, ["yes"], {"approved": True, "except": "a"}]


@pytest.mark.parametrize("given", UNCLEAR)
async def test_an_unclear_answer_asks_the_same_question_again(given: object) -> None:
    """I1: the tool is neither called nor denied, and a later clear answer is accepted."""
    called: list[str] = []

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain(requires_approval=True)
        def remove(file: str) -> str:
            called.append(file)
            return f"gone: {file}"

    async with served(with_tool, output_type=[str, DeferredToolRequests]) as (agent, server):
        server.add(calls(("remove", {"file": "a"})), text("So be it."))
        first = said("remove it")
        asked = await all_of(agent.run(turn("", message=first)))
        unclear = said("", parts=[a2a.Part(data=value_of({"call-0": given}))])
        again = await all_of(agent.run(later(asked, unclear, first)))
        question, repeated = asked[-1], again[-1]
        assert isinstance(question, AskInput) and isinstance(repeated, AskInput)
        assert isinstance(question.message, Message) and isinstance(repeated.message, Message)
        assert list(repeated.message.parts) == list(question.message.parts)
        assert (called, len(server.requests)) == ([], 1)
        await all_of(agent.run(later(again, said("yes"), first)))
        assert called == ["a"]


async def test_a_stream_that_ends_without_a_finish_reason_fails() -> None:
    """P9: the library takes it for an answer."""
    called: list[str] = []

    def with_tool(agent: Agent[None, Any]) -> None:
        @agent.tool_plain
        def act() -> str:
            called.append("act")
            return "done"

    async with served(with_tool) as (agent, server):
        for steps in (text("half", finish=None), calls(("act", {}), finish=None)):
            server.add(steps)
            with pytest.raises(AgentError, match="broke off"):
                await all_of(agent.run(turn("hello")))
        assert called == []
