"""The limits on open calls over gRPC: requests that do not arrive, replies that are not taken, calls at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from a2a.types import a2a_pb2 as sdk
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from tests.executor.scripted import Scripted
from tests.gateway.failures import failed, status_of
from tests.gateway.plane import Plane, open_all, said, unhurried
from tests.gateway.test_grpc import OPEN, SERVICE, bearing, keys_in, saying, stub

from taskplane.agents.agent import Change, Complete, Turn

METHODS: Final = (
    f"{SERVICE}SendMessage",
    f"{SERVICE}SendStreamingMessage",
    "/a2a.v1.A2AService/SendMessage",
    "/a2a.v1.A2AService/SendStreamingMessage",
)


def half_sent(plane: Plane, path: str, **options: Any) -> Any:
    """A call whose request does not arrive."""
    channel: Any = plane.channel
    return channel.stream_stream(path)(**options)


async def reason_of(call: Any) -> tuple[str, str]:
    """The code and the reason of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, failed(caught.value).reason


@pytest.mark.parametrize("path", METHODS)
async def test_an_unknown_caller_is_refused_before_its_request_is_read(tmp_path: Path, path: str) -> None:
    """S2: it costs no memory."""
    async with open_all(tmp_path, api_keys=keys_in(tmp_path)) as plane:
        for metadata, reason in (((), "NO_CREDENTIALS"), ((("x-api-key", "ann.wrong"),), "BAD_CREDENTIALS")):
            call = half_sent(plane, path, metadata=metadata)
            assert await reason_of(call.read()) == ("UNAUTHENTICATED", reason)


@pytest.mark.parametrize("path", METHODS)
async def test_a_request_that_does_not_arrive_is_given_up(tmp_path: Path, path: str) -> None:
    async with open_all(tmp_path, body_timeout=0.2) as plane:
        assert await reason_of(half_sent(plane, path).read()) == ("INVALID_ARGUMENT", "BODY_TIMEOUT")
        none = half_sent(plane, path)
        await none.done_writing()
        assert await reason_of(none.read()) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
        assert (await plane.result("ListTasks", {}))["tasks"] == []


async def test_a_caller_has_a_limited_number_of_requests_that_arrive_slowly(tmp_path: Path) -> None:
    async with open_all(tmp_path, max_uploads_per_principal=1) as plane:
        slow = [half_sent(plane, METHODS[0]) for _ in range(2)]
        done, waiting = await asyncio.wait(
            [asyncio.ensure_future(reason_of(call.read())) for call in slow], return_when=asyncio.FIRST_COMPLETED
        )
        assert [read.result() for read in done] == [("RESOURCE_EXHAUSTED", "TOO_MANY_UPLOADS")]
        for read in waiting:
            read.cancel()


async def never(turn: Turn) -> AsyncIterator[Change]:
    await asyncio.Event().wait()
    yield Complete()


@pytest.mark.parametrize("limit", ["max_grpc_calls", "max_grpc_calls_per_principal"])
async def test_a_call_beyond_the_limit_is_refused_until_another_has_ended(tmp_path: Path, limit: str) -> None:
    settings: dict[str, Any] = {limit: 1}
    async with open_all(tmp_path, ("a", Scripted(never)), api_keys=keys_in(tmp_path), **settings) as plane:
        ann, other = bearing("ann"), bearing("reader")
        waiting = asyncio.ensure_future(stub(plane).SendMessage(saying("go"), metadata=ann))
        await until_listed(plane)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=ann)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert failed(caught.value).reason == "TOO_MANY_CALLS"
        retry = error_details_pb2.RetryInfo()
        assert status_of(caught.value).details[-1].Unpack(retry) and retry.retry_delay.seconds == 1
        listing = stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=other)
        if limit == "max_grpc_calls":
            assert (await reason_of(listing))[1] == "TOO_MANY_CALLS"
        else:
            assert len((await listing).tasks) == 0
        waiting.cancel()
        await served(lambda: stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=ann), "TOO_MANY_CALLS")


async def until_listed(plane: Plane) -> None:
    async with asyncio.timeout(10):
        while not (await plane.result("ListTasks", {}, authorization="Bearer ann.s3cret"))["tasks"]:
            await asyncio.sleep(0.01)


async def served(call: Any, refusal: str) -> None:
    """Wait until a call is no longer refused."""
    async with asyncio.timeout(10):
        while True:
            try:
                await call()
                return
            except grpc.aio.AioRpcError as error:
                assert failed(error).reason == refusal
                await asyncio.sleep(0.01)


async def test_a_reply_that_is_not_taken_keeps_the_place_of_its_call(tmp_path: Path) -> None:
    """C13: also that of a unary call, which gRPC keeps in memory."""
    async with open_all(tmp_path, max_grpc_calls_per_principal=1) as plane, unhurried(plane.public) as channel:
        made: Any = channel
        task = await plane.send("echo " + "x" * 1_000_000)
        unread = made.unary_stream(SERVICE + "GetTask")(sdk.GetTaskRequest(id=task["id"]).SerializeToString())
        await unread.initial_metadata()
        none = sdk.GetTaskRequest(id="none")
        assert (await reason_of(stub(plane).GetTask(none)))[1] == "TOO_MANY_CALLS"
        whole = sdk.Task.FromString(await unread.read())
        assert whole.id == task["id"]
        await served(lambda: stub(plane).ListTasks(sdk.ListTasksRequest()), "TOO_MANY_CALLS")


async def test_a_stream_that_is_not_read_keeps_its_slot_until_its_client_has_gone(tmp_path: Path) -> None:
    """C13: it is cut off before, but gRPC keeps its last message for the client."""
    limits: dict[str, Any] = {"write_timeout": 0.2, "max_streams_per_principal": 1}
    async with open_all(tmp_path, **limits) as plane, unhurried(plane.public) as channel:
        made: Any = channel
        request = saying("message " + "x" * 1_000_000).SerializeToString()
        unread = made.unary_stream(SERVICE + "SendStreamingMessage")(request)
        await unread.initial_metadata()
        await plane.at_zero(OPEN.replace("SubscribeToTask", "SendStreamingMessage"))
        stream = stub(plane).SendStreamingMessage(saying("hello"))
        assert (await reason_of(stream.read()))[1] == "TOO_MANY_STREAMS"
        error = await plane.error("SendStreamingMessage", {"message": said("hello")})
        assert error["data"][0]["reason"] == "TOO_MANY_STREAMS"
        unread.cancel()
        await served(lambda: stub(plane).SendStreamingMessage(saying("hello")).read(), "TOO_MANY_STREAMS")
