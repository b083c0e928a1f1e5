"""The client in TypeScript around the official client in JavaScript, unmodified, with real gateways."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.client.typescript import Json, acted, acting, packages
from tests.executor.scripted import Stepped
from tests.gateway.plane import Plane, fresh, open_all, open_behind, open_front, said
from tests.support.cutting import CuttingProxy, cutting
from tests.support.ports import free_port

pytestmark = [pytest.mark.asyncio(loop_scope="module"), packages]
_EVENTS = 200
_EVERY = 20
_CURSOR = "taskplane.dev/cursor"
_BINDINGS = [(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]
every_binding = pytest.mark.parametrize(("version", "binding"), _BINDINGS)
# Each version and each binding once.
some_bindings = pytest.mark.parametrize(
    ("version", "binding"), [("1.0", "JSONRPC"), ("0.3", "HTTP+JSON"), ("1.0", "GRPC")]
)
over_http = pytest.mark.parametrize(("version", "binding"), [("1.0", "JSONRPC"), ("0.3", "HTTP+JSON")])


def at(plane: Plane, port: int = 0, version: str = "1.0", binding: str = "JSONRPC") -> Json:
    """Return the arguments for the official client at the gateway, or at what stands before it on this port."""
    port = port or (plane.public.port if binding == "GRPC" else plane.gateway.port)
    return {"url": plane.gateway.url, "port": port, "version": version, "binding": binding}


def request(text: str, **fields: Any) -> Json:
    return {"message": said(text, **fields)}


def payload(event: Json) -> Json:
    (found,) = event.values()
    return dict(found)


def cursors(events: list[Json]) -> list[str]:
    return [payload(event)["metadata"][_CURSOR] for event in events]


def generations(events: list[Json]) -> list[int]:
    return [int(cursor.rpartition("-")[2]) for cursor in cursors(events)]


def text(events: list[Json]) -> str:
    """The texts of the pieces of artifacts, joined."""
    updates = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    return "".join(part["text"] for artifact in updates for part in artifact["parts"])


def state(event: Json) -> str:
    found: str = payload(event)["status"]["state"]
    return found.removeprefix("TASK_STATE_")


async def tasks_in(plane: Plane, context: str) -> int:
    return len((await plane.result("ListTasks", {"contextId": context}))["tasks"])


@over_http
async def test_p12_a_stream_of_the_official_client_that_is_cut_every_20_events_has_each_event_once(
    plane: Plane, proxy: CuttingProxy, version: str, binding: str
) -> None:
    """C5: 0 missing, 0 repeated, equal text."""
    whole = await acted("stream", at(plane), request=request(f"chunks {_EVENTS - 3} 8"))
    proxy.cut_every = _EVERY
    context, key = fresh(), fresh()
    sent = request(f"chunks {_EVENTS - 3} 8", contextId=context)
    where = at(plane, proxy.port, version, binding)
    events = await acted("stream", where, request=sent, key=key)
    assert generations(events) == list(range(1, _EVENTS + 1))
    assert text(events) == text(whole) != ""
    assert state(events[-1]) == "COMPLETED"
    assert proxy.cuts >= _EVENTS // _EVERY - 1
    # A program that starts again under its key gets the same task, as it is.
    proxy.cut_every = None
    (again,) = await acted("stream", where, request=sent, key=key)
    assert (again["task"]["id"], state(again)) == (payload(events[0])["id"], "COMPLETED")
    assert await tasks_in(plane, context) == 1


@every_binding
async def test_c10_fifty_concurrent_sends_of_the_official_client_under_one_key_make_one_task(
    plane: Plane, version: str, binding: str
) -> None:
    context = fresh()
    where, sent = at(plane, 0, version, binding), request("chunks 5 4", contextId=context)
    (ids,) = await acted("together", where, request=sent, key=fresh())
    assert len(ids) == 50
    assert len(set(ids)) == await tasks_in(plane, context) == 1
    assert all(ids)


@pytest.mark.parametrize("plain", [False, True], ids=["steady", "plain"])
async def test_c10_a_cut_before_the_first_event_sends_under_the_same_key(
    plane: Plane, proxy: CuttingProxy, plain: bool
) -> None:
    proxy.cut_after = 40
    context = fresh()
    sent = request("chunks 5 8", contextId=context)
    events = await acted("stream", at(plane, proxy.port), request=sent, plain=plain)
    assert proxy.cuts == 1
    assert state(events[-1]) == "COMPLETED"
    assert await tasks_in(plane, context) == 1


@over_http
async def test_c5_a_stream_of_the_official_client_continues_after_a_restart_of_the_gateway(
    tmp_path: Path, version: str, binding: str
) -> None:
    """The first gateway ends after the first piece; the stream continues at the second one."""
    agent = Stepped()
    async with open_behind(tmp_path, ("scripted", agent)) as behind, AsyncExitStack() as fronts:
        first = await fronts.enter_async_context(open_front(behind))
        async with (
            asyncio.timeout(60),
            cutting("127.0.0.1", first.gateway.port) as proxy,
            acting("stream", at(first, proxy.port, version, binding), request=request("go")) as printed,
        ):
            events: list[Json] = []
            while text(events) != "begun, ":
                events.append(await anext(printed))
            await fronts.aclose()
            async with open_front(behind) as second:
                proxy.aim("127.0.0.1", second.gateway.port)
                agent.end()
                events += [event async for event in printed]
    assert generations(events) == list(range(1, len(events) + 1))
    assert text(events) == "begun, ended"
    assert state(events[-1]) == "COMPLETED"


@over_http
async def test_p12_a_stream_that_a_gateway_ends_in_good_order_has_each_event_though_the_task_has_ended(
    tmp_path: Path, version: str, binding: str
) -> None:
    """The end of the stream reaches the client after the end of the task, which another gateway tells."""
    agent = Stepped()
    async with (
        asyncio.timeout(60),
        open_behind(tmp_path, ("scripted", agent)) as behind,
        open_front(behind) as other,
        AsyncExitStack() as fronts,
    ):
        first = await fronts.enter_async_context(open_front(behind))
        async with (
            cutting("127.0.0.1", first.gateway.port) as proxy,
            acting("stream", at(first, proxy.port, version, binding), request=request("go")) as printed,
        ):
            events: list[Json] = []
            while text(events) != "begun, ":
                events.append(await anext(printed))
            proxy.passing.clear()
            proxy.aim("127.0.0.1", other.gateway.port)
            await fronts.aclose()
            agent.end()
            await other.streamed("SubscribeToTask", {"id": payload(events[0])["id"]}, last_event_id=cursors(events)[-1])
            proxy.passing.set()
            events += [event async for event in printed]
    assert generations(events) == list(range(1, len(events) + 1))
    assert text(events) == "begun, ended"
    assert state(events[-1]) == "COMPLETED"


@every_binding
async def test_p12_a_task_that_has_ended_is_resumed_after_any_of_its_cursors(
    plane: Plane, version: str, binding: str
) -> None:
    where = at(plane, 0, version, binding)
    events = await acted("stream", where, request=request("chunks 5 8"))
    task = payload(events[0])["id"]
    for position in (0, 3, len(events) - 1):
        place = {"taskId": task, "cursor": cursors(events)[position]}
        rest = await acted("resume", where, place=place)
        assert cursors(rest) == cursors(events)[position + 1 :]
    (refused,) = await acted("resume", where, place={"taskId": task})
    assert refused["failed"].endswith("UnsupportedOperationError")


@some_bindings
async def test_c4_a_cursor_that_is_not_available_gives_the_task_and_the_later_events(
    plane: Plane, version: str, binding: str
) -> None:
    """There is never a silent gap."""
    where = at(plane, 0, version, binding)
    asked = await acted("stream", where, request=request("ask"))
    other = await acted("stream", where, request=request("hello"))
    place = {"taskId": payload(asked[0])["id"], "cursor": cursors(other)[0]}
    async with asyncio.timeout(30), acting("resume", where, place=place) as printed:
        first = await anext(printed)
        assert first["task"]["metadata"]["taskplane.dev/resync"] == "CURSOR_FOREIGN"
        assert (first["task"]["id"], state(first)) == (place["taskId"], "INPUT_REQUIRED")
        await plane.send("Ann", message={"taskId": place["taskId"]})
        rest = [event async for event in printed]
    later = await plane.streamed("SubscribeToTask", {"id": place["taskId"]}, last_event_id=cursors(asked)[-1])
    assert cursors(rest) == [event.id for event in later]
    assert state(rest[-1]) == "COMPLETED"


@some_bindings
async def test_a_question_ends_the_events_and_a_direct_answer_is_all(plane: Plane, version: str, binding: str) -> None:
    where = at(plane, 0, version, binding)
    asked = await acted("stream", where, request=request("ask"))
    assert state(asked[-1]) == "INPUT_REQUIRED"
    task = payload(asked[0])
    answer = request("Ann", taskId=task["id"], contextId=task["contextId"])
    assert state((await acted("stream", where, request=answer))[-1]) == "COMPLETED"
    (direct,) = await acted("stream", where, request=request("message hi"))
    assert direct["message"]["parts"] == [{"text": "hi"}]


async def test_a_rewind_goes_on_with_its_turn_or_ends(plane: Plane) -> None:
    where, context = at(plane), fresh()
    done = await acted("stream", where, request=request("hello", contextId=context))
    task = await plane.result("GetTask", {"id": payload(done[0])["id"]})
    cut = {"kagent_rewind_before_invocation_id": task["history"][0]["metadata"]["kagent_invocation_id"]}
    events = await acted("stream", where, request=request("count 2", contextId=context, metadata=cut))
    assert (payload(events[0])["id"], state(events[0]), state(events[-1])) == (context, "COMPLETED", "COMPLETED")
    assert payload(events[-1])["taskId"] != context
    # The turn is cut already.
    (missing,) = await acted("stream", where, request=request("count 2", contextId=context, metadata=cut))
    assert (payload(missing)["contextId"], state(missing)) == (context, "FAILED")
    turn = await plane.result("GetTask", {"id": payload(events[-1])["taskId"]})
    cut = {"kagent_rewind_before_invocation_id": turn["history"][0]["metadata"]["kagent_invocation_id"]}
    alone = request("", contextId=context, metadata=cut, parts=[])
    (session,) = await acted("stream", where, request=alone)
    assert (payload(session)["id"], state(session)) == (context, "COMPLETED")


@every_binding
async def test_a_refusal_is_that_of_the_client_and_a_server_that_is_away_is_told(
    plane: Plane, version: str, binding: str
) -> None:
    where = at(plane, 0, version, binding)
    (refused,) = await acted("stream", where, request=request("hi", taskId=fresh()))
    assert refused["failed"].endswith("TaskNotFoundError")
    away = {**where, "port": free_port()}
    # gRPC does not tell why.
    wait, reason = (0.3, "CONNECTION_LOST") if binding == "GRPC" else (None, "UNREACHABLE")
    (unreachable,) = await acted("stream", away, request=request("hi"), giveUpAfter=wait)
    assert (unreachable["failed"], unreachable["reason"]) == ("Unreachable", reason)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("act", ["send", "stream"])
async def test_a_request_that_is_too_large_for_grpc_is_refused_at_once(plane: Plane, act: str, version: str) -> None:
    where = at(plane, 0, version, "GRPC")
    (refused,) = await acted(act, where, request=request("x" * 5_000_000), giveUpAfter=50)
    assert refused["failed"] != "Unreachable"
    assert "larger than max" in refused["message"]


async def test_an_abort_ends_the_stream_at_once_and_leaves_no_timers(plane: Plane) -> None:
    (ended,) = await acted("abort", at(plane), request=request("slow 200"))
    assert (ended["reason"], ended["timers"]) == ("Error: enough", [])
    assert ended["milliseconds"] < 1_000
    await plane.at_zero()


@some_bindings
async def test_a_limit_of_streams_is_waited_for(tmp_path: Path, version: str, binding: str) -> None:
    async with (
        open_all(tmp_path, max_streams_per_principal=1) as plane,
        plane.stream("SendStreamingMessage", request("slow 200")) as first,
    ):
        await anext(first)
        where = at(plane, 0, version, binding)
        (refused,) = await acted("stream", where, request=request("hi"), giveUpAfter=0.5)
        assert refused["failed"] == "Unreachable"
