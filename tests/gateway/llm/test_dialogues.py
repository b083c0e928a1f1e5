"""Dialogues with agents of language models: questions, answers, references, messages to running tasks, and rewinds."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from tests.agents.llm.turns import stage
from tests.executor.plane import until
from tests.gateway.conversing import (
    INVOCATION,
    STREAMS,
    WAYS,
    Way,
    data,
    flat,
    name_of,
    payload,
    responses,
    rewind,
    state_of,
    texts,
)
from tests.gateway.llm.served import REPORT, Served, conversation, kinds, open_served, task_id
from tests.gateway.plane import Event, Json, fresh
from tests.support.scripted_model import calls, text

from taskplane.agents.adapters import adapt

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENDS = [way for way in WAYS if not way.streams]
each_version = pytest.mark.parametrize("way", STREAMS, ids=name_of)
NEXT = {"0.3": "message/send", "1.0": "SendMessage"}

ASK = ToolDefinition(
    name="ask_user",
    description="Ask the user.",
    parameters_json_schema={"type": "object", "properties": {"question": {"type": "string"}}},
)
WRITE = calls(("createArtifact", REPORT))
SHORT = {"name": "Report", "description": "A short report.", "content": "0123"}


def asking(served: Served) -> Agent[None, Any]:
    """Return an agent that may ask the user, and makes artifacts."""
    agent: Agent[None, Any] = Agent(
        served.chat, output_type=[str, DeferredToolRequests], toolsets=[ExternalToolset([ASK])]
    )

    @agent.tool_plain(name="createArtifact")
    def create_artifact(name: str, description: str, content: str) -> str:
        return "made"

    return agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    def make(served: Served) -> dict[str, Any]:
        return {
            "llm": served.agent(),
            "auto": served.agent(artifact="auto"),
            "asking": adapt(asking(served), "asking"),
        }

    async with open_served(tmp_path_factory.mktemp("plane"), make) as found:
        yield found


async def say(served: Served, way: Way, words: str, agent: str = "llm", **of_message: Any) -> Json:
    """Send a message, and return the task or the message that answers it."""
    params = way.params("", words)
    del params["message"]["contextId"]
    params["message"] |= of_message
    path = f"/agents/{agent}"
    if not way.streams:
        return payload(await served.plane.result(way.method, params, path=path))[1]
    found = await served.plane.streamed(way.method, params, path=path)
    kind, last = payload(found[-1].result)
    return last if kind == "message" else await task(served, way, task_id(found))


async def task(served: Served, way: Way, id_: str) -> Json:
    return dict(await served.plane.result("tasks/get" if way.version == "0.3" else "GetTask", {"id": id_}))


@pytest.mark.parametrize(("way", "refining"), [*((way, "llm") for way in STREAMS), *((way, "asking") for way in SENDS)])
async def test_a_refinement_is_a_new_task_that_has_the_artifact_of_the_first(
    served: Served, way: Way, refining: str
) -> None:
    """I5, I1, I2, I3: the answer to a question continues its task. The refinement is another task of the session, and
    its request to the model has the artifact of the first."""
    work = iter(
        [calls(("ask_user", {"question": "About what?"})), WRITE, text("Written."), calls(("createArtifact", SHORT))]
    )
    served.answers(work=lambda _: next(work, text("Shorter.")))
    asked = await say(served, way, "write a report", "asking")
    assert state_of(asked) == "input-required" and texts([asked["status"]["message"]])[0] == "About what?"
    done = await say(served, way, "bridges", "asking", taskId=asked["id"])
    assert (done["id"], done["contextId"], state_of(done)) == (asked["id"], asked["contextId"], "completed")
    assert texts(done["artifacts"]) == [REPORT["content"]]
    before = await task(served, way, done["id"])
    requests_before = len(served.model.requests)
    session = {"contextId": done["contextId"]}
    short = await say(served, way, "make it shorter", refining, referenceTaskIds=[done["id"]], **session)
    assert state_of(short) == "completed" and texts(short["artifacts"]) == ["0123"]
    assert short["id"] != done["id"] and short["contextId"] == done["contextId"]
    message = next(each for each in (await task(served, way, short["id"]))["history"] if texts([each])[0])
    assert (texts([message]), message["referenceTaskIds"]) == (["make it shorter"], [done["id"]])
    assert await task(served, way, done["id"]) == before
    first = served.model.requests[requests_before]
    assert REPORT["content"] in first.said[-1][1] and first.said[-1][1].endswith("make it shorter")
    dialogue = [words for words in await conversation(served.plane, done["contextId"]) if words]
    assert dialogue == ["write a report", "About what?", "bridges", "Written.", "make it shorter", "Shorter."]
    listed = await data(served.plane, f"/api/sessions/{done['contextId']}/tasks")
    assert [each["id"] for each in listed] == [done["id"], short["id"]]


@pytest.mark.parametrize("way", SENDS, ids=name_of)
async def test_references_to_foreign_and_unknown_tasks_are_dropped(served: Served, way: Way) -> None:
    """I3: there is no error, and the model does not get the artifacts of other owners."""
    work = iter([calls(("createArtifact", {**REPORT, "content": "secret"})), text("Done."), WRITE, text("Done.")])
    served.answers(work=lambda _: next(work, text("Shorter.")))
    params = way.params(fresh(), "write")
    foreign = payload(await served.plane.result(way.method, params, x_user_id="bob"))[1]
    mine = await say(served, way, "write")
    named = [foreign["id"], mine["id"], "none"]
    short = await say(served, way, "shorter", "auto", referenceTaskIds=named, contextId=mine["contextId"])
    assert short["history"][0]["referenceTaskIds"] == [mine["id"]]
    for request in served.model.requests[-2:]:
        assert REPORT["content"] in str(request.said) and "secret" not in str(request.said)


@each_version
async def test_a_message_to_a_working_task_is_in_the_next_model_request(served: Served, way: Way) -> None:
    """I1: the message is answered once, before the task completes. Other clients of the task see it."""
    plane, context = served.plane, fresh()
    work = iter([calls(("think", {})), text("Both answered.")])
    served.answers(work=lambda _: next(work))
    found: list[Event] = []
    async with (
        asyncio.timeout(20),
        plane.stream(way.method, way.params(context, "why?"), path="/agents/auto") as events,
    ):
        async for event in events:
            found.append(event)
            if "function_call" in str(event.data):
                params = way.params(context, "and how?")
                params["message"]["taskId"] = task_id(found)
                params["configuration"] = {"blocking": False} if way.version == "0.3" else {"returnImmediately": True}
                answer = payload(await plane.result(NEXT[way.version], params, path="/agents/auto"))[1]
                assert (answer["id"], state_of(answer)) == (task_id(found), "working")
                await _wait_for_renewals(served)
                served.gate.set()
    assert served.model.requests[-1].said[-1] == ("user", "and how?") and served.stages == ["route", "work", "work"]
    assert [state_of(thing) for _, thing in kinds(found)].count("completed") == 1
    others = [thing["status"]["message"] for _, thing in kinds(found) if "and how?" in str(thing)]
    assert [message["role"] in ("user", "ROLE_USER") for message in others] == [True]
    dialogue = [words for words in await conversation(plane, context) if words]
    assert dialogue == ["why?", "and how?", "Both answered."]


async def _wait_for_renewals(served: Served) -> None:
    """Wait for lease renewals, by which runs receive messages."""
    made = served.plane.behind.stores.calls
    wanted = made["Renew"] + 2
    await until(lambda: made["Renew"] >= wanted)


@pytest.mark.parametrize("way", SENDS, ids=name_of)
async def test_messages_cancels_and_documents_for_an_ended_task_are_refused(served: Served, way: Way) -> None:
    """I4, I1, I2: the task is unchanged, and the model gets no further request."""
    plane = served.plane
    served.answers(work=text("Ready."), artifact=WRITE)
    done = await say(served, way, "write")
    assert state_of(done) == "completed"
    before, asked = await task(served, way, done["id"]), len(served.model.requests)

    async def refused(**message: Any) -> int:
        params = way.params(done["contextId"], "more")
        params["message"] |= message
        return int((await plane.error(way.method, params))["code"])

    assert await refused(taskId=done["id"]) == -32004
    assert await refused(taskId=done["id"], contextId=fresh()) == -32602
    assert await refused(taskId="none") == -32001
    cancel = "tasks/cancel" if way.version == "0.3" else "CancelTask"
    assert (await plane.error(cancel, {"id": done["id"]}))["code"] == -32002
    document = {"id": done["id"], "contextId": done["contextId"], "status": {"state": "working"}}
    assert (await plane.http.post("/api/tasks", json=document)).status_code == 409
    assert await task(served, way, done["id"]) == before and len(served.model.requests) == asked
    assert [words for words in await conversation(plane, done["contextId"]) if words] == ["write", "Ready."]


@each_version
async def test_after_a_rewind_the_model_gets_exactly_the_effective_history(served: Served, way: Way) -> None:
    """R3, R6, P3: with direct answers and with tasks. No request contains a cut turn."""
    plane, context = served.plane, fresh()
    served.answers(
        route=lambda request: text("Hello.") if request.said[-1][1] == "hi" else calls(("createTask", {})),
        work=lambda request: text(f"Answer to {request.said[-3][1]}."),
    )
    for words in ("hi", "one", "two"):
        await say(served, way, words, "auto", contextId=context)
    cut = next(each["metadata"][INVOCATION] for each in await flat(plane, context) if texts([each]) == ["one"])
    served.answers(work=text("Again."), artifact=WRITE)
    await rewind(plane, way, context, cut, "one again")
    (first, *_) = served.model.requests
    assert stage(first) == "work" and first.said == [("user", "hi"), ("assistant", "Hello."), ("user", "one again")]
    effective = await conversation(plane, context)
    assert effective == ["hi", "Hello.", "one again", "Again."]
    served.answers(route=text("Three."))
    await responses(plane, way, way.params(context, "three"))
    assert [words for _, words in served.model.requests[0].said] == [*effective, "three"]
