"""Turns of the llm agent for clients of both versions: direct answers, artifacts, and resumed streams."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from tests.executor.plane import until
from tests.gateway.conversing import STREAMS, WAYS, Way, data, name_of, payload, responses, state_of, texts
from tests.gateway.llm.served import (
    Served,
    artifacts,
    chunks,
    conversation,
    gated,
    kinds,
    log,
    open_served,
    task_id,
    writing,
)
from tests.gateway.plane import GROWING, Event, fresh
from tests.support.scripted_model import CallPiece, Delta, Finish, Until, calls, text

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUBSCRIBE = {"0.3": "tasks/resubscribe", "1.0": "SubscribeToTask"}
each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
each_version = pytest.mark.parametrize("way", STREAMS, ids=name_of)

END = (CallPiece(0, '"}'), Finish("tool_calls"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    def make(served: Served) -> dict[str, Any]:
        return {
            "llm": served.agent(),
            "auto": served.agent(artifact="auto"),
            "slow": served.agent(direct_within=0.05),
            "patient": served.agent(direct_within=0.05, direct_within_unary=20.0),
        }

    async with open_served(tmp_path_factory.mktemp("plane"), make) as found:
        yield found


@each_way
async def test_a_direct_answer_is_one_message_without_a_task(served: Served, way: Way) -> None:
    """P13, P1, P2: the message of the user is stored before the model answers. The client gets only the text of the
    model, and the next request contains both."""
    plane, context, gate = served.plane, fresh(), asyncio.Event()
    served.answers(route=[Delta("Good "), Until(gate), Delta("morning"), Finish()])
    asked = asyncio.create_task(responses(plane, way, way.params(context, "hello")))
    await until(lambda: bool(served.model.requests) and served.model.requests[0].begun.is_set())
    saved = await data(plane, f"/api/sessions/{context}/effective_history")
    assert texts(saved["messages"]) == ["hello"]
    gate.set()
    ((kind, message),) = await asked
    assert (kind, texts([message]), message["contextId"]) == ("message", ["Good morning"], context)
    assert message["role"] in ("agent", "ROLE_AGENT") and message["messageId"] and "taskId" not in message
    assert await conversation(plane, context) == ["hello", "Good morning"]
    assert (await plane.result("ListTasks", {"contextId": context}))["tasks"] == []
    await responses(plane, way, way.params(context, "and you?"))
    assert [request.said for request in served.model.requests] == [
        [("user", "hello")],
        [("user", "hello"), ("assistant", "Good morning"), ("user", "and you?")],
    ]


@each_version
async def test_a_natural_artifact_is_streamed_as_it_is_written_and_stored_once(served: Served, way: Way) -> None:
    """P13, P3, P5, P6: each chunk reaches the client before the model writes the next one; no chunk is repeated, and no
    artifact is forced; P7, P10: it is stored once, and read by task, by session and by its own address."""
    plane, context = served.plane, fresh()
    words = ["one ", "two ", "three"]
    pieces, gates = gated(*(CallPiece(0, word) for word in words))
    begun, *rest = writing()
    work = iter([[begun, *rest, *pieces, *END], text("I wrote a report.")])
    served.answers(work=lambda _: next(work))
    found: list[Event] = []
    async with asyncio.timeout(20), plane.stream(way.method, way.params(context, "write a report")) as events:
        async for event in events:
            found.append(event)
            if (seen := len(chunks(found))) and seen <= len(gates):
                assert texts([each["artifact"] for each in chunks(found)]) == words[:seen]
                gates[seen - 1].set()
    made = chunks(found)
    assert [kind for kind, _ in kinds(found)] == ["task", "status-update", *["artifact-update"] * 4, "status-update"]
    states = [state_of(thing) for kind, thing in kinds(found) if kind != "artifact-update"]
    assert states == ["submitted", "working", "completed"]
    assert texts([each["artifact"] for each in made]) == ["one ", "two ", "three", ""]
    assert [each.get("append", False) for each in made] == [False, True, True, True]
    assert [each.get("lastChunk", False) for each in made] == [False, False, False, True]
    assert len({each["artifact"]["artifactId"] for each in made}) == 1
    assert (made[0]["artifact"]["name"], made[0]["artifact"]["description"]) == ("Report", "A report.")
    assert texts([kinds(found)[-1][1]["status"]["message"]]) == ["I wrote a report."]
    assert served.stages == ["route", "work", "work"]
    await _check_stored_once(served, task_id(found), context, ["write a report", "I wrote a report."])


async def _check_stored_once(served: Served, id_: str, context: str, said: list[str]) -> None:
    """Check that the task has one artifact with the whole streamed content, on every route."""
    plane = served.plane
    (listed,) = await artifacts(plane, id_)
    assert (listed["name"], listed["description"]) == ("Report", "A report.")
    assert listed["createdAt"] <= listed["updatedAt"]
    whole = (await plane.http.get(f"/api/tasks/{id_}/artifacts/{listed['artifactId']}")).text
    for method in ("GetTask", "tasks/get"):
        (artifact,) = (await plane.result(method, {"id": id_}))["artifacts"]
        assert "".join(part["text"] for part in artifact["parts"]) == whole == "one two three"
    written = [each["event"]["artifactUpdate"] for each in await log(plane, id_) if each["kind"] == "artifact"]
    assert "".join(texts([each["artifact"] for each in written])) == whole
    assert await conversation(plane, context) == texts(await data(plane, f"/api/tasks/{id_}/messages")) == said


@each_version
async def test_a_missing_artifact_is_forced_with_always_and_omitted_with_auto(served: Served, way: Way) -> None:
    """P13, P6: its tool is the only choice of the model. It is streamed once, before the end."""
    plane, context = served.plane, fresh()
    gate = asyncio.Event()
    forced = writing("one ", then=(Until(gate), CallPiece(0, "two three"), *END))
    served.answers(work=text("All is ready."), artifact=forced)
    found: list[Event] = []
    async with asyncio.timeout(20), plane.stream(way.method, way.params(context, "write a report")) as events:
        async for event in events:
            found.append(event)
            if chunks(found):
                gate.set()
    made = chunks(found)
    assert texts([each["artifact"] for each in made]) == ["one ", "two three", ""]
    assert [each.get("append", False) for each in made] == [False, True, True]
    assert [each.get("lastChunk", False) for each in made] == [False, False, True]
    kind, end = kinds(found)[-1]
    assert (kind, state_of(end)) == ("status-update", "completed")
    assert served.stages == ["route", "work", "artifact"]
    assert served.model.requests[-1].forced == "createArtifact"
    await _check_stored_once(served, task_id(found), context, ["write a report", "All is ready."])
    served.answers(work=text("All is ready."), artifact=forced)
    found = await plane.streamed(way.method, way.params(fresh(), "write a report"), path="/agents/auto")
    assert not chunks(found) and state_of(kinds(found)[-1][1]) == "completed"
    assert served.stages == ["route", "work"] and await artifacts(plane, task_id(found)) == []


@pytest.mark.parametrize("way", [way for way in WAYS if not way.streams], ids=name_of)
async def test_a_unary_send_is_answered_with_the_finished_task(served: Served, way: Way) -> None:
    """P1: with its whole artifact, natural or forced."""
    written = [*writing("one ", "two ", "three"), *END]
    work = iter([written, text("Done."), text("Done.")])
    served.answers(work=lambda _: next(work), artifact=written)
    for _ in range(2):
        context = fresh()
        ((kind, task),) = await responses(served.plane, way, way.params(context, "write a report"))
        assert (kind, state_of(task), task["contextId"]) == ("task", "completed", context)
        assert texts([task["status"]["message"]]) == ["Done."]
        await _check_stored_once(served, task["id"], context, ["write a report", "Done."])
    assert served.stages == ["route", "work", "work", "route", "work", "artifact"]


@each_version
async def test_a_slow_answer_becomes_the_text_of_a_task_without_a_second_request(served: Served, way: Way) -> None:
    """P2, P3: the task exists before the first token."""
    plane, gate = served.plane, asyncio.Event()
    served.answers(route=[Until(gate), *text("Once ", "upon")])
    found: list[Event] = []
    sent = way.params(fresh(), "tell")
    async with asyncio.timeout(20), plane.stream(way.method, sent, path="/agents/slow", **GROWING) as events:
        async for event in events:
            found.append(event)
            if state_of(payload(event.result)[1]) == "working":
                gate.set()
    grown = [thing for kind, thing in kinds(found) if kind == "status-update" and "message" in thing["status"]]
    partial = [each for each in grown if each["status"]["message"].get("metadata", {}).get("kagent_adk_partial")]
    assert "".join(texts([each["status"]["message"] for each in partial])) == "Once upon"
    assert texts([grown[-1]["status"]["message"]]) == ["Once upon"] and state_of(grown[-1]) == "completed"
    assert len(served.model.requests) == 1 and not chunks(found)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.streams], ids=name_of)
async def test_a_slow_answer_to_a_unary_send_is_direct(served: Served, way: Way) -> None:
    """P1, P2: a streaming send to the same agent becomes a task meanwhile."""
    plane, gate = served.plane, asyncio.Event()
    served.answers(route=[Delta("Once "), Until(gate), Delta("upon"), Finish()])
    patient = asyncio.create_task(responses(plane, way, way.params(fresh(), "tell"), path="/agents/patient"))
    await until(lambda: bool(served.model.requests))
    stream = next(one for one in STREAMS if one.version == way.version)
    async with (
        asyncio.timeout(20),
        plane.stream(stream.method, stream.params(fresh(), "tell"), path="/agents/patient") as events,
    ):
        assert payload((await anext(events)).result)[0] == "task"
        assert not patient.done()
        gate.set()
        assert [state_of(payload(event.result)[1]) async for event in events][-1] == "completed"
    ((kind, message),) = await patient
    assert (kind, texts([message])) == ("message", ["Once upon"])


@each_version
@pytest.mark.parametrize("grows", [False, True], ids=["plain", "growing"])
async def test_a_client_that_joins_during_a_turn_sees_the_same_events(served: Served, way: Way, grows: bool) -> None:
    """P12: after each cursor exactly the rest, and without a cursor the task and then the rest."""
    plane, headers = served.plane, GROWING if grows else {}
    gate = asyncio.Event()
    written = writing("one ", then=(Until(gate), CallPiece(0, "two three"), *END))
    work = iter([[Delta("I write."), *calls(("think", {}))], written, text("Done.")])
    served.answers(work=lambda _: next(work))
    served.gate.set()
    found: list[Event] = []
    others: dict[str, asyncio.Task[list[Event]]] = {}
    async with asyncio.timeout(20), plane.stream(way.method, way.params(fresh(), "write"), **headers) as events:
        async for event in events:
            found.append(event)
            if chunks(found) and not others:
                for cursor in ["", *(each.id for each in found)]:
                    at = {**headers, **({"last_event_id": cursor} if cursor else {})}
                    joining = plane.streamed(SUBSCRIBE[way.version], {"id": task_id(found)}, **at)
                    others[cursor] = asyncio.create_task(joining)
                await _open_streams(served, len(others) + 1)
                gate.set()
    cursors = [event.id for event in found]
    assert len(others) >= 6
    snapshot, *rest = await others.pop("")
    assert rest == found[cursors.index(snapshot.id) + 1 :] and rest
    kind, task = payload(snapshot.result)
    assert kind == "task" and texts(task["artifacts"]) == ["one "]
    for cursor, joined in others.items():
        assert await joined == found[cursors.index(cursor) + 1 :], cursor


async def _open_streams(served: Served, wanted: int) -> None:
    async with asyncio.timeout(20):
        while f"taskplane_http_open_streams {wanted}.0\n" not in (await served.plane.http.get("/metrics")).text:
            await asyncio.sleep(0.01)
