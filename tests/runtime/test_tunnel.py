"""What a tunnel promises beyond what every channel does: its calls do not hold one another up, and it ends well."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from tests.runtime.conftest import ALICE, SAY, TELL, Held, as_alice, echo_services, say_back

from taskplane.api.tunnel.v1 import tunnel_pb2 as pb
from taskplane.api.tunnel.v1.tunnel_pb2_grpc import TunnelStub
from taskplane.runtime import errors
from taskplane.runtime.channel import connect, tunnel
from taskplane.runtime.interceptors import Context
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services
from taskplane.runtime.tunnel import channel as tunnelled
from taskplane.runtime.tunnel.frames import AHEAD, PIECE

MIB = 1024 * 1024
HELLO = BytesValue(value=b"hello")


class Raw:
    """A tunnel frame by frame, as one of our own channels would not use it."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._frames: list[pb.Frame] = []
        self._messages: dict[int, bytes] = {}
        self._ended: dict[int, pb.End] = {}

    async def send(self, *frames: pb.Frame) -> None:
        await self.stream.write(pb.Frames(frames=frames))

    async def frame(self) -> pb.Frame:
        """The next frame."""
        while not self._frames:
            self._frames.extend((await self.stream.read()).frames)
        return self._frames.pop(0)

    async def end(self, call: int) -> tuple[bytes, pb.End]:
        """The message and the end of a call."""
        while call not in self._ended:
            frame = await self.frame()
            self._messages[frame.call] = self._messages.get(frame.call, b"") + frame.piece
            if frame.HasField("end"):
                self._ended[frame.call] = frame.end
        return self._messages.pop(call), self._ended.pop(call)


@asynccontextmanager
async def opened(services: Services) -> AsyncGenerator[Raw]:
    """A raw tunnel to services whose calls are ALICE's."""
    async with serving(services, "127.0.0.1:0", grace=0.2) as server, connect(server.address) as channel:
        stream = TunnelStub(channel).Open()
        try:
            yield Raw(stream)
        finally:
            stream.cancel()


def begin(call: int, value: bytes, method: str = SAY, *, streaming: bool = False) -> pb.Frame:
    return pb.Frame(
        call=call,
        begin=pb.Begin(method=method, streaming=streaming),
        piece=BytesValue(value=value).SerializeToString(),
    )


async def test_a_large_reply_comes_in_pieces_and_others_go_between_them() -> None:
    """One stream carries all calls, so none may be held up by another's megabytes."""

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return BytesValue(value=bytes(32 * MIB)) if request.value == b"large" else request

    async with opened(echo_services(say, default=ALICE)) as raw:
        await raw.send(begin(1, b"large"))
        first = await raw.frame()
        assert (first.call, len(first.piece), first.more) == (1, PIECE, True)
        await raw.send(begin(2, b"small"))
        order: list[int] = []
        size = len(first.piece)
        while len(order) < 2:
            frame = await raw.frame()
            assert len(frame.piece) <= PIECE
            if frame.call == 1:
                size += len(frame.piece)
            if frame.HasField("end"):
                order.append(frame.call)
        assert order == [2, 1]
        assert size == BytesValue(value=bytes(32 * MIB)).ByteSize()


async def test_a_large_request_in_pieces_is_one_request() -> None:
    seen: list[bytes] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        seen.append(request.value)
        return BytesValue()

    async with (
        serving(echo_services(say), "127.0.0.1:0", grace=0.2) as server,
        tunnel(server.address) as channel,
    ):
        values = [bytes([number]) * (MIB + number) for number in range(5)]
        stub = as_alice(channel)
        await asyncio.gather(*(stub.Say(BytesValue(value=value)) for value in values))
    assert sorted(seen) == values


async def test_a_request_beyond_the_limit_is_refused_while_it_arrives() -> None:
    async with opened(echo_services(default=ALICE)) as raw:
        piece = bytes(MIB)
        await raw.send(pb.Frame(call=1, begin=pb.Begin(method=SAY), piece=piece, more=True))
        for _ in range(4):
            await raw.send(pb.Frame(call=1, piece=piece, more=True))
        _, end = await raw.end(1)
        assert end.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        await raw.send(begin(2, b"still here"))
        assert (await raw.end(2))[1].code == 0


async def test_a_stream_whose_messages_nobody_takes_stands_still() -> None:
    """C13: a slow client costs no memory: its handler waits."""
    told = 0

    async def tell(request: BytesValue, context: Context) -> AsyncIterator[BytesValue]:
        nonlocal told
        while True:
            told += 1
            yield BytesValue(value=bytes(MIB))

    async with (
        serving(echo_services(tell=tell), "127.0.0.1:0", grace=0.2) as server,
        tunnel(server.address) as channel,
    ):
        stub = as_alice(channel)
        stream = stub.Tell(HELLO)
        for _ in range(3):
            await stream.read()
        for _ in range(200):
            await stub.Say(HELLO)
        assert told <= 3 + AHEAD + 2
        stream.cancel()


async def test_a_request_that_is_no_message_is_refused_as_outside() -> None:
    async with opened(echo_services(default=ALICE)) as raw:
        await raw.send(pb.Frame(call=1, begin=pb.Begin(method=SAY), piece=b"\xff\xff"))
        _, end = await raw.end(1)
        assert end.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert "not a message" in end.details


async def test_a_reply_that_a_client_cannot_read_is_no_concern_of_others() -> None:
    held = Held()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return await held.say(request, context) if request == HELLO else request

    async with (
        serving(echo_services(say, default=ALICE), "127.0.0.1:0", grace=0.2) as server,
        tunnel(server.address) as channel,
    ):
        other = asyncio.ensure_future(as_alice(channel).Say(HELLO))
        await held.begun.wait()
        made: Any = channel
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await made.unary_unary(SAY, BytesValue.SerializeToString, int)(BytesValue(value=b"no number"))
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        held.release.set()
        assert await other == HELLO


async def test_a_method_of_the_other_shape_and_bad_metadata_are_refused() -> None:
    async with opened(echo_services(default=ALICE)) as raw:
        bad = begin(3, b"x")
        bad.begin.metadata.add(key="Upper", value=b"1")
        await raw.send(begin(1, b"x", TELL), begin(2, b"x", SAY, streaming=True), bad)
        ends = [(await raw.end(number))[1] for number in (1, 2, 3)]
        unimplemented, internal = grpc.StatusCode.UNIMPLEMENTED.value[0], grpc.StatusCode.INTERNAL.value[0]
        assert [end.code for end in ends] == [unimplemented, unimplemented, internal]


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf"), 1e300])
async def test_a_deadline_that_is_none_is_none(timeout: float) -> None:
    async with opened(echo_services(default=ALICE)) as raw:
        call = begin(1, b"x")
        call.begin.timeout = timeout
        await raw.send(call)
        assert (await raw.end(1))[1].code == 0


@pytest.mark.parametrize("number", [0, 1])
async def test_a_number_that_is_taken_breaks_the_tunnel(number: int) -> None:
    held = Held()
    async with opened(echo_services(held.say, default=ALICE)) as raw:
        await raw.send(begin(1, b"x"))
        await held.begun.wait()
        await raw.send(begin(number, b"y"))
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            while True:
                await raw.frame()
        assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await held.ended.wait()
        assert held.cancelled


async def test_steps_of_calls_that_are_over_or_never_were_change_nothing() -> None:
    async with opened(echo_services(default=ALICE)) as raw:
        await raw.send(begin(1, b"x"))
        await raw.end(1)
        over = [pb.Frame(call=call, piece=b"x", taken=1, cancel=True) for call in (1, 7)]
        await raw.send(*over, begin(8, b"hello"))
        message, end = await raw.end(8)
        assert (message, end.code) == (HELLO.SerializeToString(), 0)


async def test_a_tunnel_ends_with_a_call_that_never_began() -> None:
    """C14: what is cancelled or refused before its handler began does not hold up a drain either."""
    half = pb.Frame(call=1, begin=pb.Begin(method=SAY), piece=b"half", more=True)
    bad = pb.Frame(call=1, begin=pb.Begin(method=SAY), more=True)
    bad.begin.metadata.add(key="Upper", value=b"1")
    cancel = pb.Frame(call=1, cancel=True)
    over = [pb.Frame(call=1, piece=bytes(2 * MIB), more=True) for _ in range(3)]
    for first, rest in (
        ((half,), ((cancel,),)),
        ((bad,), ((pb.Frame(call=1, piece=b""),),)),
        ((half,), [(frame,) for frame in over]),
        ((begin(1, b"x", TELL, streaming=True), cancel), ()),
    ):
        async with asyncio.timeout(10), opened(echo_services(default=ALICE)) as raw:
            await raw.send(*first, pb.Frame(leaving=True))
            for frames in rest:
                await raw.send(*frames)
            while await raw.stream.read() is not grpc.aio.EOF:
                pass
            assert await raw.stream.code() is grpc.StatusCode.OK


async def test_nothing_of_a_reply_is_sent_once_its_call_is_cancelled() -> None:
    async def say(request: BytesValue, context: Context) -> BytesValue:
        return BytesValue(value=bytes(32 * MIB)) if request.value == b"large" else request

    async with opened(echo_services(say, default=ALICE)) as raw:
        await raw.send(begin(1, b"large"))
        await raw.frame()
        await raw.send(pb.Frame(call=1, cancel=True), pb.Frame(leaving=True))
        size = 0
        while (frames := await raw.stream.read()) is not grpc.aio.EOF:
            size += sum(len(frame.piece) for frame in frames.frames)
        assert size < 16 * MIB


async def test_many_calls_at_once_are_more_than_one_message() -> None:
    """Services take messages of 4 MiB; these calls have no request and 8 MB of metadata."""
    async with (
        serving(echo_services(), "127.0.0.1:0", grace=0.2) as server,
        tunnel(server.address) as channel,
    ):
        stub = as_alice(channel)
        metadata = (("x-much", "x" * 8000),)
        await asyncio.gather(*(stub.Say(BytesValue(), metadata=metadata) for _ in range(1000)))


async def test_a_tunnel_that_nobody_uses_does_not_hold_up_a_drain() -> None:
    """C14: a drain takes as long as what is under way, and an open tunnel is nothing under way."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(20))
        async with serving(echo_services(), "127.0.0.1:0", grace=600) as server:
            stub = as_alice(await stack.enter_async_context(tunnel(server.address)))
            assert await stub.Say(HELLO) == HELLO


async def test_when_the_server_leaves_calls_end_where_they_are() -> None:
    """C14: what is under way when a drain begins is answered; the tunnel ends with the last of it."""
    held = Held()
    async with opened(echo_services(held.say, default=ALICE)) as raw:
        await raw.send(begin(1, b"x"))
        await held.begun.wait()
        await raw.send(pb.Frame(leaving=True))
        held.release.set()
        assert (await raw.end(1))[1].code == 0
        assert await raw.stream.read() is grpc.aio.EOF
        assert await raw.stream.code() is grpc.StatusCode.OK


async def test_an_old_tunnel_makes_way_and_ends_with_its_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()

    async def say(request: BytesValue, context: Context) -> BytesValue:
        return await (held.say if request == HELLO else say_back)(request, context)

    async with (
        serving(echo_services(say), "127.0.0.1:0", grace=0.2) as server,
        connect(server.address) as socket,
        tunnelled.TunnelChannel(socket) as channel,
    ):
        stub = as_alice(channel)
        waiting = asyncio.ensure_future(stub.Say(HELLO))
        await held.begun.wait()
        (old,) = channel.links
        monkeypatch.setattr(tunnelled, "_LIFE", 0.0)
        assert await stub.Say(BytesValue()) == BytesValue()
        monkeypatch.undo()
        assert await stub.Say(BytesValue()) == BytesValue()
        assert len(channel.links) == 2
        ending = channel.links[old]
        held.release.set()
        assert await waiting == HELLO
        await ending
        assert old not in channel.links


async def test_what_a_cancelled_call_still_had_to_send_is_not_sent() -> None:
    begun: list[int] = []

    async def say(request: BytesValue, context: Context) -> BytesValue:
        begun.append(len(request.value))
        return BytesValue()

    async with (
        serving(echo_services(say), "127.0.0.1:0", grace=0.2) as server,
        tunnel(server.address) as channel,
    ):
        stub = as_alice(channel)
        calls = [stub.Say(BytesValue(value=bytes(3 * MIB))) for _ in range(3)]
        for call in calls[:2]:
            assert call.cancel()
        await calls[2]
        await stub.Say(BytesValue())
    assert begun == [3 * MIB, 0]


async def test_health_is_asked_outside_of_the_tunnel() -> None:
    """gRPC's own services are those of a process, with or without tunnels."""
    async with serving(echo_services(), "127.0.0.1:0", grace=0.2) as server, tunnel(server.address) as channel:
        made: Any = channel
        check = made.unary_unary("/grpc.health.v1.Health/Check")
        assert await check(b"")
        with pytest.raises(TypeError, match="streams requests"):
            made.stream_stream("/x/Y")(iter(()))


async def test_a_server_without_tunnels_is_unavailable() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with tunnel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(errors.Unavailable):
            await as_alice(channel).Say(HELLO)
    await server.stop(0)
