"""Large bodies and answers: they are translated in a thread, while the event loop serves other calls."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Generator
from typing import Any

import orjson
import pytest
from tests.gateway.plane import JSON_TYPE, Plane, fresh, request, said

from taskplane.gateway.web.translation_thread import LARGE, THREAD, TranslationThread
from taskplane.runtime.errors import Invalid

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Almost the maximum number of values, in two megabytes.
_ROWS = [{"a": 1}] * 190_000


@pytest.fixture
def worker() -> Generator[TranslationThread, None, None]:
    with contextlib.closing(TranslationThread()) as worker:
        yield worker


async def test_large_work_does_not_block_the_event_loop(worker: TranslationThread) -> None:
    """The work waits for the event loop, which would deadlock if the work ran there."""
    released = threading.Event()
    working = asyncio.create_task(worker.run(LARGE, released.wait, 10.0))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not working.done()
    released.set()
    assert await working is True


async def test_small_work_runs_at_once_in_the_calling_thread(worker: TranslationThread) -> None:
    running = worker.run(LARGE - 1, threading.get_ident)
    with pytest.raises(StopIteration) as done:
        running.send(None)
    assert done.value.value == threading.get_ident()
    assert await worker.run(LARGE, threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize("size", [0, LARGE])
async def test_an_exception_of_the_work_reaches_the_caller(worker: TranslationThread, size: int) -> None:
    def refuse() -> None:
        raise Invalid("no", fields={"a": "is wrong"})

    with pytest.raises(Invalid) as caught:
        await worker.run(size, refuse)
    assert caught.value.fields == {"a": "is wrong"}


async def test_large_work_runs_one_after_another(worker: TranslationThread) -> None:
    """There is one thread for it."""
    released = threading.Event()
    first = asyncio.create_task(worker.run(LARGE, released.wait, 10.0))
    second = asyncio.create_task(worker.run(LARGE, released.is_set))
    await asyncio.sleep(0)
    released.set()
    assert await second is True
    assert first.done()


def translating(thread_name: str = THREAD, *files: str) -> bool:
    """Return whether a thread other than the event loop converts between JSON and protobuf at this moment."""
    files = files or ("translate/struct.py", "runtime/json_values.py")
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0) if thread.name.startswith(thread_name) else None
        while frame is not None:
            if frame.f_code.co_filename.endswith(files):
                return True
            frame = frame.f_back
    return False


async def test_other_calls_are_served_while_a_large_body_is_translated(plane: Plane) -> None:
    """If it were translated on the event loop, no other call would be answered meanwhile."""
    parts: list[Any] = [{"data": _ROWS}, {"text": 1}]
    body = orjson.dumps(request("SendMessage", {"message": said("", parts=parts)}))
    sending = asyncio.create_task(plane.http.post("/", content=body, headers=JSON_TYPE))
    served = 0
    while not sending.done():
        assert (await plane.http.get("/healthz")).status_code == 200
        served += translating()
    assert served
    error = (await sending).json()["error"]
    assert error["code"] == -32602
    assert error["data"][1]["fieldViolations"] == [
        {"field": "message.parts[1].text", "description": "must be a string"}
    ]


async def test_a_large_answer_does_not_block_the_event_loop(plane: Plane) -> None:
    rows = _ROWS[:40_000]
    task = await plane.send("ask", message={"parts": [{"text": "ask"}, {"data": rows}]})
    assert task["history"][0]["parts"][1]["data"] == rows
    getting = asyncio.create_task(plane.result("GetTask", {"id": task["id"]}))
    turns = 0
    while not getting.done():
        await asyncio.sleep(0)
        turns += translating()
    assert turns
    assert (await getting)["history"] == task["history"]


async def test_a_large_state_does_not_block_the_event_loop(plane: Plane) -> None:
    """S5: neither in the store, which reads it from an event, nor in the gateway, which writes it."""
    context, rows = fresh(), _ROWS[:40_000]
    assert (await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})).status_code == 201
    event = {"id": fresh(), "invocationId": "run", "actions": {"stateDelta": {"rows": rows}}}
    body = {"id": event["id"], "data": orjson.dumps(event).decode()}
    storing = asyncio.create_task(plane.http.post(f"/api/sessions/{context}/events", json=body))
    turns = 0
    while not storing.done():
        await asyncio.sleep(0)
        turns += translating("asyncio", "domain/state.py")
    assert turns
    assert (await storing).status_code == 201
    reading = asyncio.create_task(plane.http.get(f"/api/sessions/{context}/state"))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += translating()
    assert turns
    assert (await reading).json()["data"]["state"] == {"rows": rows}


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        ({"jsonrpc": "1.0"}, -32600),
        ({"method": "Nothing"}, -32601),
        ({"params": {"message": {}}}, -32602),
    ],
)
async def test_a_large_body_is_checked_like_a_small_one(plane: Plane, envelope: dict[str, Any], code: int) -> None:
    body = {**request("SendMessage", {"message": said("hello")}), **envelope, "more": "x" * LARGE}
    reply = await plane.http.post("/", json=body)
    assert reply.json()["error"]["code"] == code
    assert reply.json()["id"] == "r"


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"a": "' + b"x" * LARGE, -32700), (b"[" * LARGE, -32602), (b"[" * LARGE + b"]" * LARGE, -32602)],
    ids=["no JSON", "too deep, without an end", "too deep"],
)
async def test_a_large_invalid_or_too_deep_body_is_refused(plane: Plane, body: bytes, code: int) -> None:
    reply = await plane.http.post("/", content=body, headers=JSON_TYPE)
    assert reply.json()["error"]["code"] == code
