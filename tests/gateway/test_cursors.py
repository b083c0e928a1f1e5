"""Cursors in the metadata of every event, and the ways in which a client names one."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest
from tests.gateway.bindings import BINDINGS, Client, Event, Framed, HttpBinding, OverHttp
from tests.gateway.failures import Failure
from tests.gateway.plane import GROWING, Json, Plane, fresh, named, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

CURSOR: Final = "taskplane.dev/cursor"
EVENTS: Final = 200
# created, working, the chunks, completed
COMMAND: Final = f"chunks {EVENTS - 3} 16"


class Asking(OverHttp):
    """A binding whose requests have a query."""

    def __init__(self, binding: HttpBinding, query: str) -> None:
        self._binding = binding
        self._query = query

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    def frame(self, operation: str, params: Json) -> Framed:
        framed = self._binding.frame(operation, params)
        return replace(framed, path=f"{framed.path}{'&' if '?' in framed.path else '?'}{self._query}")


@pytest.fixture
def http_client(plane: Plane, http_binding: HttpBinding) -> Client:
    """Return a client of the plane over each binding over HTTP."""
    return Client(plane, http_binding)


def asking(client: Client, query: str) -> Client:
    binding: Any = client.binding
    asks: Any = Asking(binding, query)
    return Client(client.plane, asks)


def told(event: Event) -> str:
    """The cursor in the metadata of an event."""
    (payload,) = event.result.values()
    cursor: str = payload["metadata"][CURSOR]
    return cursor


def before(event: Event) -> str:
    """The cursor before the first event of a task."""
    return f"{event.id.rpartition('-')[0]}-0"


async def written(client: Client, operation: str, params: Json, **headers: str) -> list[str]:
    """The events of a stream that ends, as they are written."""
    binding: Any = client.binding
    if not hasattr(binding, "frame"):
        return [str(event) for event in await client.streamed(operation, params, **headers)]
    framed = binding.frame(operation, params)
    reply = await client.plane.http.request(framed.verb, framed.path, json=framed.body, headers=named(headers))
    assert reply.headers["content-type"] == "text/event-stream"
    return [event for event in reply.text.replace(": ping\n", "").split("\n\n") if event]


async def test_every_event_of_a_task_has_its_cursor_in_its_metadata(client: Client) -> None:
    """C5: clients that never see the line of an event id."""
    events = await client.streamed("SendStreamingMessage", {"message": said("chunks 3 4")}, **GROWING)
    events += await client.streamed("SendStreamingMessage", {"message": said("count 3")}, **GROWING)
    assert {kind for event in events for kind in event.result} == {"task", "statusUpdate", "artifactUpdate"}
    assert [told(event) for event in events] == [event.id for event in events]
    asked = await client.send("ask")
    async with client.stream("SubscribeToTask", {"id": asked["id"]}) as following:
        first = await anext(following)
    assert told(first) == first.id == asked["metadata"][CURSOR]


async def test_what_is_in_no_log_has_no_cursor(client: Client) -> None:
    (event,) = await client.streamed("SendStreamingMessage", {"message": said("message hi")})
    assert CURSOR not in event.result["message"].get("metadata", {})
    context = fresh()
    done = await client.streamed("SendStreamingMessage", {"message": said("hello", contextId=context)})
    task_id = done[0].result["task"]["id"]
    rewind = {"kagent_rewind_before_invocation_id": (await turn_of(client.plane, task_id))}
    message = said("", contextId=context, metadata=rewind, parts=[])
    (whole,) = await client.streamed("SendStreamingMessage", {"message": message})
    assert (whole.id, CURSOR in whole.result["task"].get("metadata", {})) == ("", False)


async def turn_of(plane: Plane, task_id: str) -> str:
    task = await plane.result("GetTask", {"id": task_id})
    turn: str = task["history"][0]["metadata"]["kagent_invocation_id"]
    return turn


async def test_cancelled_tasks_have_their_cursor(client: Client) -> None:
    task = await client.send("ask")
    ended = await client.result("CancelTask", {"id": task["id"]})
    assert ended["metadata"][CURSOR] == (await client.result("GetTask", {"id": task["id"]}))["metadata"][CURSOR]


async def test_a_stream_resumes_at_every_position_by_the_cursor_of_an_event(client: Client) -> None:
    """P12, C5, W10, a2a C12: none of 200 events is missing, none comes twice, wherever the stream was cut."""
    params, key = {"message": said(COMMAND)}, keyed()
    events = await client.streamed("SendStreamingMessage", params, **key)
    assert len(events) == EVENTS
    task = {"id": events[0].result["task"]["id"]}
    whole = await written(client, "SubscribeToTask", task, last_event_id=before(events[0]))
    assert len(whole) == EVENTS
    for position, event in enumerate(events):
        rest = await written(client, "SubscribeToTask", task, last_event_id=told(event))
        assert rest == whole[position + 1 :]
        if position % 20 == 0:
            again = {**params, "metadata": {CURSOR: told(event)}}
            assert await written(client, "SendStreamingMessage", again, **key) == whole[position + 1 :]


async def test_a_cursor_in_the_query_is_taken(http_client: Client) -> None:
    client = http_client
    events = await client.streamed(
        "SendStreamingMessage", params := {"message": said("chunks 5 4")}, **(key := keyed())
    )
    task = {"id": events[0].result["task"]["id"]}
    after = asking(client, f"starting_after={events[2].id}")
    assert await after.streamed("SubscribeToTask", task) == events[3:]
    assert await after.streamed("SendStreamingMessage", params, **key) == events[3:]


async def test_a_cursor_in_the_metadata_of_a_request_is_taken_and_is_no_part_of_it(client: Client) -> None:
    """C10, a2a C12, D12: the same request under its key, with and without metadata of its own."""
    for metadata in ({}, {"of": "client"}):
        params: Json = {"message": said("chunks 5 4"), **({"metadata": metadata} if metadata else {})}
        events = await client.streamed("SendStreamingMessage", params, **(key := keyed()))
        again = {**params, "metadata": {**metadata, CURSOR: events[2].id}}
        assert await client.streamed("SendStreamingMessage", again, **key) == events[3:]
        other = {**params, "metadata": {**metadata, "more": 1, CURSOR: events[2].id}}
        assert (await client.error("SendStreamingMessage", other, **key)).reason == "KEY_REUSED"
        alone = await client.error("SendStreamingMessage", again)
        assert (alone.code, alone.reason) == (-32602, "CURSOR_WITHOUT_KEY")


async def test_two_cursors_that_differ_are_invalid_params(http_client: Client) -> None:
    client = http_client
    params = {"message": said("chunks 5 4")}
    events = await client.streamed("SendStreamingMessage", params, **(key := keyed()))
    task, one, two = {"id": events[0].result["task"]["id"]}, events[1].id, events[2].id
    same, differs = asking(client, f"starting_after={one}"), asking(client, f"starting_after={two}")
    assert await same.streamed("SubscribeToTask", task, last_event_id=one) == events[2:]
    refused = [await differs.error("SubscribeToTask", task, last_event_id=one)]
    in_metadata = {**params, "metadata": {CURSOR: one}}
    assert await same.streamed("SendStreamingMessage", in_metadata, **key) == events[2:]
    refused.append(await differs.error("SendStreamingMessage", in_metadata, **key))
    refused.append(await client.error("SendStreamingMessage", in_metadata, **key, last_event_id=two))
    assert [(each.code, each.reason) for each in refused] == [(-32602, "CURSORS_DIFFER")] * 3


@pytest.mark.parametrize("cursor", [5, "é", "", "abc", {"a": 1}, True])
async def test_a_malformed_cursor_in_metadata_is_invalid_params(client: Client, cursor: Any) -> None:
    params = {"message": said("hello"), "metadata": {CURSOR: cursor}}
    found = [await client.error("SendStreamingMessage", params, **keyed())] if cursor != "" else []
    if cursor == "":
        assert await client.streamed("SendStreamingMessage", params, **keyed())
    assert [each.code for each in found] == [-32602] * len(found)


async def test_a_blocking_send_takes_no_cursor(client: Client) -> None:
    params = {"message": said("hello"), "metadata": {CURSOR: "abc-1"}}
    assert (await client.error("SendMessage", params, **keyed())).code == -32602
    if not isinstance(client.binding, OverHttp):
        return
    queried = asking(client, "starting_after=abc-1")
    assert (await queried.error("SendMessage", {"message": said("hello")}, **keyed())).code == -32602


async def test_an_event_source_that_reconnects_goes_on_after_its_last_event(plane: Plane) -> None:
    """It repeats the query of its first request, and the header names a later event."""
    client = Client(plane, BINDINGS[2])
    events = await client.streamed("SendStreamingMessage", {"message": said("chunks 5 4")})
    path = f"/tasks/{events[0].result['task']['id']}:subscribe?starting_after={events[0].id}"
    first = (await plane.http.get(path)).text
    again = (await plane.http.get(path, headers={"Last-Event-ID": events[1].id})).text
    assert first.endswith(again)
    assert (first.count("id: "), again.count("id: ")) == (len(events) - 1, len(events) - 2)


async def test_fifty_concurrent_sends_under_one_key_make_one_task(client: Client) -> None:
    """a2a D12: streams and answers alike."""
    context = fresh()
    params, key = {"message": said("chunks 5 4", contextId=context)}, keyed()
    streams = [client.streamed("SendStreamingMessage", params, **key) for _ in range(25)]
    sends = [client.result("SendMessage", params, **key) for _ in range(25)]
    found: list[Any] = await asyncio.gather(*streams, *sends)
    ids = {events[0].result["task"]["id"] for events in found[:25]} | {each["task"]["id"] for each in found[25:]}
    assert len(ids) == 1
    assert not any(isinstance(each, Failure) for each in found)
    assert len((await client.plane.result("ListTasks", {"contextId": context}))["tasks"]) == 1


def keyed() -> dict[str, str]:
    """The header of a new idempotency key."""
    return {"idempotency_key": fresh()}


async def test_a_send_without_a_stream_refuses_a_cursor_by_its_place(http_client: Client) -> None:
    """a2a C12."""
    params = {"message": said("hello")}
    beside = await http_client.error("SendMessage", {**params, "metadata": {CURSOR: "abc-3"}})
    assert (beside.code, list(beside.fields)) == (-32602, [f"metadata.{CURSOR}"])
    header = await http_client.error("SendMessage", params, Last_Event_ID="abc-3")
    assert (header.code, list(header.fields)) == (-32602, ["Last-Event-ID"])
