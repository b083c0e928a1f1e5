"""All processes that run agents are killed during runs of agents of every kind, and other processes continue."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio
from tests.scenarios.plane import ON_ORPHAN, Served
from tests.scenarios.script import COUNTED, QUESTION, Gate
from tests.scenarios.test_scenarios import text_of
from tests.support.node import MISSING
from tests.system.recorder import COMPLETED, Record, Recorder
from tests.system.wire import Json, client, raw_log, result, send, until

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="session")]

FAILED = "TASK_STATE_FAILED"
KILLED = [agent for agent in ON_ORPHAN if not (agent == "node" and MISSING)]


@dataclass
class Aftermath:
    """The events that the client of one agent received before and after the kill: of a text, of an artifact, and of the
    earlier task with a question."""

    plane: httpx.AsyncClient
    http: httpx.AsyncClient
    text: Record
    artifact: Record
    asked: Json

    @property
    def chunks(self) -> list[Json]:
        found = [content.get("artifactUpdate") for content in self.artifact.contents.values()]
        return [chunk for chunk in found if chunk]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def after(served: Served) -> AsyncGenerator[dict[str, Aftermath]]:
    """One kill of all processes that run agents, with three tasks of each agent: in a text, in an artifact, and at a
    question."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(client(served.plane.url))
        agents = {
            agent: await stack.enter_async_context(client(f"{served.plane.url}/agents/{agent}")) for agent in KILLED
        }
        asked = {agent: dict((await send(http, "ask"))["task"]) for agent, http in agents.items()}
        recorders = {agent: Recorder(http) for agent, http in agents.items()}
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            for recorder in recorders.values():
                group.create_task(recorder.follow("slow takeover"))
                group.create_task(recorder.follow("artifact takeover"))

            async def shown() -> bool:
                seen = [str(record.contents) for recorder in recorders.values() for record in recorder.records]
                begun = ["begun" in each or "artifactUpdate" in each for each in seen]
                return len(begun) == 2 * len(recorders) and all(begun)

            await until(shown, 60)
            await served.kill_workers()
            await served.plane.kill("executor")
            # A lost task cannot end before it is lost.
            Gate("takeover").open()
            await served.plane.start("executor")
            await served.start_workers()
        yield {
            agent: Aftermath(plane, agents[agent], recorder.records[0], recorder.records[1], asked[agent])
            for agent, recorder in recorders.items()
        }


def agents(*fates: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("agent", [agent for agent in KILLED if ON_ORPHAN[agent] in fates])


@agents("fail", "rerun", "resume")
async def test_clients_see_every_event_once_across_a_kill(after: dict[str, Aftermath], agent: str) -> None:
    """C1, C5: in order and without a gap. The received events are those of the log."""
    seen = after[agent]
    for record in (seen.text, seen.artifact):
        log = {event["generation"]: event["event"] for event in await raw_log(seen.plane, record.task_id)}
        first, *others = record.generations
        assert others == [generation for generation in log if generation > first and log[generation]]
        assert all(record.contents[generation] == log[generation] for generation in others)
        assert record.resyncs == 0


@agents("fail")
async def test_c9_a_task_that_may_not_run_again_fails_and_keeps_its_output(
    after: dict[str, Aftermath], agent: str
) -> None:
    """C9: with EXECUTOR_LOST; the text and the artifact until then are in the task."""
    seen = after[agent]
    assert seen.text.state == seen.artifact.state == FAILED
    task = await result(seen.http, "GetTask", {"id": seen.text.task_id})
    assert task["status"]["message"]["metadata"]["reason"] == "EXECUTOR_LOST"
    assert interrupted(task) == ["begun"]
    (made,) = (await result(seen.http, "GetTask", {"id": seen.artifact.task_id}))["artifacts"]
    assert text_of(made) and COUNTED.startswith(text_of(made))
    assert text_of(made) == "".join(text_of(chunk["artifact"]) for chunk in seen.chunks)


@agents("rerun")
async def test_c9_another_process_runs_a_lost_task_again(after: dict[str, Aftermath], agent: str) -> None:
    """C9, P5: the second attempt completes the task, and its artifact begins anew instead of growing twice."""
    seen = after[agent]
    assert seen.text.state == seen.artifact.state == COMPLETED
    task = await result(seen.http, "GetTask", {"id": seen.text.task_id})
    assert text_of(task["status"]["message"]) == "finished"
    assert interrupted(task) == ["begun"]
    assert max(event["attempt"] for event in await raw_log(seen.plane, task["id"])) == 2
    (made,) = (await result(seen.http, "GetTask", {"id": seen.artifact.task_id}))["artifacts"]
    shown = ""
    for chunk in seen.chunks:
        shown = text_of(chunk["artifact"]) if not chunk.get("append") else shown + text_of(chunk["artifact"])
    assert text_of(made) == shown == COUNTED


@agents("resume")
async def test_c9_a_task_that_resumes_continues_where_it_was_lost(after: dict[str, Aftermath], agent: str) -> None:
    """C9, P5: no chunk of its artifact comes twice, and earlier messages stay."""
    seen = after[agent]
    assert seen.text.state == seen.artifact.state == COMPLETED
    assert "".join(text_of(chunk["artifact"]) for chunk in seen.chunks) == COUNTED
    (made,) = (await result(seen.http, "GetTask", {"id": seen.artifact.task_id}))["artifacts"]
    assert text_of(made) == COUNTED
    task = await result(seen.http, "GetTask", {"id": seen.text.task_id})
    assert text_of(task["status"]["message"]) == "finished" and "begun" in str(task["history"])


@agents("fail", "rerun", "resume")
async def test_i1_a_question_is_answered_in_another_process(after: dict[str, Aftermath], agent: str) -> None:
    """I1, C9, W7: the state of an agent at its question is not lost with its process."""
    seen = after[agent]
    assert text_of(seen.asked["status"]["message"]) == QUESTION
    names = {"taskId": seen.asked["id"], "contextId": seen.asked["contextId"]}
    answered = (await send(seen.http, "Ann", **names))["task"]
    assert answered["id"] == seen.asked["id"] and answered["status"]["state"] == COMPLETED
    assert text_of(answered["status"]["message"]) == "Hello, Ann."


def interrupted(task: Json) -> list[str]:
    """The texts that a lost attempt did not finish."""
    return [text_of(message) for message in task["history"] if message.get("metadata", {}).get("interrupted")]
