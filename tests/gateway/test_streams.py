"""Streams with a real plane and over each binding: the first event, the order, the end, and the resumption."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.executor.scripted import Stepped
from tests.gateway.bindings import BINDINGS, Binding, Client, Event
from tests.gateway.plane import GROWING, Plane, fresh, open_all, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")


def states(events: list[Event]) -> list[str]:
    """Return the states of the status updates, in order."""
    updates = [event.result["statusUpdate"] for event in events if "statusUpdate" in event.result]
    return [update["status"]["state"].removeprefix("TASK_STATE_") for update in updates]


def generations(events: list[Event]) -> list[int]:
    return [int(event.id.rpartition("-")[2]) for event in events]


async def test_a_stream_has_the_task_and_then_its_events_without_a_gap(client: Client) -> None:
    """P3, a2a C8, C14, C18: first the submitted task with the user's message, then working, then the rest; T1: one
    wrapper key each."""
    params = {"message": said("chunks 5 8"), "configuration": {"historyLength": 10}}
    events = await client.streamed("SendStreamingMessage", params)
    first = events[0].result["task"]
    assert first["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert [message["role"] for message in first["history"]] == ["ROLE_USER"]
    assert generations(events) == list(range(1, len(events) + 1))
    assert all(len(event.result) == 1 for event in events)
    artifacts = [event.result["artifactUpdate"] for event in events if "artifactUpdate" in event.result]
    assert [update.get("append", False) for update in artifacts] == [False, True, True, True, True]
    assert [update.get("lastChunk", False) for update in artifacts] == [False, False, False, False, True]
    assert states(events) == ["WORKING", "COMPLETED"]
    assert list(events[1].result) == ["statusUpdate"]


async def test_the_first_task_of_a_0_3_stream_has_a_history_on_request_only(plane: Plane) -> None:
    """T8, a2a C20, C21, C24: clients that replace their conversation by any full Task with a history keep theirs."""
    plain = await plane.streamed("message/stream", {"message": said_0_3("hello")})
    assert plain[0].result["kind"] == "task"
    assert "history" not in plain[0].result
    asked = {"message": said_0_3("hello"), "configuration": {"historyLength": 10}}
    assert len((await plane.streamed("message/stream", asked))[0].result["history"]) == 1
    assert [event.result["kind"] for event in plain[1:]].count("task") == 0
    assert [event.result["final"] for event in plain[1:]] == [False] * (len(plain) - 2) + [True]


async def test_history_length_limits_the_history_of_the_first_task_of_a_stream(client: Client) -> None:
    """a2a C6, C8, C24."""
    asked = await client.send("ask")
    for length, text in ((0, "a"), (1, "b"), (9, "c")):
        params = {"message": said(text), "configuration": {"historyLength": length}}
        events = await client.streamed("SendStreamingMessage", params)
        assert len(events[0].result["task"].get("history", [])) == min(length, 1)
    params = {"message": said("Ann", taskId=asked["id"]), "configuration": {"historyLength": 1}}
    (message,) = (await client.streamed("SendStreamingMessage", params))[0].result["task"]["history"]
    assert message["parts"] == [{"text": "Ann"}]


async def test_a_direct_answer_is_one_message_without_a_cursor(client: Client) -> None:
    """P13, a2a C5, C8: the stream ends after it."""
    events = await client.streamed("SendStreamingMessage", {"message": said("message hi")})
    assert [(event.id, list(event.result)) for event in events] == [("", ["message"])]


async def test_a_stream_ends_at_input_required_and_stays_open_at_auth_required(client: Client) -> None:
    """a2a C9, D8."""
    asked = await client.streamed("SendStreamingMessage", {"message": said("ask")})
    assert states(asked)[-1] == "INPUT_REQUIRED"
    async with client.stream("SendStreamingMessage", {"message": said("auth")}) as events:
        task_id = ""
        seen: list[Event] = []
        async for event in events:
            seen.append(event)
            task_id = task_id or event.result["task"]["id"]
            if states(seen)[-1:] == ["AUTH_REQUIRED"] and len(seen) < 9:
                await client.send("done", message={"taskId": task_id})
    assert states(seen)[-1] == "COMPLETED"
    assert "SUBMITTED" in states(seen)
    assert generations(seen) == sorted(set(generations(seen)))


async def test_the_answer_to_a_question_streams_the_task_and_then_only_new_events(client: Client) -> None:
    """a2a C19, C20, K12."""
    asked = await client.send("ask")
    events = await client.streamed("SendStreamingMessage", {"message": said("Ann", taskId=asked["id"])}, **GROWING)
    assert events[0].result["task"]["id"] == asked["id"]
    assert states(events)[-1] == "COMPLETED"
    assert sum("task" in event.result for event in events) == 1
    assert generations(events) == list(range(generations(events)[0], generations(events)[0] + len(events)))


async def test_a_subscription_to_a_paused_task_waits_for_the_answer_and_the_end(client: Client) -> None:
    """a2a C11, C22."""
    asked = await client.send("ask")
    async with client.stream("SubscribeToTask", {"id": asked["id"]}) as events:
        first = await anext(events)
        assert first.result["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        await client.send("Ann", message={"taskId": asked["id"]})
        rest = [event async for event in events]
    assert states(rest)[0] == "SUBMITTED"
    assert states(rest)[-1] == "COMPLETED"


async def test_all_streams_of_a_task_have_the_same_events_in_the_same_order(binding: Binding, tmp_path: Path) -> None:
    """a2a C10: this includes streams over other bindings."""
    agent = Stepped()
    async with (
        open_all(tmp_path, ("a", agent)) as plane,
        (client := Client(plane, binding)).stream("SendStreamingMessage", {"message": said("go")}) as events,
        AsyncExitStack() as stack,
    ):
        task = {"id": (await anext(events)).result["task"]["id"]}
        clients = [client, *(Client(plane, each) for each in BINDINGS)]
        others = [await stack.enter_async_context(each.stream("SubscribeToTask", task)) for each in clients]
        begun = [await anext(other) for other in others]
        agent.end()
        own = [event async for event in events]
        for snapshot, other in zip(begun, others, strict=True):
            assert "task" in snapshot.result
            after = generations([snapshot])[0]
            assert [event async for event in other] == [event for event in own if generations([event])[0] > after]


async def test_a_subscription_to_an_ended_or_unknown_task_is_refused(client: Client) -> None:
    """a2a C11, C23."""
    task = await client.send("hello")
    ended = await client.error("SubscribeToTask", {"id": task["id"]})
    assert (ended.code, ended.reason, ended.metadata) == (-32004, "UNSUPPORTED_OPERATION", {"taskId": task["id"]})
    assert (await client.error("SubscribeToTask", {"id": "none"})).code == -32001
    missing = {"message": said("hi", taskId="none")}
    assert (await client.error("SendStreamingMessage", missing)).code == -32001


async def test_an_error_before_the_first_event_of_a_0_3_stream_is_an_event(plane: Plane) -> None:
    """a2a C23: the official 0.3 client reads only event streams."""
    task = await plane.send("hello")
    for task_id, code in ((task["id"], -32004), ("none", -32001)):
        (event,) = await plane.streamed("tasks/resubscribe", {"id": task_id})
        assert (event.id, event.name, event.data["error"]["code"], event.data["id"]) == ("", "", code, "r")
    missing = await plane.streamed("message/stream", {"message": said_0_3("hi", taskId="none")})
    assert missing[0].data["error"]["code"] == -32001


async def test_every_cursor_of_a_finished_stream_resumes_to_exactly_the_rest(client: Client) -> None:
    """P12, a2a C12: without loss by event id, also after the task has ended."""
    events = await client.streamed("SendStreamingMessage", {"message": said("chunks 7 4")})
    task_id = events[0].result["task"]["id"]
    for index, event in enumerate(events):
        rest = await client.streamed("SubscribeToTask", {"id": task_id}, last_event_id=event.id)
        assert rest == events[index + 1 :]
    for binding in BINDINGS:
        other = await Client(client.plane, binding).streamed(
            "SubscribeToTask", {"id": task_id}, last_event_id=events[1].id
        )
        assert other == events[2:]


async def test_an_interrupted_stream_is_resumed_after_its_last_event(client: Client) -> None:
    """a2a C12."""
    async with client.stream("SendStreamingMessage", {"message": said("slow 6")}) as events:
        seen = [await anext(events) for _ in range(4)]
    task_id = seen[0].result["task"]["id"]
    rest = await client.streamed("SubscribeToTask", {"id": task_id}, last_event_id=seen[-1].id)
    whole = generations(seen + rest)
    assert whole == list(range(1, len(whole) + 1))
    assert states(rest)[-1] == "COMPLETED"


async def test_an_unusable_cursor_gets_a_task_with_the_reason_and_the_later_events(client: Client) -> None:
    """C4, a2a C12: there is never a silent gap, also while the task continues."""
    task = await client.send("ask")
    events = await client.streamed("SendStreamingMessage", {"message": said("hello")})
    ahead = events[0].id.partition("-")[0] + "-999"
    done = events[0].result["task"]["id"]
    (one,) = await client.streamed("SubscribeToTask", {"id": done}, last_event_id=ahead)
    marks = {"taskplane.dev/resync": "CURSOR_AHEAD", "taskplane.dev/cursor": one.id}
    assert one.result["task"]["metadata"] == marks
    # A full Task with a history would replace the conversation of a client of 0.3.
    assert ("history" in one.result["task"]) == (client.binding.version != "0.3")
    assert one.id == events[-1].id
    async with client.stream("SubscribeToTask", {"id": task["id"]}, last_event_id=events[0].id) as tail:
        first = await anext(tail)
        assert first.result["task"]["metadata"]["taskplane.dev/resync"] == "CURSOR_FOREIGN"
        await client.send("Ann", message={"taskId": task["id"]})
        assert states([event async for event in tail])[-1] == "COMPLETED"
    # The stored task has no such mark.
    assert list((await client.result("GetTask", {"id": done}))["metadata"]) == ["taskplane.dev/cursor"]


@pytest.mark.parametrize("cursor", ["5", "abc", "abc-", "-1", "abc-x", "ABC-1", "abc-1-2", "abc-01", "abc-" + "9" * 30])
async def test_a_malformed_cursor_is_refused_as_invalid_params(client: Client, cursor: str) -> None:
    """C4."""
    task = await client.send("ask")
    error = await client.error("SubscribeToTask", {"id": task["id"]}, last_event_id=cursor)
    assert error.code == -32602
    key = fresh()
    error = await client.error(
        "SendStreamingMessage", {"message": said("x")}, last_event_id=cursor, idempotency_key=key
    )
    assert error.code == -32602


async def test_a_send_with_a_cursor_but_without_a_key_is_refused(client: Client) -> None:
    """C5, C10, a2a C12: so a client library that reconnects does not send the message twice."""
    context = fresh()
    params: Any = {"message": said("hello", contextId=context)}
    events = await client.streamed("SendStreamingMessage", params)
    error = await client.error("SendStreamingMessage", params, last_event_id=events[1].id)
    assert error.code == -32602
    assert (await client.error("SendMessage", params, last_event_id=events[1].id)).code == -32602
    assert len((await client.plane.result("ListTasks", {"contextId": context}))["tasks"]) == 1


async def test_a_repeated_stream_under_its_key_attaches_to_the_task(client: Client) -> None:
    """C10, P12, a2a C12, D11, D12: without a cursor it has the task and the later events, with one exactly the events
    after it."""
    params: Any = {"message": said("chunks 3 4")}
    key = fresh()
    events = await client.streamed("SendStreamingMessage", params, idempotency_key=key)
    again = await client.streamed("SendStreamingMessage", params, idempotency_key=key)
    assert again[0].result["task"]["id"] == events[0].result["task"]["id"]
    assert again[-1].id == events[-1].id
    rest = await client.streamed("SendStreamingMessage", params, idempotency_key=key, last_event_id=events[2].id)
    assert rest == events[3:]


async def test_a_cancel_ends_the_streams_of_its_task(client: Client) -> None:
    """P8, a2a E7: their last state is canceled."""
    async with client.stream("SendStreamingMessage", {"message": said("slow 200")}) as events:
        task = (await anext(events)).result["task"]
        await client.result("CancelTask", {"id": task["id"]})
        rest = [event async for event in events]
    assert states(rest)[-1] == "CANCELED"


async def test_a_replaced_document_is_streamed_as_updates_to_the_new_content(client: Client) -> None:
    """T4: each replacement is sent as status and artifact updates."""
    context, task_id = fresh(), fresh()

    async def put(state: str, *artifacts: str) -> None:
        body = {
            "id": task_id,
            "contextId": context,
            "status": {"state": state},
            "artifacts": [{"artifactId": name, "parts": [{"kind": "text", "text": state}]} for name in artifacts],
        }
        assert (await client.plane.http.post("/api/tasks", json=body)).status_code == 201

    await put("working", "a")
    async with client.stream("SubscribeToTask", {"id": task_id}) as events:
        assert (await anext(events)).result["task"]["status"]["state"] == "TASK_STATE_WORKING"
        await put("working", "a", "b")
        updates = [await anext(events) for _ in range(3)]
        assert [list(event.result) for event in updates] == [["artifactUpdate"], ["artifactUpdate"], ["statusUpdate"]]
        assert all("append" not in event.result["artifactUpdate"] for event in updates[:2])
        # A client that disconnects between the updates of one replacement gets all of them again.
        assert generations(updates) == [1, 1, 2]
        await put("completed")
        assert states([event async for event in events]) == ["COMPLETED"]


async def test_a_slow_reader_of_document_versions_misses_no_message(client: Client) -> None:
    """T4: versions may be skipped. Their messages are in the history, and are sent from there."""
    task: dict[str, Any] = {"id": fresh(), "contextId": fresh(), "history": []}
    large = [{"artifactId": "a", "parts": [{"kind": "text", "text": "x" * 2_000_000}]}]

    async def put(state: str, message: Any, **fields: Any) -> None:
        task["status"] = {"state": state} | ({"message": message} if message else {})
        assert (await client.plane.http.post("/api/tasks", json={**task, **fields})).status_code == 201
        if message:
            task["history"].append(message)

    await put("submitted", said_0_3("look"))
    async with client.stream("SubscribeToTask", {"id": task["id"]}) as events:
        await anext(events)
        for number in range(15):
            await put("working", said_0_3(f"{number}", role="agent"), artifacts=large)
        await put("completed", None)
        rest = [event.result["statusUpdate"] async for event in events if "statusUpdate" in event.result]
    received = [update["status"]["message"]["messageId"] for update in rest[:-1]]
    assert received == [message["messageId"] for message in task["history"][1:]]
    assert {name: value for name, value in rest[-1]["status"].items() if name != "timestamp"} == {
        "state": "TASK_STATE_COMPLETED"
    }
