"""Agents of ADK: their sessions, state and artifacts are those of the plane."""

import importlib
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.adk.apps.app import App
from google.adk.artifacts import FileArtifactService
from google.adk.events.event import Event
from google.adk.events.request_input import RequestInput
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.workflow import Workflow
from google.genai import types
from tests.agents.adapters.adk_agents import Obedient, obedient
from tests.executor.plane import SERVICE, Plane, Stores, open_plane, text
from tests.executor.rewinding import invocation, rewind
from tests.executor.scripted import Scripted

from taskplane.agents.adapters import adapt
from taskplane.agents.adapters.adk.translation import Translation
from taskplane.agents.agent import Change, Complete, Policy, Say, Text, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.json_values import to_dict

C = "c"


class World(NamedTuple):
    plane: Plane
    model: Obedient


@pytest.fixture
async def world(stores: Stores) -> AsyncGenerator[World, None]:
    """An executor of an ADK agent `adk`, and of an agent of the port, `other`."""

    async def other(turn: Turn) -> AsyncIterator[Change]:
        yield Complete(f"the other heard {turn.text}")

    agent, model = obedient()
    async with open_plane(stores, ("adk", adapt(agent, "adk")), ("other", Scripted(other))) as plane:
        yield World(plane, model)


async def said(plane: Plane, words: str, **options: Any) -> str:
    """Runs a turn, and returns the text of its end."""
    task = await plane.run(words, context_id=C, **options)
    assert task.status.state == a2a.TASK_STATE_COMPLETED, task
    return text(task.status.message)


async def state(plane: Plane) -> dict[str, Any]:
    return to_dict((await plane.stores.sessions().GetState(sessions.GetStateRequest(context_id=C))).state)


async def events(plane: Plane) -> list[dict[str, Any]]:
    """Returns the events of ADK in the session."""
    request = sessions.ListEntriesRequest(context_id=C, kinds=[sessions.ENTRY_KIND_EVENT])
    return [json.loads(entry.data) for entry in (await plane.stores.sessions().ListEntries(request)).entries]


async def test_a_turn_streams_its_text_and_stores_it_once(world: World) -> None:
    """P3: pieces of the text as they come, and the whole text that ADK repeats as the last message."""
    task = await world.plane.run("hello", context_id=C)
    statuses = [
        event.event.status_update.status for event in await world.plane.events(task.id, tasks.EVENT_KIND_STATUS)
    ]
    partial = [text(one.message) for one in statuses if "kagent_adk_partial" in one.message.metadata.fields]
    assert "".join(partial) == "heard hello"
    assert text(task.status.message) == "heard hello"
    assert await world.plane.conversation(C) == ["hello", "heard hello"]
    assert [event["author"] for event in await events(world.plane)] == ["user", "obedient"]
    assert {event["invocationId"] for event in await events(world.plane)} == {invocation(task)}


async def test_the_model_sees_every_message_once(world: World) -> None:
    """R5: events of ADK in the session are not shown as messages, and not sent to the model twice."""
    for words in ("one", "two", "three"):
        await said(world.plane, words)
    assert world.model.seen[-1] == [
        ("user", "one"),
        ("model", "heard one"),
        ("user", "two"),
        ("model", "heard two"),
        ("user", "three"),
    ]
    assert await world.plane.conversation(C) == ["one", "heard one", "two", "heard two", "three", "heard three"]


async def test_tools_are_shown_and_change_the_state(world: World) -> None:
    """P3, R12: tool calls and results as they are; state of the session, the user and the agent; nothing of `temp:`."""
    task = await world.plane.run("remember key=a value=b", context_id=C)
    kinds = [
        (part.metadata.fields["kagent_type"].string_value, to_dict(part.data.struct_value)["name"])
        for message in task.history
        for part in message.parts
        if part.HasField("data")
    ]
    assert kinds == [("function_call", "remember"), ("function_response", "remember")]
    await said(world.plane, "remember key=user:u value=1")
    await said(world.plane, "remember key=app:p value=2")
    assert await state(world.plane) == {"a": "b", "count": 3, "user:u": "1", "app:p": "2"}
    task = await world.plane.run("recall key=user:u", context_id="elsewhere")
    assert "'found': '1'" in text(task.status.message)


async def test_a_rewind_takes_turns_from_the_model_and_the_state(world: World) -> None:
    """R3, R12: after a rewind the model's request lacks the turns that are cut; state and artifacts are as before."""
    await said(world.plane, "remember key=a value=old")
    await said(world.plane, "save name=f text=first")
    cut = await world.plane.run("remember key=a value=new", context_id=C)
    await said(world.plane, "save name=f text=second")
    await said(world.plane, "save name=g text=third")
    await rewind(world.plane, invocation(cut))
    assert (await state(world.plane))["a"] == "old"
    assert "'text': 'first', 'names': ['f']" in await said(world.plane, "load name=f")
    seen = " ".join(words for _, words in world.model.seen[-1])
    assert "old" in seen and "first" in seen
    assert not any(words in seen for words in ("new", "second", "third"))
    assert "'version': 1" in await said(world.plane, "save name=f text=again")


async def test_the_model_gets_the_turns_of_other_agents(world: World) -> None:
    """P2: in their place in the session; they are not stored twice."""
    await said(world.plane, "one")
    await said(world.plane, "two", agent="other")
    await said(world.plane, "three")
    await said(world.plane, "four", agent="other")
    await said(world.plane, "five")
    assert world.model.seen[-1] == [
        ("user", "one"),
        ("model", "heard one"),
        ("user", "two"),
        ("model", "the other heard two"),
        ("user", "three"),
        ("model", "heard three"),
        ("user", "four"),
        ("model", "the other heard four"),
        ("user", "five"),
    ]
    assert len(await events(world.plane)) == 6


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ("ask question=why?", "why?"),
        ("order thing=x", "noted order: {'status': 'pending', 'thing': 'x'}"),
        ("pay amount=5", "Please approve or reject the tool call pay() by responding with a FunctionResponse"),
    ],
)
async def test_a_long_running_tool_asks_the_user(world: World, words: str, question: str) -> None:
    """I1: a long-running call makes the task wait, and the answer is its response, under the invocation that asked."""
    task = await world.plane.run(words, context_id=C)
    assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert text(task.status.message).startswith(question)
    await world.plane.submit("yes", task_id=task.id, context_id=C)
    task = await world.plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
    name = words.partition(" ")[0]
    expected = "'paid': '5'" if name == "pay" else "'result': 'yes'"
    assert expected in text(task.status.message)
    assert {event["invocationId"] for event in await events(world.plane)} == {invocation(task)}
    assert [text(message) for message in task.history if message.role == a2a.ROLE_USER] == [words, "yes"]
    await said(world.plane, "and now")
    assert world.model.seen[-1][-1] == ("user", "and now")


async def test_a_function_response_answers_the_call_that_it_names(world: World) -> None:
    """I1: a data part with a function response is passed on unchanged."""
    task = await world.plane.run("ask question=why?", context_id=C)
    (call_id,) = (i for event in await events(world.plane) for i in event.get("longRunningToolIds", ()))
    answer = a2a.Part()
    answer.data.struct_value.update({"id": call_id, "name": "ask", "response": {"because": 7}})
    answer.metadata.update({"adk_type": "function_response"})
    await world.plane.submit("", task_id=task.id, context_id=C, parts=[answer])
    task = await world.plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
    assert "{'because': 7}" in text(task.status.message)


async def test_an_answer_that_names_no_open_call_is_asked_for_again(world: World) -> None:
    """I1: the calls stay open."""
    task = await world.plane.run("ask question=why?", context_id=C)
    asked = len(world.model.seen)
    wrong = a2a.Part()
    wrong.data.struct_value.update({"id": "of nobody", "name": "ask", "response": {"because": 7}})
    wrong.metadata.update({"adk_type": "function_response"})
    again = await world.plane.submit("", task_id=task.id, context_id=C, parts=[wrong])
    task = await world.plane.at_rest(again)
    assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED and text(task.status.message) == "why?"
    assert len(world.model.seen) == asked
    await world.plane.submit("so", task_id=task.id, context_id=C)
    task = await world.plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
    assert "'result': 'so'" in text(task.status.message)


async def test_an_answer_may_be_a_list(world: World) -> None:
    """I1: data that is not an object becomes the result."""
    task = await world.plane.run("ask question=which?", context_id=C)
    part = a2a.Part()
    part.data.list_value.extend(["a", "b"])
    await world.plane.submit("", task_id=task.id, context_id=C, parts=[part])
    task = await world.plane.reaches(task.id, a2a.TASK_STATE_COMPLETED)
    assert "'result': ['a', 'b']" in text(task.status.message)


async def test_a_waiting_task_does_not_block_another_task_of_its_session(world: World) -> None:
    """I1: the model gets no call without a response."""
    waiting = await world.plane.run("ask question=why?", context_id=C)
    assert await said(world.plane, "hello") == "heard hello"
    assert world.model.seen[-1] == [("user", "ask question=why?"), ("user", "hello")]
    await world.plane.submit("so", task_id=waiting.id, context_id=C)
    task = await world.plane.reaches(waiting.id, a2a.TASK_STATE_COMPLETED)
    assert "'result': 'so'" in text(task.status.message)


async def test_a_failing_model_fails_the_task(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """P9: with a readable reason, also if ADK ends without an exception; no secret is shown."""
    task = await world.plane.run("refuse", context_id=C)
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert text(task.status.message) == "The model ended with the error SAFETY."
    broken = await world.plane.run("break", context_id=C)
    assert broken.status.state == a2a.TASK_STATE_FAILED
    assert "hunter2" not in str(task) + str(broken)
    assert "hunter2" in caplog.text
    assert await said(world.plane, "hello") == "heard hello"


async def test_cancel_stops_the_model_and_keeps_nothing_partial(world: World) -> None:
    """P8: the model's stream is closed, and no piece of its text is an event of ADK."""
    sent = await world.plane.submit("wait", context_id=C)
    await world.model.waits.wait()
    await world.plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=sent.task.task_id))
    await world.model.left.wait()
    task = await world.plane.at_rest(sent)
    assert task.status.state == a2a.TASK_STATE_CANCELED
    assert [event["author"] for event in await events(world.plane)] == ["user"]
    assert await said(world.plane, "hello") == "heard hello"
    assert world.model.seen[-1] == [("user", "wait"), ("user", "hello")]


async def test_artifacts_are_shown_and_loaded_by_later_turns(world: World) -> None:
    """P5, P7: a saved version is a version of the task's artifact; later turns load the newest."""
    task = await world.plane.run("save name=f.txt text=first", context_id=C)
    (artifact,) = task.artifacts
    assert (artifact.artifact_id, artifact.name, artifact.parts[0].raw) == ("f.txt", "f.txt", b"first")
    assert (artifact.parts[0].media_type, artifact.metadata.fields["adk_version"].number_value) == ("text/plain", 0)
    task = await world.plane.run("save name=f.txt text=second", context_id=C)
    assert task.artifacts[0].parts[0].raw == b"second"
    assert "'text': 'second', 'names': ['f.txt']" in await said(world.plane, "load name=f.txt")
    assert "'text': None, 'names': []" in text(
        (await world.plane.run("load name=f.txt", context_id="elsewhere")).status.message
    )


async def test_a_large_artifact_is_stored_in_its_task_and_loaded_from_there(world: World) -> None:
    """P5, P7: more than a megabyte is stored once, in chunks. Later turns load each version until its task is
    deleted."""
    sizes = (2_500_000, 2_600_000)
    made: list[str] = []
    for size in sizes:
        sent = await world.plane.submit(f"save name=big text={size}", context_id=C)
        await world.plane.at_rest(sent)
        task = await world.plane.task(sent.task.task_id)
        assert b"".join(part.raw for part in task.artifacts[0].parts) == b"x" * size
        made.append(task.id)
    assert all(len(str(event)) < 10_000 for event in await events(world.plane))
    assert "2600000 b'x' text/plain" in await said(world.plane, "load name=big")
    assert "2500000 b'x' text/plain" in await said(world.plane, "load name=big version=0")
    await world.plane.stores.tasks(SERVICE).DeleteTask(tasks.DeleteTaskRequest(task_id=made[0]))
    assert "'text': None, 'names': ['big']" in await said(world.plane, "load name=big version=0")


async def test_the_model_gets_files_and_data_in_this_turn_and_later_ones(world: World) -> None:
    """P2: files unchanged, and data as JSON, from the events of ADK as from the history of other agents."""
    file, link, data = a2a.Part(raw=b"\0\xff", media_type="image/png"), a2a.Part(url="https://x/y"), a2a.Part()
    data.data.struct_value.update({"a": 1})
    for agent in ("adk", "other"):
        await world.plane.run("", context_id=C, agent=agent, parts=[file, link, data, a2a.Part(text="look")])
    await said(world.plane, "hello")
    line = "image/png: b'\\x00\\xff' https://x/y {\"a\": 1} look"
    assert [words for role, words in world.model.seen[-1] if role == "user"] == [line, line, "hello"]


async def test_an_event_too_large_for_the_session_fails_the_task_with_the_limit(world: World) -> None:
    """P9: more than 3 MiB; the next turn works."""
    task = await world.plane.run("flood size=4000000", context_id=C)
    assert task.status.state == a2a.TASK_STATE_FAILED
    assert (
        text(task.status.message) == "The session cannot store an event of obedient: an event must have at most 3 MiB."
    )
    assert await said(world.plane, "hello") == "heard hello"
    assert world.model.seen[-1] == [("user", "flood size=4000000"), ("user", "hello")]


async def test_characters_of_a_tool_result_that_no_database_stores_are_replaced(world: World) -> None:
    """P3: in the message and in the event of ADK; the next turn works."""
    task = await world.plane.run("odd", context_id=C)
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    (shown,) = [m for m in task.history if "function_response" in str(m.parts[0].metadata)]
    assert to_dict(shown.parts[0].data.struct_value)["response"] == {"text": "a\ufffdb\ufffdc"}
    assert await said(world.plane, "hello") == "heard hello"


async def test_the_usage_of_all_model_requests_is_in_the_task(world: World) -> None:
    """P9: summed over the run."""
    task = await world.plane.run("recall key=a", context_id=C)
    usage = to_dict(task.metadata)["taskplane.dev/usage"]
    assert usage == {"requests": 2, "input_tokens": 6, "output_tokens": 4}


async def test_the_model_gets_nothing_of_a_lost_attempt(stores: Stores) -> None:
    """C9, R5: the next attempt starts from the beginning, although the lost one left events of ADK."""
    agent, model = obedient()
    model.waits_after_tools = True
    again = Policy(on_orphan="rerun")
    async with open_plane(stores, ("adk", adapt(agent, "adk", again))) as plane:
        sent = await plane.submit("remember key=a value=b", context_id=C)
        await model.waits.wait()
    agent, model = obedient()
    async with open_plane(stores, ("adk", adapt(agent, "adk", again))) as plane:
        await plane.reaches(sent.task.task_id, a2a.TASK_STATE_COMPLETED)
        assert model.seen[0] == [("user", "remember key=a value=b")]
        assert await said(plane, "hello") == "heard hello"
        assert [words for _, words in model.seen[-1]] == [
            "remember key=a value=b",
            "remember({'key': 'a', 'value': 'b'})",
            "remember: {'kept': 'b'}",
            "noted remember: {'kept': 'b'}",
            "hello",
        ]


async def test_a_queued_turn_sees_no_later_turn(stores: Stores) -> None:
    """P2: with the strategy "queue", turns of another ADK agent meanwhile are left out, as in the history."""
    (first, model), (second, _) = obedient(), obedient()
    queued = adapt(first, "adk", Policy(strategy="queue"))
    async with open_plane(stores, ("adk", queued), ("second", adapt(second, "second"))) as plane:
        sent = await plane.submit("wait", context_id=C)
        await model.waits.wait()
        late = await plane.submit("late", context_id=C)
        await said(plane, "meanwhile", agent="second")
        await plane.stores.tasks().CancelTask(tasks.CancelTaskRequest(task_id=sent.task.task_id))
        assert text((await plane.at_rest(late)).status.message) == "heard late"
        assert model.seen[-1] == [("user", "wait"), ("user", "late")]
        await said(plane, "and now")
        assert "heard meanwhile" in str(model.seen[-1])


@pytest.mark.more
@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_an_agent_may_be_isolated(stores: Stores, isolation: str) -> None:
    """P3: in a thread or a process the services of a turn reach the plane as well."""
    async with open_plane(stores, loaded=[f"adk=tests.agents.adapters.adk_agents:agent@{isolation}"]) as plane:
        await said(plane, "remember key=a value=b")
        await said(plane, "save name=f text=first")
        assert "'found': 'b'" in await said(plane, "recall key=a")
        assert "'text': 'first'" in await said(plane, "load name=f")


async def test_an_app_and_a_runner_are_served_with_their_artifact_service(stores: Stores, tmp_path: Path) -> None:
    """P3: a runner keeps its own artifact service; the sessions are those of the plane."""
    agent, _ = obedient()
    files = FileArtifactService(root_dir=tmp_path)
    app = App(name="app", root_agent=agent)
    runner = Runner(app=app, session_service=InMemorySessionService(), artifact_service=files)
    async with open_plane(stores, ("runner", adapt(runner, "runner")), ("app", adapt(app, "app"))) as plane:
        task = await plane.run("save name=f text=first", context_id=C)
        assert task.artifacts[0].parts[0].raw == b"first"
        assert await files.list_artifact_keys(app_name="app", user_id="ann", session_id=C) == ["f"]
        assert "'names': []" in await said(plane, "load name=f", agent="app")
        assert len(await events(plane)) == 8


async def test_a_workflow_asks_its_user(stores: Stores) -> None:
    """I1: a node that requests input pauses the task; the answer continues at that node."""

    async def begin(node_input: Any) -> AsyncIterator[Any]:
        yield RequestInput(message="What is your name?", response_schema=None)

    def greet(node_input: Any) -> str:
        return f"Hello, {node_input}."

    workflow = Workflow(name="flow", edges=[("START", begin), (begin, greet)])
    async with open_plane(stores, ("flow", adapt(workflow, "flow"))) as plane:
        task = await plane.run("go", context_id=C)
        assert task.status.state == a2a.TASK_STATE_INPUT_REQUIRED
        assert text(task.status.message) == "What is your name?"
        answer = await plane.run("Ann", context_id=C, task_id=task.id)
        assert answer.status.state == a2a.TASK_STATE_COMPLETED
        assert text(answer.status.message) == "Hello, Ann."


def event(author: str, words: str = "", *, partial: bool = False, error: str | None = None) -> Event:
    content = types.ModelContent(parts=[types.Part(text=words)]) if words else None
    return Event(author=author, branch=f"all.{author}", content=content, partial=partial, error_code=error)


def test_texts_of_parallel_agents_are_streamed_one_after_the_other() -> None:
    """P3: each text is stored once."""
    translation = Translation()
    changes: list[Change] = []
    for given in [
        event("a", "one ", partial=True),
        event("b", "three ", partial=True),
        event("a", "two", partial=True),
        event("b", "four", partial=True),
        event("b", "three four"),
        event("a", "one two"),
    ]:
        changes += translation.take(given)
    changes += translation.rest()
    shown = [each.delta if isinstance(each, Text) else each for each in changes]
    (said_once,) = (each.message for each in changes if isinstance(each, Say))
    assert isinstance(said_once, a2a.Message) and text(said_once) == "one two"
    assert shown == ["one ", "two", Say(said_once), "three ", "four"]
    assert translation.held is not None and text(translation.held) == "three four"


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([event("a", "one", partial=True)], "The answer of the model was truncated."),
        ([event("a", error="MAX_TOKENS"), event("b", "two")], "The model ended with the error MAX_TOKENS."),
        ([event("a", error="UNAVAILABLE"), event("a", "two")], ""),
    ],
)
def test_a_run_fails_unless_its_failed_node_was_repeated(events: list[Event], error: str) -> None:
    """P9: a truncated answer is a failure, although ADK ends without one."""
    translation = Translation()
    for given in events:
        list(translation.take(given))
    list(translation.rest())
    assert translation.error == error


def test_the_page_prints_the_example() -> None:
    page = Path("docs/adk.md").read_text()
    assert f"```python\n{Path('docs/examples/adk_notes.py').read_text()}```" in page
    assert "taskplane dev --agent adk_notes:agent\n" in page


async def test_the_example_of_the_page_works(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """P3: as printed, with a scripted model."""
    monkeypatch.chdir("docs/examples")
    monkeypatch.setattr("sys.path", ["", *sys.path])
    model = Obedient()
    importlib.import_module("adk_notes").agent.model = model
    async with open_plane(stores, loaded=["adk_notes:agent"]) as plane:
        await said(plane, "note text=one")
        await said(plane, "note text=two")
        task = await plane.run("publish name=notes.md", context_id=C)
        assert (task.artifacts[0].artifact_id, text_of(task.artifacts[0])) == ("notes.md", "one\ntwo")
        asked = await plane.run("ask question=why?", context_id=C)
        assert text(asked.status.message) == "why?"
        answered = await plane.run("so", context_id=C, task_id=asked.id)
        assert "{'result': 'so'}" in text(answered.status.message)


def text_of(artifact: a2a.Artifact) -> str:
    return "".join(part.text for part in artifact.parts)
