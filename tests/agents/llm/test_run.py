"""The stages of the llm agent against a scripted model, without a plane."""

import asyncio
import json

import pytest
from tests.agents.llm.turns import Given, all_of, answered, open_agent, text_of, turn
from tests.executor.plane import said, until
from tests.support.scripted_model import (
    After,
    CallBegin,
    CallPiece,
    Cut,
    Delta,
    Failing,
    Finish,
    Until,
    calls,
    hang,
    refused,
    text,
)

from taskplane.agents.agent import (
    AgentError,
    ArtifactChunk,
    Say,
    StatusText,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Working,
)
from taskplane.agents.llm.retries import pause_after

REPORT = {"name": "Report", "description": "A report.", "content": 'One "two"\n\U0001f600 three ' * 20}


def chunks(changes: list[object]) -> list[ArtifactChunk]:
    return [change for change in changes if isinstance(change, ArtifactChunk)]


async def test_a_text_is_the_direct_answer() -> None:
    """P2: the model answers, and no task is made."""
    async with open_agent() as (agent, server):
        server.add(text("Good ", "morning"))
        assert await agent.route(turn("hello")) == "Good morning"
        (request,) = server.requests
        assert request.tools == ["createTask"]
        assert request.said == [("user", "hello")]


async def test_the_request_of_a_decision_names_the_tools_of_a_task() -> None:
    """P2: also tools of servers, which are started with the task only; never their command lines."""
    async with open_agent(tools=[len], mcp=["env TOKEN=hunter2 a", "http://127.0.0.1:9/mcp"]) as (agent, server):
        server.add(text("Hello."))
        await agent.route(turn("hello"))
        assert "work - the tools len, the tools of 2 servers, several" in server.requests[0].system
        assert "hunter2" not in str(server.requests[0].body)
    async with open_agent(mcp=["a"]) as (agent, server):
        server.add(text("Hello."))
        await agent.route(turn("hello"))
        assert "work - the tools of a server, several" in server.requests[0].system


async def test_a_task_continues_after_the_create_task_call() -> None:
    """P2: createTask makes a task, and the decision is not requested again."""
    async with open_agent() as (agent, server):
        server.add(calls(("createTask", {"reason": "it is long"})), text("Done."))
        changes = await agent.route(turn("write"))
        assert not isinstance(changes, str)
        found = await all_of(changes)
        assert isinstance(found[1], Working)
        assert text_of(found) == "Done."
        decision, work = server.requests
        assert "createTask" in decision.tools and "createTask" not in work.tools
        roles = [message["role"] for message in work.body["messages"]]
        assert roles == ["system", "user", "assistant", "tool"]


async def test_words_before_a_task_are_a_separate_message() -> None:
    """P3: they do not run into the first words of the task."""
    async with open_agent() as (agent, server):
        server.add([*text("I will.", finish=None), *calls(("createTask", {"reason": "it is long"}))], text("Done."))
        changes = await agent.route(turn("write"))
        assert not isinstance(changes, str)
        found = [change for change in await all_of(changes) if isinstance(change, (Text, Say))]
        assert found == [Text("I will."), Say("I will."), Text("Done.")]


async def test_words_before_a_call_of_an_unknown_tool_are_a_separate_message() -> None:
    """P2, P3: while the model decides, in a direct answer and in a slow one."""
    wrong = [*text("Looking.", finish=None), *calls(("search", {}))]
    async with open_agent() as (agent, server):
        server.add(wrong, text("It is ", "late."))
        assert await agent.route(turn("when?")) == "Looking.\n\nIt is late."
    async with open_agent(direct_within=0.05) as (agent, server):
        go_on = asyncio.Event()
        server.add(wrong, [Until(go_on), *text("It is late.")])
        changes = await agent.route(turn("when?"))
        assert not isinstance(changes, str)
        go_on.set()
        found = [change for change in await all_of(changes) if not isinstance(change, Usage)]
        assert found == [Text("Looking."), Say("Looking."), Text("It is late.")]


async def test_a_slow_answer_continues_as_the_text_of_a_task_without_an_artifact() -> None:
    """P2: streamed text is neither lost nor requested again."""
    go_on = asyncio.Event()
    async with open_agent(direct_within=0.05) as (agent, server):
        server.add([Delta("Once "), Until(go_on), Delta("upon"), Finish()])
        given = turn("tell")
        changes = await agent.route(given)
        assert not isinstance(changes, str)
        assert await anext(changes) == Text("Once ")
        go_on.set()
        assert text_of(await all_of(changes)) == "upon"
        assert await all_of(agent.make_artifact(given)) == []
        assert len(server.requests) == 1


async def test_a_route_that_is_cancelled_closes_the_connection_of_its_model() -> None:
    """P8: also before there is a task."""
    async with open_agent(direct_within=30.0) as (agent, server):
        server.add(hang())
        routing = asyncio.create_task(agent.route(turn("hello")))
        while not server.requests:
            await asyncio.sleep(0.005)
        routing.cancel()
        await asyncio.wait((routing,))
        async with asyncio.timeout(5):
            await server.requests[0].closed.wait()


async def test_a_run_cancelled_during_the_start_of_the_answer_closes_its_connection() -> None:
    """P8, P11: at each step of the event loop; at some the library leaves the stream open."""
    async with open_agent(lambda _: [Delta("half"), *hang()]) as (agent, server):
        for steps in range(60):
            changes = agent.run(turn("write"))
            running = asyncio.create_task(all_of(changes))
            while len(server.requests) <= steps:
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            running.cancel()
            await asyncio.wait((running,))
            await changes.aclose()  # type: ignore[attr-defined]
        await until(lambda: all(request.closed.is_set() for request in server.requests))


async def test_tool_calls_and_their_results_are_changes() -> None:
    """T1: the text after them is a separate message."""

    async def lookup(question: str) -> dict[str, int]:
        """Look something up."""
        return {"answer": 42}

    def fails(number: int) -> str:
        """Fail."""
        raise AssertionError("never called")

    async with open_agent(tools=[lookup, fails]) as (agent, server):
        server.add([*text("Looking. ", finish=None), *calls(("lookup", {"question": "why"}))], text("It is 42."))
        found = await all_of(agent.run(turn("why?")))
        kinds = [change for change in found if not isinstance(change, Usage)]
        assert kinds == [
            Text("Looking. "),
            ToolCall("call-0", "lookup", {"question": "why"}),
            ToolResult("call-0", "lookup", {"answer": 42}),
            Text("It is 42."),
        ]
        figures = [dict(change.figures) for change in found if isinstance(change, Usage)]
        assert figures == [{"requests": 1, "input_tokens": 11, "output_tokens": 5}] * 2
        assert set(server.requests[0].tools) == {"lookup", "fails", "createArtifact"}


@pytest.mark.parametrize("piece", [1, 7, 10_000])
async def test_an_artifact_is_streamed_while_the_model_writes_it(piece: int) -> None:
    """P5: every piece of the content is a chunk. At any cut, escapes and surrogates are whole."""
    async with open_agent() as (agent, server):
        server.add(calls(("createArtifact", REPORT), piece=piece), text("It is done."))
        given = turn("write")
        found = await all_of(agent.run(given))
        made = chunks([*found])
        assert "".join(chunk.text or "" for chunk in made) == REPORT["content"]
        assert {chunk.artifact_id for chunk in made} == {f"{given.invocation_id}-artifact-1"}
        assert [chunk.append for chunk in made] == [False] + [True] * (len(made) - 1)
        assert [chunk.last for chunk in made] == [False] * (len(made) - 1) + [True]
        assert (made[0].name, made[0].description) == ("Report", "A report.")
        assert not any(isinstance(change, (ToolCall, ToolResult)) for change in found)
        assert text_of(found) == "It is done."
        if piece == 1:
            assert len(made) > 300


async def test_two_interleaved_artifacts_are_both_whole() -> None:
    """P5: each gets its own pieces, and is whole."""
    begin = [CallBegin(0, "a", "createArtifact"), CallBegin(1, "b", "createArtifact")]
    pieces = [
        CallPiece(0, '{"content": "one '),
        CallPiece(1, '{"content": "three '),
        CallPiece(0, 'two"'),
        CallPiece(1, 'four"}'),
        CallPiece(0, "}"),
    ]
    async with open_agent() as (agent, server):
        server.add([*begin, *pieces, Finish("tool_calls")], text("Done."))
        made = chunks([*await all_of(agent.run(turn("write")))])
        first = made[0].artifact_id
        contents = ["".join(c.text or "" for c in made if (c.artifact_id == first) is own) for own in (True, False)]
        assert contents == ["one two", "three four"]
        assert sum(chunk.last for chunk in made) == 2


async def test_an_artifact_is_forced_through_the_same_function() -> None:
    """P6: its tool is the only choice, and its chunks equal those of a natural one."""
    async with open_agent() as (agent, server):
        history = [said("write"), answered("I have it.")]
        server.add(calls(("createArtifact", REPORT)))
        made = chunks([*await all_of(agent.make_artifact(turn("write", message=history[0], history=history)))])
        assert "".join(chunk.text or "" for chunk in made) == REPORT["content"]
        assert made[-1].last
        (request,) = server.requests
        assert request.forced == "createArtifact" and request.tools == ["createArtifact"]
        assert request.said[:2] == [("user", "write"), ("assistant", "I have it.")]


async def test_no_artifact_is_forced_if_the_model_decides() -> None:
    """P6: with the setting `auto`."""
    async with open_agent(artifact="auto") as (agent, server):
        assert await all_of(agent.make_artifact(turn("write"))) == []
        assert not server.requests


async def test_a_model_that_cannot_be_forced_fails_with_the_remedy() -> None:
    """P9: the text names the setting `auto`."""
    async with open_agent() as (agent, server):
        server.add(text("I would rather talk."))
        with pytest.raises(AgentError, match="TASKPLANE_LLM_ARTIFACT=auto"):
            await all_of(agent.make_artifact(turn("write")))
        assert len(server.requests) == 1


async def test_a_truncated_artifact_fails() -> None:
    """P9: neither a stream that ends too early nor bad arguments count as a whole artifact, and the call is not
    repeated."""
    async with open_agent() as (agent, server):
        for steps in (
            calls(("createArtifact", '{"name": "n", "content": "abc'), finish="length"),
            calls(("createArtifact", '{"name": "n", "content": "abc'), finish=None),
        ):
            for stage in (agent.run, agent.make_artifact):
                server.add(steps)
                with pytest.raises(AgentError, match="in the middle of an artifact"):
                    await all_of(stage(turn("write")))
        assert len(server.requests) == 4


@pytest.mark.parametrize("content", [{"a": [1, "x\n"]}, [{"b": None}], 7, True])
async def test_artifact_content_that_is_not_text_becomes_json(content: object) -> None:
    """P5, P6: natural and forced alike."""
    async with open_agent() as (agent, server):
        for stage in (agent.run, agent.make_artifact):
            server.add(calls(("createArtifact", {"name": "n", "content": content, "description": "d"})), text("Done."))
            made = chunks([*await all_of(stage(turn("write")))])
            assert json.loads("".join(chunk.text or "" for chunk in made)) == content
            assert made[-1].last
            server.answers.clear()


@pytest.mark.parametrize("arguments", [{"name": "n"}, {"content": None}, {"content": ""}, {"text": "Report"}, {}])
async def test_a_call_without_content_makes_no_artifact(arguments: object) -> None:
    """P6, P9: the model gets the error, and may call again; a forced artifact without content fails its task."""
    async with open_agent() as (agent, server):
        server.add(calls(("createArtifact", arguments)), calls(("createArtifact", REPORT)), text("Done."))
        made = chunks([*await all_of(agent.run(turn("write")))])
        assert "".join(chunk.text or "" for chunk in made) == REPORT["content"]
        assert "was not made" in server.requests[1].said[-1][1]
        server.add(calls(("createArtifact", arguments)))
        with pytest.raises(AgentError, match="without any content"):
            await all_of(agent.make_artifact(turn("write")))


async def test_arguments_that_are_not_an_object_fail_with_a_readable_text() -> None:
    """P9: natural and forced alike."""
    async with open_agent() as (agent, server):
        for stage in (agent.run, agent.make_artifact):
            server.add(calls(("createArtifact", '["a", "b"]')))
            with pytest.raises(AgentError, match="something else than its arguments"):
                await all_of(stage(turn("write")))


async def test_a_status_text_is_requested_without_tools() -> None:
    """P4: with the recent texts, which it must not repeat."""
    async with open_agent(tools=[len]) as (agent, server):
        server.add(text('"Reading sources."'))
        said = await agent.status_text(turn("write"), ["Thinking", "Looking"])
        assert said == StatusText("Reading sources", {"requests": 1, "input_tokens": 11, "output_tokens": 5})
        (request,) = server.requests
        assert not request.tools
        assert "Thinking" in request.said[-1][1] and "50 characters" in request.said[-1][1]


async def test_incoming_messages_are_read_between_two_model_calls() -> None:
    """I1: a message that arrives during a run is in the next request, also after a last answer."""

    async def lookup() -> str:
        """Look."""
        return "found"

    async with open_agent(tools=[lookup]) as (agent, server):
        server.add(calls(("lookup", {})), text("First."), text("Second."))
        found = await all_of(agent.run(turn("why?", calls=Given(["and how?"], ["and when?"]))))
        assert ("user", "and how?") in server.requests[1].said
        assert ("user", "and when?") in server.requests[2].said
        texts = [change for change in found if isinstance(change, (Text, Say))]
        assert texts == [Text("First."), Say("First."), Text("Second.")]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (refused(429, retry_after=60), "takes no more requests"),
        (refused(401), "credentials"),
        (refused(404), "does not exist"),
        (refused(400), "refused the request"),
        ([Delta("half"), Cut()], "broke off"),
        ([Delta("half"), Failing("secret-of-the-provider")], "has a fault"),
        (text("half", finish=None), "broke off"),
        (text("half", finish="length"), "limit of its answer's length"),
        (text("half", finish="content_filter"), "filtered"),
        (calls(("unknown", {}), finish="length"), "limit of its answer's length"),
        ([After(1.0), *text("late")], "did not answer in time"),
        ([Delta("half"), After(1.0), *text("late")], "broke off"),
    ],
)
async def test_a_failure_of_the_provider_is_shown_without_its_text(steps: list[object], words: str) -> None:
    """P9: and the call is not repeated if it cannot succeed, or if its answer had begun."""
    async with open_agent(attempts=1 if "in time" in words else 3, timeout=0.3) as (agent, server):
        server.add(steps)  # type: ignore[arg-type]
        with pytest.raises(AgentError, match=words) as raised:
            await all_of(agent.run(turn("hello")))
        assert "secret" not in str(raised.value)
        assert len(server.requests) == 1


async def test_a_call_is_repeated_before_its_first_token_up_to_the_set_attempts() -> None:
    """P9: by the agent only, not by the libraries under it."""
    async with open_agent(attempts=3) as (agent, server):
        server.add(refused(429, retry_after=0), [Delta(""), Cut()], text("At last."))
        assert text_of(await all_of(agent.run(turn("hello")))) == "At last."
        assert len(server.requests) == 3
    async with open_agent(attempts=2) as (agent, server):
        server.add(refused(500), refused(503), text("never"))
        with pytest.raises(AgentError, match="not available"):
            await all_of(agent.run(turn("hello")))
        assert len(server.requests) == 2


def test_pauses_between_attempts_grow_to_a_maximum() -> None:
    """P9: for any number of attempts; a provider that asks for a longer pause is not waited for."""
    assert [pause_after(attempt) for attempt in (1, 2, 6, 7, 8, 10_000)] == [0.5, 1.0, 16.0, 20.0, 20.0, 20.0]
    assert (pause_after(1, 20.0), pause_after(9, 0.0), pause_after(1, 21.0)) == (20.0, 0.0, None)
