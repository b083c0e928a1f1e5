"""The client's end of a tunnel, and the calls that are in it."""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import grpc

from taskplane.api.tunnel.v1 import tunnel_pb2 as pb
from taskplane.runtime.exchange import LOCALLY_CANCELLED, ChannelClosed, Exchange, Pairs, Stream
from taskplane.runtime.tunnel.frames import TOLD_AT_ONCE, Joined, Outgoing, from_pairs, to_pairs

_CODES: Final = {int(code.value[0]): code for code in grpc.StatusCode}


class Remote(Exchange):
    """A call as this side has it."""

    link: "Link | None" = None
    """Where it was begun, under this `number`."""
    number = 0
    joined: Joined

    @abstractmethod
    def arrive(self, message: bytes) -> None:
        """A reply is here. Raises what its caller's deserializer does."""

    def finish(self, code: grpc.StatusCode, text: str = "") -> None:
        super().finish(code, text)
        self.leave()

    def _stop(self) -> None:
        if self.link is not None:
            self.link.cancel(self)
        self.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED)


class RemoteUnary(Remote):
    """A call with one reply."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metadata: Pairs, parse: Callable[[bytes], Any]) -> None:
        super().__init__(loop, metadata)
        self._parse = parse

    def arrive(self, message: bytes) -> None:
        self.reply = self._parse(message)


class RemoteStream(Remote, Stream):
    """A call with a stream of replies, of which few arrive before they are taken."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metadata: Pairs, parse: Callable[[bytes], Any]) -> None:
        super().__init__(loop, metadata, parse)
        self._arrived: deque[Any] = deque()
        self._untold = 0

    def arrive(self, message: bytes) -> None:
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(self._measured(message))
            self._tell_taken()
        else:
            self._arrived.append(self._measured(message))

    async def take(self) -> Any:
        if self._arrived:
            self._tell_taken()
            return self._arrived.popleft()
        return await super().take()

    def _tell_taken(self) -> None:
        self._untold += 1
        if self._untold == TOLD_AT_ONCE and self.link is not None and self.status is None:
            self._untold = 0
            self.link.taken(self)

    def _stop(self) -> None:
        self._arrived.clear()
        super()._stop()


class Link:
    """An open tunnel, or one that is being opened: what is begun meanwhile waits, as on a channel that connects."""

    def __init__(self, stream: "grpc.aio.StreamStreamCall[pb.Frames, pb.Frames]", loop: asyncio.AbstractEventLoop):
        self.opened = loop.time()
        """When it was opened, on the loop's clock."""
        self.open = True
        """New calls may be begun here."""
        self._stream = stream
        self._calls: dict[int, Remote] = {}
        self._numbers = count(1)
        self._outgoing = Outgoing()

    def begin(self, call: Remote, begin: pb.Begin, request: bytes) -> None:
        """Sends a call; its metadata is added to `begin`."""
        call.link = self
        call.joined = Joined()
        call.number = next(self._numbers)
        self._calls[call.number] = call
        begin.metadata.extend(to_pairs(call.metadata))
        self._outgoing.put(pb.Frame(call=call.number, begin=begin), request)

    def cancel(self, call: Remote) -> None:
        """Its caller wants no answer any more."""
        if self._calls.pop(call.number, None) is not None:
            self._outgoing.drop(call.number)
            self._outgoing.put(pb.Frame(call=call.number, cancel=True))

    def taken(self, call: Remote) -> None:
        """Its caller has taken some more messages of the stream."""
        if call.number in self._calls:
            self._outgoing.put(pb.Frame(call=call.number, taken=TOLD_AT_ONCE))

    def leave(self) -> None:
        """Begins no more calls; the tunnel ends with its last."""
        if self.open:
            self.open = False
            self._outgoing.put(pb.Frame(leaving=True))

    async def run(self) -> None:
        """Sends and receives until the tunnel ends; what is under way then has failed as UNAVAILABLE."""
        writing = asyncio.create_task(self._outgoing.write(self._stream.write), name="tunnel writing")
        writing.add_done_callback(self._written)
        why = "the tunnel to the service has ended"
        try:
            async for frames in self._stream:
                for frame in frames.frames:
                    self._take(frame)
        except grpc.aio.AioRpcError as error:
            why = f"the tunnel to the service broke: {error.details()}"
        finally:
            self.open = False
            writing.cancel()
            # What it raises when the stream is over was said above.
            await asyncio.gather(writing, return_exceptions=True)
            for call in self._drained():
                call.finish(grpc.StatusCode.UNAVAILABLE, why)

    def _written(self, writing: "asyncio.Task[None]") -> None:
        """A tunnel into which nothing can be written is none; where it broke, this changes nothing any more."""
        if not writing.cancelled() and writing.exception() is not None:
            self._stream.cancel()

    def cut(self) -> None:
        """Its channel is closed: every call ends, and the tunnel with them."""
        self.open = False
        for call in self._drained():
            call.cancel(ChannelClosed)
        self._stream.cancel()

    def _drained(self) -> list[Remote]:
        calls = list(self._calls.values())
        self._calls.clear()
        return calls

    def _take(self, frame: pb.Frame) -> None:
        if frame.leaving:
            self.leave()
        call = self._calls.get(frame.call)
        if call is None:
            return
        if frame.HasField("piece"):
            message = call.joined.add(frame)
            if message is not None:
                try:
                    call.arrive(message)
                except Exception:  # noqa: BLE001 - whatever its caller reads replies with
                    self.cancel(call)
                    call.finish(grpc.StatusCode.INTERNAL, "the reply is not a message of this method's type")
        if frame.HasField("end"):
            self._calls.pop(frame.call, None)
            end = frame.end
            call.initial = from_pairs(end.initial_metadata)
            call.trailing = from_pairs(end.trailing_metadata)
            call.finish(_CODES.get(end.code, grpc.StatusCode.UNKNOWN), end.details)
