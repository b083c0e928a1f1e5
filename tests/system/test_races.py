"""Races that exactly one side wins: the end against a cancel, and a message against the end or a pause."""

import asyncio
import random

import httpx
import pytest
from tests.support.thorough import THOROUGH
from tests.system.plane import Plane, on_both_engines
from tests.system.wire import (
    Json,
    Sse,
    call,
    client,
    raw_log,
    result,
    stream,
    task_of,
    text_message,
    texts_of,
    until,
)

pytestmark = [pytest.mark.more, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300), on_both_engines]

# Races, in tens.
OF_ENDS, OF_MESSAGES = (20, 10) if THOROUGH else (5, 3)
ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}


async def begin(http: httpx.AsyncClient, text: str) -> Json:
    """Begins a task without waiting."""
    params: Json = {"message": text_message(text), "configuration": {"returnImmediately": True}}
    return dict((await result(http, "SendMessage", params))["task"])


def chunks(rng: random.Random) -> str:
    """Returns a run of 1 to 2,000 chunks, short ones as often as long ones: on any machine some runs have ended when
    the other side comes, and some have not."""
    return f"chunks {int(10 ** rng.uniform(0, 3.3))} 64"


async def at_rest(http: httpx.AsyncClient, task_id: str) -> Json:
    async def probe() -> Json | None:
        task = await result(http, "GetTask", {"id": task_id})
        state = task["status"]["state"]
        return task if state in ENDED or state.endswith("_REQUIRED") else None

    return dict(await until(probe))


async def test_a_task_ends_once_in_a_race_of_completion_and_cancel(plane: Plane) -> None:
    """C7, C11, P8: one terminal event each; the session holds no message that its task lacks."""
    rng = random.Random(7)
    outcomes: dict[str, int] = {}

    async def race(http: httpx.AsyncClient, index: int) -> None:
        # One task that ends before its cancel, and one that does not, on any machine.
        task = await begin(http, ("slow 100", "echo over")[index] if index < 2 else chunks(rng))
        await (at_rest(http, task["id"]) if index == 1 else asyncio.sleep(rng.uniform(0, 0.03)))
        answer = await call(http, "CancelTask", {"id": task["id"]})
        final = await at_rest(http, task["id"])
        state = final["status"]["state"]
        outcomes[state] = outcomes.get(state, 0) + 1
        if "error" in answer:
            assert answer["error"]["code"] == -32002
            assert state == "TASK_STATE_COMPLETED"
        else:
            assert state == "TASK_STATE_CANCELED"
        events = await raw_log(http, task["id"])
        ends = [event for event in events if _state(event) in ENDED]
        assert len(ends) == 1
        assert ends[0]["generation"] == events[-1]["generation"] == len(events)
        said = {m["messageId"] for m in final.get("history", [])} | {
            final["status"].get("message", {}).get("messageId", "")
        }
        listed = (await http.get(f"/api/sessions/{task['contextId']}/messages")).json()["data"]["messages"]
        assert {message["messageId"] for message in listed} <= said

    async with client(plane.url) as http:
        for _ in range(OF_ENDS):
            await asyncio.gather(*(race(http, index) for index in range(10)))
    print(f"outcomes {outcomes}")
    assert sum(outcomes.values()) == 10 * OF_ENDS
    assert outcomes.keys() == {"TASK_STATE_CANCELED", "TASK_STATE_COMPLETED"}


async def test_after_a_cancel_the_agent_stops_and_nothing_is_appended(plane: Plane) -> None:
    """C11, P8: within a second; the stream ends with the cancel."""
    async with client(plane.url) as http:
        task = await begin(http, "slow 100")
        canceled = await result(http, "CancelTask", {"id": task["id"]})
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        head = (await raw_log(http, task["id"]))[-1]["generation"]
        await asyncio.sleep(1.0)
        assert (await raw_log(http, task["id"]))[-1]["generation"] == head
        refused = await call(http, "CancelTask", {"id": task["id"]})
        assert refused["error"]["code"] == -32002


@pytest.mark.parametrize("command", ["chunks", "ask"])
async def test_a_message_to_a_running_task_is_answered_before_the_task_completes(plane: Plane, command: str) -> None:
    """I1, C8, a2a D9: races of a message against a completion and against a pause; none is lost, and no task is
    stuck."""
    rng = random.Random(11)
    accepted = refused = 0

    async def race(http: httpx.AsyncClient, index: int) -> None:
        nonlocal accepted, refused
        # The first still runs when its message comes, however fast the machine is.
        task = await begin(http, command if command == "ask" else chunks(rng) if index else "slow 8")
        await asyncio.sleep(rng.uniform(0, 0.012))
        follow_up = text_message(f"echo follow-up {index}", taskId=task["id"], contextId=task["contextId"])
        answer = await call(http, "SendMessage", {"message": follow_up})
        if "error" in answer:
            refused += 1
            assert answer["error"]["code"] == -32004
            return
        accepted += 1
        final = await at_rest(http, task["id"])
        if final["status"]["state"].endswith("_REQUIRED"):
            more = text_message("blue", taskId=task["id"])
            final = dict((await result(http, "SendMessage", {"message": more}))["task"])
        assert final["status"]["state"] == "TASK_STATE_COMPLETED"
        texts = texts_of(final)
        assert f"echo follow-up {index}" in texts
        assert any(f"follow-up {index}" in text for text in texts[texts.index(f"echo follow-up {index}") + 1 :])

    async with client(plane.url) as http:
        for batch in range(OF_MESSAGES):
            await asyncio.gather(*(race(http, 10 * batch + index) for index in range(10)))
    print(f"{command}: accepted {accepted}, refused {refused}")
    assert accepted + refused == 10 * OF_MESSAGES
    assert accepted > 0


def _state(event: Json) -> str:
    shown: Json = event["event"] or {}
    update: Json = shown.get("statusUpdate") or {"status": {}}
    return str(update["status"].get("state"))


async def test_streams_of_one_task_have_the_same_events(plane: Plane) -> None:
    """C3: several clients, the same events in the same order."""
    async with (
        client(plane.url) as http,
        stream(http, "SendStreamingMessage", {"message": text_message("slow 8")}) as events,
    ):
        told = aiter(events)
        begun = await anext(told)
        place = {"Last-Event-ID": begun.id}

        async def watch() -> list[Sse]:
            async with stream(http, "SubscribeToTask", {"id": task_of([begun])["id"]}, **place) as others:
                return [event async for event in others]

        async def own() -> list[Sse]:
            return [event async for event in told]

        first, second, third = await asyncio.gather(own(), watch(), watch())
    seen = [[(event.id, event.result) for event in each] for each in (first, second, third)]
    assert seen[0] == seen[1] == seen[2]
    assert [event.generation for event in first] == list(range(2, 12))
