"""One suite, two channels: what a caller sees over a socket it sees in process, and the other way round."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue, StringValue
from tests.runtime.conftest import ALICE, SAY, Dial, EchoStub, Held, Kind, as_alice, echo_services, overrun

from taskplane.runtime import errors
from taskplane.runtime.interceptors import Context
from taskplane.runtime.principal import Principal, acting_as, caller

MIB = 1024 * 1024
HELLO = BytesValue(value=b"hello")


async def test_a_call_is_answered_and_a_stream_arrives_in_order(dial: Dial) -> None:
    async with dial(echo_services()) as channel:
        stub = as_alice(channel)
        assert await stub.Say(HELLO) == HELLO
        assert [reply.value async for reply in stub.Tell(HELLO)] == [b"h", b"e", b"l", b"l", b"o"]
        assert [reply async for reply in stub.Tell(BytesValue())] == []


async def test_a_call_runs_without_being_awaited_and_beside_others(dial: Dial) -> None:
    held = Held()
    async with dial(echo_services(held.say)) as channel:
        stub = as_alice(channel)
        first, second = stub.Say(HELLO), stub.Say(HELLO)
        await held.begun.wait()
        assert not first.done()
        held.release.set()
        assert [await first, await second] == [HELLO, HELLO]
        assert await first.code() is grpc.StatusCode.OK
        assert first.done()


async def test_the_code_of_a_call_is_known_after_its_end(dial: Dial) -> None:
    held = Held()
    async with dial(echo_services(held.say)) as channel:
        call = as_alice(channel).Say(HELLO)
        asking = [asyncio.ensure_future(ask()) for ask in (call.code, call.details, call.trailing_metadata)]
        await held.begun.wait()
        assert not any(each.done() for each in asking)
        held.release.set()
        assert await asyncio.gather(*asking) == [grpc.StatusCode.OK, "", grpc.aio.Metadata()]


async def test_metadata_arrives_as_it_was_sent(dial: Dial) -> None:
    seen: list[tuple[str, str | bytes]] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.extend(tuple(context.invocation_metadata() or ()))
        return request

    sent = (("x-one", "1"), ("x-one", "2"), ("x-raw-bin", b"\x00\xff"))
    async with dial(echo_services(say)) as channel:
        await as_alice(channel).Say(HELLO, metadata=sent)
    assert [pair for pair in seen if pair[0] in ("x-one", "x-raw-bin")] == list(sent)


async def test_metadata_arrives_as_text_unless_the_key_ends_with_bin(dial: Dial) -> None:
    seen: dict[str, object] = {}

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.update(dict(context.invocation_metadata() or ()))
        return request

    async with dial(echo_services(say)) as channel:
        await as_alice(channel).Say(HELLO, metadata=(("x-text", b"a b"), ("x-raw-bin", b"a b")))
    assert (seen["x-text"], seen["x-raw-bin"]) == ("a b", b"a b")


@pytest.mark.parametrize(
    "pair", [("X-Upper", "1"), ("x-text", "gr\u00fcn"), ("x-text", "a\nb"), ("x-text", b"\xff"), ("x-bin", "1")]
)
async def test_metadata_that_http2_cannot_carry_is_refused(dial: Dial, pair: tuple[str, Any]) -> None:
    async with dial(echo_services()) as channel:
        with pytest.raises(Exception, match=r"[Mm]etadata|Illegal"):
            await as_alice(channel).Say(HELLO, metadata=(pair,))


variable: ContextVar[str] = ContextVar("variable", default="empty")


async def test_a_handler_sees_nothing_of_its_callers_context_but_metadata(dial: Dial) -> None:
    seen: list[object] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.extend((variable.get(), asyncio.current_task(), caller()))
        variable.set("the handler's")
        return request

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        seen.extend((variable.get(), asyncio.current_task(), caller()))
        variable.set("the handler's")
        yield request

    variable.set("the caller's")
    somebody = Principal("acme", "carol", "user:carol")
    with acting_as(somebody):  # also while the server is started
        async with dial(echo_services(say, tell)) as channel:
            stub = as_alice(channel)
            await stub.Say(HELLO)
            assert [reply async for reply in stub.Tell(HELLO)] == [HELLO]
            assert variable.get() == "the caller's"
            assert caller() == somebody
    me = asyncio.current_task()
    assert [value if not isinstance(value, asyncio.Task) else value is me for value in seen] == [
        "empty",
        False,
        somebody,
    ] * 2


async def test_calls_use_the_principal_of_acting_as_or_else_of_the_channel(dial: Dial) -> None:
    seen: list[Principal] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(caller())
        return request

    bob = Principal("acme", "b\u00f6b", "user:b\u00f6b", service=True)
    async with dial(echo_services(say)) as channel:
        stub = as_alice(channel)
        with acting_as(bob):
            await stub.Say(HELLO)
        await stub.Say(HELLO)
    assert seen == [bob, ALICE]


async def test_a_request_beyond_4_mib_is_refused_before_the_handler_runs(dial: Dial) -> None:
    """Requests of our channels are limited to 4 MiB; since no repeat is smaller, the refusal is not one to retry."""
    calls: list[int] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        calls.append(len(request.value))
        return BytesValue()

    async with dial(echo_services(say)) as channel:
        stub = as_alice(channel)
        await stub.Say(BytesValue(value=b"x" * (4 * MIB - 5)))
        with pytest.raises(
            errors.Invalid, match="a message of 4,194,305 bytes is too large; at most 4,194,304 are allowed"
        ) as refused:
            await stub.Say(BytesValue(value=b"x" * (4 * MIB - 4)))
        assert refused.value.reason == "MESSAGE_TOO_LARGE"
        with pytest.raises(errors.Invalid):
            await stub.Tell(BytesValue(value=b"x" * (4 * MIB))).read()
    assert calls == [4 * MIB - 5]


async def test_a_reply_may_have_at_most_64_mib(dial: Dial) -> None:
    """Replies of our channels are limited to 64 MiB."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return BytesValue(value=bytes(int(request.value)))

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield BytesValue(value=bytes(int(request.value)))

    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        assert len((await stub.Say(BytesValue(value=b"%d" % (64 * MIB - 5)))).value) == 64 * MIB - 5
        for call in (stub.Say(BytesValue(value=b"%d" % (64 * MIB))), stub.Tell(BytesValue(value=b"%d" % (64 * MIB)))):
            with pytest.raises(errors.Invalid, match="at most 67,108,864 are allowed"):
                await (call.read() if hasattr(call, "__aiter__") else call)


async def test_a_unary_call_ends_at_its_deadline_and_its_handler_is_cancelled(dial: Dial) -> None:
    held, own = Held(), Held()
    remaining: list[float] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        remaining.append(context.time_remaining())
        return await (held if request == HELLO else own).say(request, context)

    async with dial(echo_services(say)) as channel:
        stub = as_alice(channel, deadline=0.7)
        await overrun(held, lambda: stub.Say(HELLO))
        await overrun(own, lambda: as_alice(channel).Say(BytesValue(), timeout=0.7))
        with pytest.raises(errors.DeadlineExceeded):
            await stub.Say(HELLO, timeout=0)
    assert held.cancelled
    assert own.cancelled
    assert all(0 <= each < 1 for each in remaining)


async def test_a_deadline_does_not_wait_for_a_handler_that_ignores_its_cancellation(dial: Dial) -> None:
    begun = asyncio.Event()
    stubborn = asyncio.Event()
    released = asyncio.Event()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stubborn.set()
            await released.wait()
        return request

    async with dial(echo_services(say)) as channel:
        # On a busy machine the deadline may pass before the handler begins.
        while not begun.is_set():
            with pytest.raises(errors.DeadlineExceeded):
                await as_alice(channel).Say(HELLO, timeout=0.7)
        await stubborn.wait()
        released.set()


async def test_a_stream_has_no_deadline_unless_it_is_given_one(dial: Dial) -> None:
    held = Held()
    async with dial(echo_services(tell=held.tell)) as channel:
        stub = as_alice(channel, deadline=0.05)
        stream = stub.Tell(HELLO)
        assert await stream.read() == HELLO
        await held.begun.wait()
        assert stream.time_remaining() is None
        held.release.set()
        assert await stream.read() == HELLO
        assert await stream.read() is grpc.aio.EOF

        held.release.clear()
        held.ended.clear()
        held.begun.clear()

        async def told() -> None:
            async for _ in stub.Tell(HELLO, timeout=0.7):
                pass

        await overrun(held, told)
        assert held.cancelled


async def test_cancelling_the_caller_cancels_the_handler(dial: Dial) -> None:
    held = Held()
    async with dial(echo_services(held.say, held.tell)) as channel:
        stub = as_alice(channel)

        async def unary() -> None:
            await stub.Say(HELLO)

        async def stream() -> None:
            async for _ in stub.Tell(HELLO):
                pass

        for call in (unary, stream):
            held.begun.clear()
            held.ended.clear()
            held.cancelled = False
            task = asyncio.create_task(call())
            await held.begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await held.ended.wait()
            assert held.cancelled


async def test_a_call_cancelled_before_its_handler_began_ends(dial: Dial) -> None:
    async with dial(echo_services()) as channel:
        stub = as_alice(channel)
        for call in (stub.Say(HELLO), stub.Tell(HELLO)):
            assert call.cancel()
            assert await call.code() is grpc.StatusCode.CANCELLED
            with pytest.raises(asyncio.CancelledError):
                await (call.read() if hasattr(call, "__aiter__") else call)
            assert not call.cancel()


@pytest.mark.parametrize("leave", ["cancel", "forget"])
async def test_a_stream_that_is_left_early_closes_its_handler(dial: Dial, leave: str) -> None:
    closed = asyncio.Event()

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        try:
            while True:
                yield BytesValue(value=b"x" * 65_536)
        finally:
            await asyncio.sleep(0)
            closed.set()

    async with dial(echo_services(tell=tell)) as channel:
        stub = as_alice(channel)
        stream = stub.Tell(HELLO)
        async for _ in stream:
            break
        if leave == "cancel":
            stream.cancel()
        del stream
        gc.collect()
        await closed.wait()


async def test_a_stream_is_left_wherever_the_collector_finds_it(dial: Dial) -> None:
    """A loop that checks its callers' threads finds none but its own."""
    held = Held()
    asyncio.get_running_loop().set_debug(True)
    async with dial(echo_services(tell=held.tell)) as channel:
        stream = as_alice(channel).Tell(HELLO)
        assert await stream.read() == HELLO
        await held.begun.wait()
        cycle: list[object] = [stream]
        cycle.append(cycle)
        del cycle, stream
        await asyncio.to_thread(gc.collect)
        await held.ended.wait()
    assert held.cancelled


async def test_a_failure_after_some_messages_comes_after_them(dial: Dial) -> None:
    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield BytesValue(value=b"1")
        yield BytesValue(value=b"2")
        raise errors.OutOfRange("no further", reason="TRIMMED", metadata={"oldest_generation": "3"})

    got: list[bytes] = []
    async with dial(echo_services(tell=tell)) as channel:
        with pytest.raises(errors.OutOfRange, match="no further") as failed:
            async for reply in as_alice(channel).Tell(HELLO):
                got.append(reply.value)
    assert got == [b"1", b"2"]
    assert failed.value.reason == "TRIMMED"
    assert failed.value.metadata == {"oldest_generation": "3"}


async def test_an_error_arrives_whole(dial: Dial) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise errors.Exhausted(
            "the queue is full \u2013 wait",
            reason="QUEUE_FULL",
            suggestion="retry later",
            fields={"items": "too many"},
            metadata={"limit": "10"},
            retry_after=1.5,
        )

    async with dial(echo_services(say)) as channel:
        with pytest.raises(errors.Exhausted) as failed:
            await as_alice(channel).Say(HELLO)
    error = failed.value
    assert (error.message, error.reason, error.suggestion) == (
        "the queue is full \u2013 wait",
        "QUEUE_FULL",
        "retry later",
    )
    assert (error.fields, error.metadata, error.retry_after) == ({"items": "too many"}, {"limit": "10"}, 1.5)


async def test_status_and_trailers_in_process_equal_those_of_grpc(dial: Dial) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise errors.NotFound("no such task")

    async with dial(echo_services(say, default=ALICE)) as channel:
        call = EchoStub(channel).Say(HELLO)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await call
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND
        assert failed.value.details() == "no such task"
        assert [key for key, _ in failed.value.trailing_metadata()] == ["grpc-status-details-bin"]
        assert await call.code() is grpc.StatusCode.NOT_FOUND
        assert await call.details() == "no such task"
        assert (await call.trailing_metadata()) == failed.value.trailing_metadata()
        assert not call.cancelled()


async def test_a_handler_may_set_trailers_and_abort_by_itself(dial: Dial) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        context.set_trailing_metadata((("x-more", "yes"),))
        if request.value:
            await context.abort(grpc.StatusCode.DATA_LOSS, "gone")
        return request

    async with dial(echo_services(say, default=ALICE)) as channel:
        stub = EchoStub(channel)
        call = stub.Say(BytesValue())
        await call
        assert ("x-more", "yes") in tuple(await call.trailing_metadata())
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.Say(HELLO)
        assert failed.value.code() is grpc.StatusCode.DATA_LOSS
        assert failed.value.details() == "gone"
        assert ("x-more", "yes") in tuple(failed.value.trailing_metadata())


async def test_an_aborted_call_stays_aborted_if_its_handler_suppresses_the_error(dial: Dial) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        with suppress(grpc.aio.AbortError):
            await context.abort(grpc.StatusCode.DATA_LOSS, "gone")
        return request

    async with dial(echo_services(say, default=ALICE)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await EchoStub(channel).Say(HELLO)
        assert failed.value.code() is grpc.StatusCode.DATA_LOSS
        assert failed.value.details() == "gone"


async def test_a_call_is_not_aborted_with_ok(dial: Dial) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        await context.abort(grpc.StatusCode.OK, "fine")

    async with dial(echo_services(say)) as channel:
        with pytest.raises(errors.PlaneError):
            await as_alice(channel).Say(HELLO, timeout=1.0)


async def test_an_answer_that_cannot_be_sent_is_internal(kind: Kind, dial: Dial) -> None:
    if kind == "inprocess":
        pytest.skip("everything can be handed over")

    async def say(request: BytesValue, context: Context) -> BytesValue:
        context.set_trailing_metadata((("x-more", "\u2026"),))
        return request

    async with dial(echo_services(say)) as channel:
        with pytest.raises(errors.Internal):
            await as_alice(channel).Say(HELLO)


async def test_an_unknown_method_is_unimplemented(dial: Dial) -> None:
    async with dial(echo_services()) as channel:
        with pytest.raises(errors.Unimplemented):
            await as_alice(channel).Gone(HELLO)


async def test_a_handler_that_breaks_answers_internal_and_tells_nothing(
    dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise LookupError("the secret name of a table")

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        raise LookupError("the secret name of a table")

    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        with pytest.raises(errors.Internal, match=r"^internal error, request id r-1$"):
            await stub.Say(HELLO, metadata=(("x-request-id", "r-1"),))
        stream = stub.Tell(HELLO, metadata=(("x-request-id", "r-1"),))
        assert await stream.read() == HELLO
        with pytest.raises(errors.Internal, match=r"^internal error, request id r-1$"):
            await stream.read()
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR", "ERROR"]
    assert caplog.text.count("LookupError: the secret name of a table") == 2


async def test_a_cancelled_error_raised_by_a_handler_does_not_hang_its_client(dial: Dial) -> None:
    """grpc.aio leaves the client of such a handler waiting (grpc/grpc#29248)."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        raise asyncio.CancelledError

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        yield request
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.cancel()
        await lost

    async with dial(echo_services(say, tell)) as channel:
        stub = as_alice(channel)
        with pytest.raises(errors.Conflict):
            await stub.Say(HELLO, timeout=60)
        stream = stub.Tell(HELLO, timeout=60)
        assert await stream.read() == HELLO
        with pytest.raises(errors.Conflict):
            await stream.read()


async def test_two_classes_of_one_wire_form_understand_each_other(dial: Dial) -> None:
    seen: list[object] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(request)
        return BytesValue(value=request.value.upper())

    async with dial(echo_services(say, default=ALICE)) as channel:
        foreign: Any = channel.unary_unary(SAY, StringValue.SerializeToString, StringValue.FromString)
        assert await foreign(StringValue(value="hello")) == StringValue(value="HELLO")
        by_bytes: Any = channel
        raw: Any = by_bytes.unary_unary(SAY)
        assert await raw(HELLO.SerializeToString()) == BytesValue(value=b"HELLO").SerializeToString()
    assert seen == [HELLO, HELLO]
