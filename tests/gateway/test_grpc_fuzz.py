"""Random calls over gRPC: each is answered in time, with a typed reason if it is refused, and leaves nothing behind.
`FUZZ_SEED` is the seed, `FUZZ_CALLS` the number of calls of the long run."""

import asyncio
import logging
import os
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import pytest
from a2a.types import a2a_pb2 as sdk
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from tests.gateway.failures import status_of
from tests.gateway.grpc_fuzzing import Calls, Case
from tests.gateway.plane import Plane, open_all, open_behind, open_front
from tests.gateway.test_grpc import SERVICE, first, saying, stub
from tests.gateway.test_grpc_open_calls import half_sent, reason_of

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

SEED: Final = os.environ.get("FUZZ_SEED", "1")
CALLS: Final = int(os.environ.get("FUZZ_CALLS", "5000"))
AT_ONCE: Final = 8
# Seconds until an answer or the first event, on a busy machine.
BOUND: Final = 20.0
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]+")
_FAULTS: Final = {"INTERNAL", "INTERNAL_ERROR", "UNKNOWN", "ABANDONED"}
_STREAMS: Final = 20
_OPEN: Final = 30


async def answered(plane: Plane, case: Case) -> Any:
    """The reply to a call, its first event, or its error."""
    channel: Any = plane.channel
    call = (channel.unary_stream if case.streams else channel.unary_unary)(case.path)(
        case.body, metadata=tuple(case.metadata)
    )
    try:
        async with asyncio.timeout(BOUND):
            return await call.read() if case.streams else await call
    except grpc.aio.AioRpcError as error:
        return error
    finally:
        call.cancel()


def wrong(error: grpc.aio.AioRpcError) -> str:
    """The fault of an error; empty if it is a refusal with a reason."""
    status = status_of(error)
    if status is None:
        # gRPC itself refuses what is too large.
        large = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in str(error.details())
        return "" if large else f"{error.code().name} without details: {error.details()}"
    info = error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    typed = _CODE.fullmatch(info.reason) and info.reason not in _FAULTS
    return "" if typed and error.code() is not grpc.StatusCode.INTERNAL else f"{error.code().name} {info.reason}"


def task_of(case: Case, reply: bytes) -> str:
    """The task of the reply to a send; empty for a direct answer."""
    package = old if case.path.startswith("/a2a.v1") else a2a
    found: Any = (package.StreamResponse if case.streams else package.SendMessageResponse).FromString(reply)
    which = found.WhichOneof("payload")
    return "" if which in ("msg", "message") else found.task.id if which == "task" else getattr(found, which).task_id


async def tasks_of(plane: Plane) -> set[str]:
    """The ids of all tasks."""
    found: set[str] = set()
    token = ""
    while True:
        page = await plane.result("ListTasks", {"pageSize": 100, "pageToken": token})
        found |= {task["id"] for task in page["tasks"]}
        if not (token := page["nextPageToken"]):
            return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("calls", [300, pytest.param(CALLS, marks=pytest.mark.more)])
async def test_any_call_is_answered_with_a_reason_and_refused_ones_begin_no_task(
    tmp_path: Path, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    """S1, S7: malformed, oversized and unknown input to both services."""
    async with open_behind(tmp_path, executor={"sends_per_second": 0}) as behind, open_front(behind) as plane:
        before = [(await plane.send(text))["id"] for text in ("hello", "ask")]
        made = Calls(SEED, before)
        codes: Counter[str] = Counter()
        begun, faults = set(before), list[str]()
        numbers = iter(range(calls))

        async def work() -> None:
            for number in numbers:
                case = made.make(number)
                reply = await answered(plane, case)
                codes[reply.code().name if isinstance(reply, grpc.aio.AioRpcError) else "OK"] += 1
                if isinstance(reply, grpc.aio.AioRpcError):
                    if what := wrong(reply):
                        faults.append(f"call {number} to {case.path}: {what}: {case.body[:200]!r} {case.metadata}")
                elif case.sends and isinstance(reply, bytes):
                    begun.add(task_of(case, reply))

        with caplog.at_level(logging.ERROR):
            await asyncio.gather(*[work() for _ in range(AT_ONCE)])
            print(f"{calls} calls of seed {SEED}: {dict(sorted(codes.items()))}")
            assert faults == []
            assert await tasks_of(plane) <= begun
            assert (await stub(plane).SendMessage(saying("hello"))).task.status.state == sdk.TASK_STATE_COMPLETED
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
        # Each kind of answer was among them.
        assert codes["OK"] > calls // 20 and codes["INVALID_ARGUMENT"] > calls // 5 and codes["NOT_FOUND"] > 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize("calls", [150, pytest.param(1_000, marks=pytest.mark.more)])
async def test_calls_that_are_cancelled_or_late_leave_no_slot_behind(tmp_path: Path, calls: int) -> None:
    """C13: afterwards exactly as many streams and calls can be opened as before."""
    random, loop = Random(SEED), asyncio.get_running_loop()
    limits: dict[str, Any] = {"max_streams_per_principal": _STREAMS, "max_grpc_calls_per_principal": _OPEN}
    async with open_all(tmp_path, **limits) as plane:
        task = await plane.send("ask")
        numbers, codes = iter(range(calls)), Counter[str]()

        def call(timeout: float | None) -> Any:
            options = {"timeout": timeout}
            kind = random.randrange(5)
            if kind == 0:
                return stub(plane).SendStreamingMessage(saying("chunks 40 100"), **options)
            if kind == 1:
                return stub(plane).SubscribeToTask(sdk.SubscribeToTaskRequest(id=task["id"]), **options)
            if kind == 2:
                return half_sent(plane, SERVICE + "SendStreamingMessage", **options)
            if kind == 3:
                return stub(plane).SendMessage(saying("slow 4"), **options)
            return stub(plane).GetTask(sdk.GetTaskRequest(id=task["id"]), **options)

        async def work() -> None:
            for _ in numbers:
                late = random.random() < 0.4
                made = call(random.uniform(0.001, 0.05) if late else None)
                timer = loop.call_later(random.uniform(0.0, 0.03), made.cancel)
                codes[(await made.code()).name] += 1
                timer.cancel()

        await asyncio.gather(*[work() for _ in range(12)])
        # A slot is given back a moment after its client has gone, so that the limit may be met.
        assert set(codes) <= {"CANCELLED", "DEADLINE_EXCEEDED", "OK", "RESOURCE_EXHAUSTED"}, codes
        assert min(codes["CANCELLED"], codes["DEADLINE_EXCEEDED"]) > calls // 20, codes
        held: list[Any] = []
        async with asyncio.timeout(20):
            # The server hears of the last cancellations in a moment.
            while len(held) < _STREAMS:
                stream = stub(plane).SubscribeToTask(sdk.SubscribeToTaskRequest(id=task["id"]))
                try:
                    await first(stream)
                    held.append(stream)
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await reason_of(first(stub(plane).SendStreamingMessage(saying("hello")))) == (
                "RESOURCE_EXHAUSTED",
                "TOO_MANY_STREAMS",
            )
            halves = [half_sent(plane, SERVICE + "GetTask") for _ in range(_OPEN - _STREAMS)]
            code = reason = ""
            while code != "RESOURCE_EXHAUSTED":
                code, reason = await reason_of(stub(plane).GetTask(sdk.GetTaskRequest(id="none")))
            assert reason == "TOO_MANY_CALLS"
        for each in (*held, *halves):
            each.cancel()
