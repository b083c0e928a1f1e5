"""Traces across the processes of a plane: one tree for a send, for a takeover and for its continuation, and ids in the
logs."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import Cluster
from tests.system.judge import held
from tests.system.plane import BOUND, Plane, running
from tests.system.recorder import COMPLETED
from tests.system.wire import Events, Sse, client, raw_log, send, stream, text_message

pytestmark = pytest.mark.more

TRACED = Path(__file__).parent / "traced"
ROOMS = ("gateway", "executor", "tasks", "sessions")
TRACE, SPAN = "a" * 32, "b" * 16
OUTSIDE = f"00-{TRACE}-{SPAN}-01"
LATER_TRACE = "c" * 32
LATER = f"00-{LATER_TRACE}-{'d' * 16}-01"


@dataclass(frozen=True)
class Span:
    """A span as its process exported it. `links`: trace ids."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    links: Sequence[str]
    attributes: Mapping[str, Any]


def spans(folder: Path, trace: str) -> list[Span]:
    """Every span of a trace that any process has exported, each line whole."""
    found: list[Span] = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            given = json.loads(line)
            links = [link["context"]["trace_id"].removeprefix("0x") for link in given["links"]]
            span = Span(
                file.name.partition("-")[0],
                given["name"],
                given["kind"].removeprefix("SpanKind."),
                given["context"]["trace_id"].removeprefix("0x"),
                given["context"]["span_id"].removeprefix("0x"),
                (given["parent_id"] or "").removeprefix("0x"),
                links,
                given["attributes"],
            )
            if span.trace == trace:
                found.append(span)
    return found


@asynccontextmanager
async def traced(data: Path, server: Cluster | None) -> AsyncGenerator[tuple[Plane, Path]]:
    """Four processes with an SDK, and the folder of their spans."""
    folder = data / "spans"
    folder.mkdir()
    settings = {f"TASKPLANE_{service.upper()}_LOG_LEVEL": "DEBUG" for service in ROOMS}
    settings |= {"PYTHONPATH": str(TRACED), "SPANS": str(folder)}
    async with running("four", data, settings, server=server, afresh=True) as plane:
        yield plane, folder


async def ended(plane: Plane) -> None:
    """Ends every process in good order, after which each span has been exported."""
    for service in ROOMS:
        assert await plane.terminate(service) == 0


async def artifact_update(events: Events) -> Sse:
    """The first event of a stream that shows a run at work."""
    return await anext(event async for event in events if "artifactUpdate" in event.result)


@pytest.mark.one_engine
@pytest.mark.timeout(180)
async def test_the_spans_of_a_send_are_one_tree_below_the_span_of_its_client(
    server: Cluster | None, tmp_path: Path
) -> None:
    async with traced(tmp_path, server) as (plane, folder):
        async with client(plane.url) as http:
            params = {"message": text_message("chunks 5")}
            async with stream(http, "SendStreamingMessage", params, traceparent=OUTSIDE) as events:
                seen = [event async for event in events]
            log = await raw_log(http, seen[0].result["task"]["id"])
        await ended(plane)
    found = spans(folder, TRACE)
    ids = {span.id for span in found}
    (root,) = [span for span in found if span.parent not in ids]
    assert (root.service, root.name, root.kind, root.parent) == ("gateway", "SendStreamingMessage", "SERVER", SPAN)
    assert root.attributes["http.response.status_code"] == 200
    names = {(span.service, span.name.rpartition("/")[2]) for span in found}
    assert {
        ("executor", "Submit"),
        ("executor", "run demo"),
        ("sessions", "AppendEntries"),
        ("sessions", "commit"),
        ("tasks", "CreateTask"),
        ("tasks", "AppendEvents"),
        ("tasks", "WatchTask"),
        ("tasks", "commit"),
    } <= names
    (run,) = [span for span in found if span.name == "run demo"]
    assert run.attributes["taskplane.attempt"] == 1
    assert {event["traceId"] for event in log} == {TRACE}
    for service in ROOMS:
        lines = (plane.data / f"{service}.log").read_text()
        assert f'"trace_id":"{TRACE}"' in lines, service
        assert not [span for span in found if span.service == service and span.kind == "CLIENT"]


@pytest.mark.one_engine
@pytest.mark.timeout(180)
async def test_a_takeover_continues_the_trace_and_a_resumed_stream_is_linked_to_it(
    server: Cluster | None, tmp_path: Path
) -> None:
    async with traced(tmp_path, server) as (plane, folder):
        async with client(plane.url) as http:
            params = {"message": text_message("rerun 8")}
            async with stream(http, "SendStreamingMessage", params, traceparent=OUTSIDE) as events:
                event = await artifact_update(events)
            task_id, cursor = event.result["artifactUpdate"]["taskId"], event.id
            await plane.kill("executor")
            await plane.start("executor")
            async with asyncio.timeout(BOUND + 20):
                headers = {"traceparent": LATER, "Last-Event-ID": cursor}
                async with http.stream("GET", f"/api/tasks/{task_id}/events", headers=headers) as response:
                    rest = [event.data async for event in Events(response)]
            log = await raw_log(http, task_id)
        await ended(plane)
    assert rest[-1]["event"]["statusUpdate"]["status"]["state"] == COMPLETED
    assert {(event["attempt"], event["traceId"]) for event in log} == {(1, TRACE), (2, TRACE)}
    found = {span.id: span for span in spans(folder, TRACE)}
    # The run that was killed could export nothing.
    (run,) = [span for span in found.values() if span.name == "run demo"]
    assert run.attributes["taskplane.attempt"] == 2
    way = [run]
    while way[-1].parent in found:
        way.append(found[way[-1].parent])
    assert [span.service for span in way] == ["executor", "tasks", "executor", "gateway"] and way[-1].parent == SPAN
    later = spans(folder, LATER_TRACE)
    (watch,) = [span for span in later if span.name.endswith("/WatchTask")]
    assert watch.links == [TRACE]
    assert [span.service for span in later if span.id == watch.parent] == ["gateway"]


@pytest.mark.timeout(180)
async def test_an_answer_starts_a_run_in_its_own_trace_and_a_message_in_mid_run_is_linked(tmp_path: Path) -> None:
    async with traced(tmp_path, None) as (plane, folder):
        async with client(plane.url) as http:
            asked = (await send(http, "ask which one", headers={"traceparent": OUTSIDE}))["task"]
            place = {"taskId": asked["id"], "contextId": asked["contextId"]}
            await send(http, "echo this one", headers={"traceparent": LATER}, **place)
            answered = await raw_log(http, asked["id"])
            params = {"message": text_message("slow 6")}
            async with stream(http, "SendStreamingMessage", params, traceparent=OUTSIDE) as events:
                update = (await artifact_update(events)).result["artifactUpdate"]
            place = {key: update[key] for key in ("taskId", "contextId")}
            await send(http, "echo one thing more", headers={"traceparent": LATER}, **place)
        await ended(plane)
    assert {event["traceId"] for event in answered} == {TRACE, LATER_TRACE}
    runs = [span for span in spans(folder, TRACE) if span.name == "run demo"]
    assert [(span.attributes["taskplane.task.id"], list(span.links)) for span in runs] == [
        (asked["id"], []),
        (place["taskId"], [LATER_TRACE]),
    ]
    later = {span.id: span for span in spans(folder, LATER_TRACE)}
    (run,) = [span for span in later.values() if span.name == "run demo"]
    assert run.attributes["taskplane.task.id"] == asked["id"]
    assert later[run.parent].name.endswith("/AddMessage")


async def test_without_an_sdk_only_the_trace_of_a_client_is_stored(tmp_path: Path) -> None:
    async with running("one", tmp_path) as plane, client(plane.url) as http:
        untraced = await send(http, "echo untraced")
        task = await send(http, "echo traced", headers={"traceparent": OUTSIDE})
        log = await raw_log(http, task["task"]["id"])
        others = await raw_log(http, untraced["task"]["id"])
        rows = {row["id"]: row["trace"] for row in (await held(plane)).tasks}
    assert {event["traceId"] for event in log} == {TRACE}
    assert [event for event in others if "traceId" in event] == []
    assert rows[untraced["task"]["id"]] is None and rows[task["task"]["id"]][:16].hex() == TRACE
    created = [json.loads(line) for line in plane.log("dev").splitlines() if '"task created"' in line]
    assert [line.get("trace_id") for line in created] == [None, TRACE]
