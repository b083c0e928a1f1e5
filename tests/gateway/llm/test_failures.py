"""Failures of the language model as clients of the gateway see them, and retries."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from tests.executor.plane import until
from tests.gateway.conversing import STREAMS, WAYS, Way, data, name_of, payload, responses, state_of, texts
from tests.gateway.llm.served import Served, artifacts, chunks, conversation, kinds, log, open_served, writing
from tests.gateway.plane import Event, fresh
from tests.support.scripted_model import (
    Answer,
    CallPiece,
    Cut,
    Delta,
    Failing,
    Finish,
    Step,
    Until,
    calls,
    hang,
    refused,
    text,
)

from taskplane.agents.agent import AgentError

pytestmark = pytest.mark.asyncio(loop_scope="module")

each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
each_version = pytest.mark.parametrize("way", STREAMS, ids=name_of)

TASK = calls(("createTask", {"reason": "it is long"}))
WRITTEN = [*writing("one"), CallPiece(0, '"}'), Finish("tool_calls")]
LIMITED = refused(429, retry_after=0)
FAULTY = refused(500, retry_after=0)
LOST: list[Step] = [Cut()]

BROKE_OFF = "The language model broke off in the middle of its answer."
# The answer of the model, the agent, and the reason that clients get.
FAILURES: dict[str, tuple[Sequence[Step], str, str]] = {
    "refused": (refused(401), "llm", "The language model did not accept the credentials of this agent."),
    "limited for long": (
        refused(429, retry_after=60),
        "llm",
        "The language model takes no more requests at the moment. Try again later.",
    ),
    "cut": ([Delta("half"), Cut()], "llm", BROKE_OFF),
    "cut cleanly": (text("half", finish=None), "llm", BROKE_OFF),
    "faulty": (
        [Delta("half"), Failing("secret-of-the-provider")],
        "llm",
        "The provider of the language model has a fault. Try again later.",
    ),
    "cut in a call": ([Delta("half"), *calls(("think", '{"wo'), finish=None), Cut()], "llm", BROKE_OFF),
    "silent": (hang(), "hasty", "The language model did not answer in time."),
    "silent for long": (hang(), "brief", "The agent was stopped because it exceeded its time limit."),
    "known error of a tool": (calls(("known", {})), "llm", "There is no such item."),
    "error of a tool": (calls(("unknown", {})), "llm", "The agent failed unexpectedly; its log has the cause under"),
    "tool server gone": (text("never asked"), "toolless", "A tool server (MCP) of the agent could not be reached."),
}
ARTIFACTS: dict[str, tuple[Sequence[Step], str]] = {
    "cut": (writing("half", then=(Cut(),)), BROKE_OFF),
    "cut cleanly": (writing("half"), "The language model stopped in the middle of an artifact."),
    "too long": (
        writing("half", then=(Finish("length"),)),
        "The language model stopped in the middle of an artifact.",
    ),
}


async def known() -> str:
    """Fail."""
    raise AgentError("There is no such item.")


def unknown() -> str:
    """Fail."""
    raise RuntimeError("secret-of-the-tool")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    def make(served: Served) -> dict[str, Any]:
        return {
            "llm": served.agent(tools=[known, unknown, served.think], artifact="auto"),
            "always": served.agent(),
            "hasty": served.agent(timeout=0.3, attempts=1),
            "brief": served.agent(run_limit=0.4),
            "toolless": served.agent(mcp=["http://127.0.0.1:9/mcp"]),
        }

    async with open_served(tmp_path_factory.mktemp("plane"), make) as found:
        yield found


@each_version
async def test_a_failed_model_request_is_retried_before_its_first_token(served: Served, way: Way) -> None:
    """P9: in each stage. The client sees an ordinary turn."""
    route = iter([LIMITED, FAULTY, TASK])
    work = iter([LOST, text("Ready.")])
    forced = iter([FAULTY, WRITTEN])
    served.answers(route=lambda _: next(route), work=lambda _: next(work), artifact=lambda _: next(forced))
    context = fresh()
    found = await served.plane.streamed(way.method, way.params(context, "write"), path="/agents/always")
    states = [state_of(thing) for kind, thing in kinds(found) if kind != "artifact-update"]
    assert list(dict.fromkeys(states)) == ["submitted", "working", "completed"]
    assert "".join(texts([each["artifact"] for each in chunks(found)])) == "one"
    assert served.stages == [*["route"] * 3, *["work"] * 2, *["artifact"] * 2]
    assert await conversation(served.plane, context) == ["write", "Ready."]


@each_way
@pytest.mark.parametrize("at", ["route", "work"])
async def test_a_task_fails_after_three_failed_model_requests(served: Served, way: Way, at: str) -> None:
    """P9: also if the request decides whether there is a task."""
    answers: dict[str, Answer] = {"route": TASK, at: FAULTY}
    served.answers(**answers)
    found = await responses(served.plane, way, way.params(fresh(), "write"))
    assert state_of(found[-1][1]) == "failed"
    reason = "The provider of the language model has a fault. Try again later."
    assert texts([found[-1][1]["status"]["message"]]) == [reason]
    assert served.stages.count(at) == 3 and served.stages[-1] == at


@pytest.mark.parametrize("way", [Way("0.3", True), Way("1.0", False)], ids=name_of)
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_has_a_reason_and_keeps_the_streamed_text(served: Served, way: Way, failure: str) -> None:
    """P9: the reason contains no secret. A request that has begun or cannot succeed is not retried, and the next
    message is an ordinary turn."""
    plane, context = served.plane, fresh()
    steps, agent, reason = FAILURES[failure]
    served.answers(work=steps)
    found = await _answers(served, way, context, f"/agents/{agent}")
    kind, last = payload(found[-1])
    assert (kind, state_of(last)) == ("status-update" if way.streams else "task", "failed")
    (words,) = texts([last["status"]["message"]])
    assert words.startswith(reason)
    asked = ["route"] if agent == "toolless" else ["route", "work"]
    # On a slow machine a short time limit may end before the request to the model.
    assert served.stages == asked or (agent in ("hasty", "brief") and served.stages == ["route"])
    await until(lambda: not plane.behind.executor.runs.active)
    assert all(request.is_over() for request in served.model.requests)
    half = ["half"] if "half" in str(steps) else []
    assert [each for each in await conversation(plane, context) if each] == ["write", *half, words]
    (info,) = await data(plane, f"/api/sessions/{context}/task-infos")
    assert (info["state"], info["error"]) == ("failed", words)
    # Operators see the cause of a crash, and here every caller is one.
    logged = [{**event, "cause": ""} for event in await log(plane, info["taskId"])]
    assert "secret" not in str(found) + str(logged)
    served.answers(route=text("Well."))
    (answer,) = await _answers(served, way, context, "/")
    assert texts([payload(answer)[1]]) == ["Well."]


async def _answers(served: Served, way: Way, context: str, path: str) -> list[Any]:
    params = way.params(context, "write")
    if way.streams:
        return [event.result for event in await served.plane.streamed(way.method, params, path=path)]
    return [await served.plane.result(way.method, params, path=path)]


@each_version
@pytest.mark.parametrize("forced", [False, True], ids=["natural", "forced"])
@pytest.mark.parametrize("failure", ARTIFACTS)
async def test_an_interrupted_artifact_fails_its_task_and_is_kept(
    served: Served, way: Way, forced: bool, failure: str
) -> None:
    """P7, P9: its streamed part is stored, and the model does not write it again."""
    steps, reason = ARTIFACTS[failure]
    served.answers(**({"work": text("Ready."), "artifact": steps} if forced else {"work": steps}))
    context = fresh()
    found = await served.plane.streamed(way.method, way.params(context, "write"), path="/agents/always")
    kind, last = kinds(found)[-1]
    assert (kind, state_of(last), texts([last["status"]["message"]])) == ("status-update", "failed", [reason])
    assert "".join(texts([each["artifact"] for each in chunks(found)])) == "half"
    (artifact,) = await artifacts(served.plane, last["taskId"])
    whole = await served.plane.http.get(f"/api/tasks/{last['taskId']}/artifacts/{artifact['artifactId']}")
    assert whole.text == "half"
    assert served.stages == ["route", "work", *(["artifact"] if forced else [])]


@each_version
async def test_a_task_is_visible_before_the_first_token(served: Served, way: Way) -> None:
    """P3, P9: the task is working. A client may disconnect and reconnect meanwhile."""
    plane, context, go_on = served.plane, fresh(), asyncio.Event()
    served.answers(work=[Until(go_on), *text("At last.")])
    found: list[Event] = []
    async with asyncio.timeout(20), plane.stream(way.method, way.params(context, "write")) as events:
        async for event in events:
            found.append(event)
            if len(found) == 2:
                break
    assert [state_of(thing) for _, thing in kinds(found)] == ["submitted", "working"]
    go_on.set()
    task_id = kinds(found)[0][1]["id"]
    method = "tasks/resubscribe" if way.version == "0.3" else "SubscribeToTask"
    rest = await plane.streamed(method, {"id": task_id}, last_event_id=found[-1].id)
    assert [state_of(thing) for _, thing in kinds(rest)] == ["completed"]
    assert served.stages == ["route", "work"] and await conversation(plane, context) == ["write", "At last."]
