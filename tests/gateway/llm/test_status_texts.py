"""Status texts of the llm agent, during the work and afterwards."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.agents.llm.turns import stage
from tests.executor.plane import until
from tests.gateway.conversing import STREAMS, Way, data, name_of, state_of, texts
from tests.gateway.llm.served import (
    Served,
    chunks,
    conversation,
    kinds,
    log,
    open_served,
    status_texts,
    task_id,
    writing,
)
from tests.gateway.plane import Event, Plane, fresh
from tests.support.scripted_model import Answer, CallPiece, Delta, Finish, Request, Until, calls, hang, refused, text

from taskplane.agents.agent import Policy, Turn
from taskplane.agents.llm import LanguageModel

pytestmark = pytest.mark.asyncio(loop_scope="module")

INTERVAL = 0.02
each_version = pytest.mark.parametrize("way", STREAMS, ids=name_of)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    def make(served: Served) -> dict[str, Any]:
        return {"llm": served.agent(), "auto": served.agent(artifact="auto")}

    async with open_served(tmp_path_factory.mktemp("plane"), make, status_interval=INTERVAL) as found:
        yield found


class StatusModel:
    """A model that answers requests for status texts with these, and then blocks until `release` is set."""

    def __init__(self, words: Iterable[str]) -> None:
        self.exhausted, self.release = asyncio.Event(), asyncio.Event()
        self._words = iter(words)

    def __call__(self, request: Request) -> Answer:
        if (words := next(self._words, None)) is not None:
            return text(words)
        self.exhausted.set()
        return [Until(self.release), *text("Too late")]


async def stored(plane: Plane, id_: str, context: str) -> list[str]:
    """Return the status texts of a task, and check that all routes agree."""
    found = await data(plane, f"/api/tasks/{id_}/messages?kind=status-message")
    assert all(message["messageId"] and message["metadata"]["kind"] == "status-message" for message in found)
    page = await data(plane, f"/api/sessions/{context}/messages?kind=status-message")
    assert page["messages"] == found
    logged = [each["event"]["statusUpdate"] for each in await log(plane, id_) if each["kind"] == "status_text"]
    assert texts([each["status"]["message"] for each in logged]) == texts(found)
    return texts(found)


@each_version
async def test_status_texts_end_at_an_artifact_and_do_not_repeat(served: Served, way: Way) -> None:
    """P13, P4, P5: they come at an interval, are short and repeat none of the last five. The one that the model writes
    when the artifact begins is never shown. P10: they are read by kind, and in no conversation."""
    plane, context, go_on = served.plane, fresh(), asyncio.Event()
    model = StatusModel(["Reading", "Reading", "x" * 51, "Thinking", '"Thinking."', "Reading", "Writing"])
    written = writing("one ", then=(Until(go_on), CallPiece(0, 'two"}'), Finish("tool_calls")))
    work = iter([calls(("think", {})), written, text("Done.")])
    served.answers(work=lambda _: next(work), status=model)
    found: list[Event] = []

    async def follow() -> None:
        async with plane.stream(way.method, way.params(context, "write")) as events:
            async for event in events:
                found.append(event)
                if chunks(found) and not model.release.is_set():
                    model.release.set()
                    await until(asked_for_status(served)[-1].is_over)
                    go_on.set()

    async with asyncio.timeout(20):
        following = asyncio.create_task(follow())
        await model.exhausted.wait()
        served.gate.set()
        await following
    shown = kinds(found)
    assert status_texts(found) == ["Reading", "Thinking", "Writing"]
    marked = [at for at, (_, thing) in enumerate(shown) if "status-message" in str(thing)]
    assert {(shown[at][0], state_of(shown[at][1])) for at in marked} == {("status-update", "working")}
    first = [kind for kind, _ in shown].index("artifact-update")
    assert max(marked) < first and state_of(shown[-1][1]) == "completed"
    assert await stored(plane, task_id(found), context) == ["Reading", "Thinking", "Writing"]
    assert await conversation(plane, context) == ["write", "", "", "Done."]
    assert not {"Reading", "Thinking", "Writing"} & set(
        texts(await data(plane, f"/api/tasks/{task_id(found)}/messages"))
    )
    for request in served.model.requests:
        assert stage(request) == "status" or "Thinking" not in str(request.body["messages"])
    last = asked_for_status(served)[-1]
    assert not last.tools and "50 characters" in last.said[-1][1]
    assert all(word in last.said[-1][1] for word in ("Reading", "Thinking", "Writing"))


def asked_for_status(served: Served) -> list[Request]:
    return [request for request in served.model.requests if stage(request) == "status"]


@each_version
@pytest.mark.parametrize("end", ["completed", "failed", "canceled"])
async def test_no_status_text_follows_the_end_of_a_task(served: Served, way: Way, end: str) -> None:
    """P4, P8, P9: a running request for one is aborted, and its connection closed."""
    plane, context, model = served.plane, fresh(), StatusModel(["Reading"])
    ends = {"completed": text("Done."), "failed": refused(401), "canceled": [Delta("I wri"), *hang()]}
    work = iter([calls(("think", {})), ends[end]])
    served.answers(work=lambda _: next(work), status=model)
    cancel = "tasks/cancel" if way.version == "0.3" else "CancelTask"
    found: list[Event] = []

    async def follow() -> None:
        async with plane.stream(way.method, way.params(context, "go"), path="/agents/auto") as events:
            async for event in events:
                found.append(event)

    async with asyncio.timeout(20):
        following = asyncio.create_task(follow())
        await model.exhausted.wait()
        served.gate.set()
        if end == "canceled":
            await until(lambda: stage(served.model.requests[-1]) == "work" and len(served.stages) == 3)
            await plane.result(cancel, {"id": task_id(found)})
        await following
        await asked_for_status(served)[-1].closed.wait()
    assert state_of(kinds(found)[-1][1]) == end and status_texts(found) == ["Reading"]
    await until(lambda: not plane.behind.executor.runs.active)
    assert await stored(plane, task_id(found), context) == ["Reading"]
    assert (await log(plane, task_id(found)))[-1]["kind"] == "status"


class Resuming(LanguageModel):
    """An agent that resumes the task of a lost process."""

    def policy(self, turn: Turn) -> Policy:
        return Policy(on_orphan="resume")


@pytest.mark.asyncio(loop_scope="function")
async def test_no_status_text_is_repeated_after_a_restart(tmp_path: Path) -> None:
    """P4, P13: stores, executor and gateway restart. The earlier texts are read from storage."""

    def make(served: Served) -> dict[str, Any]:
        return {"llm": served.agent(kind=Resuming, artifact="auto")}

    context, words = fresh(), ["One", "Two", "Three", "Four", "Five", "Six"]
    async with open_served(tmp_path, make, status_interval=INTERVAL, drain_timeout=0.0) as served:
        served.answers(work=calls(("think", {})), status=StatusModel(words))
        found: list[Event] = []
        async with served.plane.stream("SendStreamingMessage", Way("1.0", True).params(context, "go")) as events:
            async for event in events:
                found.append(event)
                if status_texts(found) == words:
                    break
    async with open_served(tmp_path, make, status_interval=INTERVAL) as served:
        plane, model = served.plane, StatusModel(["Six", "Two", "One", "Three", "Seven"])
        served.answers(work=[Until(model.exhausted), *text("Done.")], status=model)
        cursor = found[-1].id
        rest = await plane.streamed("SubscribeToTask", {"id": task_id(found)}, last_event_id=cursor)
        assert status_texts(rest) == ["One", "Seven"] and state_of(kinds(rest)[-1][1]) == "completed"
        assert await stored(plane, task_id(found), context) == [*words, "One", "Seven"]
        asked = asked_for_status(served)[0].said[-1][1]
        assert all(word in asked for word in words[1:]) and "One" not in asked
        assert (await conversation(plane, context))[-1] == "Done."
