"""The server's end of tunnels: each call in one is served as a call of this process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import grpc

from taskplane.api.tunnel.v1 import tunnel_pb2 as pb
from taskplane.api.tunnel.v1.tunnel_pb2_grpc import TunnelServicer, add_TunnelServicer_to_server
from taskplane.runtime.exchange import EMPTY, OK, too_large
from taskplane.runtime.exchange_calls import StreamCall, UnaryCall
from taskplane.runtime.interceptors import Context
from taskplane.runtime.local import LocalChannel
from taskplane.runtime.memo import Memo
from taskplane.runtime.services import MAX_REQUEST, Services
from taskplane.runtime.tunnel.frames import AHEAD, Joined, Outgoing, end_of, from_pairs

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Tunnel"].full_name
# Seconds; more than this is for ever.
_LONGEST: Final = 86_400.0
_log = logging.getLogger(__name__)


class Tunnels:
    """The tunnels of a server, to services that are served outside of tunnels as well."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._ends: set[_Calls] = set()
        self._draining = False

    def register(self, server: grpc.aio.Server) -> None:
        """Adds the service to a server before it starts."""
        add_TunnelServicer_to_server(cast("TunnelServicer", self), server)

    def drain(self) -> None:
        """Asks every client to go elsewhere with new calls; its tunnel ends with the last call in it."""
        self._draining = True
        for end in self._ends:
            end.leave()

    async def Open(self, request_iterator: AsyncIterator[pb.Frames], context: Context) -> None:
        """Serves one tunnel. What is still under way when it breaks is cancelled."""
        async with LocalChannel(self._services) as channel:
            end = _Calls(channel)
            self._ends.add(end)
            if self._draining:
                end.leave()
            try:
                await end.run(request_iterator, context.write)
            except _Misused as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            finally:
                self._ends.discard(end)


class _Misused(Exception):
    """The client sent what no tunnel understands."""


@dataclass(slots=True)
class _Begun:
    """A call whose request arrives."""

    begin: pb.Begin
    joined: Joined


@dataclass(slots=True)
class _Running:
    """A call that runs. For a stream: what may be sent, and the task that sends it."""

    call: UnaryCall | StreamCall
    window: asyncio.Semaphore | None = None
    sending: "asyncio.Task[None] | None" = None


class _Calls:
    """The calls of one tunnel."""

    def __init__(self, channel: LocalChannel) -> None:
        self._methods: Memo[tuple[str, bool], Any] = Memo(
            lambda key: (channel.unary_stream if key[1] else channel.unary_unary)(key[0])
        )
        self._outgoing = Outgoing()
        self._begun: dict[int, _Begun] = {}
        self._running: dict[int, _Running] = {}
        self._client_left = False

    def leave(self) -> None:
        """Tells the client to begin no more calls here."""
        self._outgoing.put(pb.Frame(leaving=True))

    async def run(self, arriving: AsyncIterator[pb.Frames], write: Callable[[pb.Frames], Awaitable[object]]) -> None:
        """Serves until the client has left and its calls have ended, or the tunnel breaks."""
        reading = asyncio.create_task(self._read(arriving), name="tunnel reading")
        writing = asyncio.create_task(self._outgoing.write(write), name="tunnel writing")
        try:
            await asyncio.wait((reading, writing), return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                await reading
            await writing
        finally:
            sending = [running.sending for running in self._running.values() if running.sending is not None]
            for task in (reading, writing, *sending):
                task.cancel()
            await asyncio.gather(reading, writing, *sending, return_exceptions=True)

    async def _read(self, arriving: AsyncIterator[pb.Frames]) -> None:
        async for frames in arriving:
            for frame in frames.frames:
                self._take(frame)
        self._client_left = True
        self._begun.clear()
        self._end_if_done()

    def _take(self, frame: pb.Frame) -> None:
        number = frame.call
        if frame.leaving:
            self._client_left = True
            self._end_if_done()
        if frame.HasField("begin"):
            if not number or number in self._begun or number in self._running:
                raise _Misused(f"a call cannot have the number {number} here: it is taken")
            self._begun[number] = _Begun(frame.begin, Joined())
        if frame.HasField("piece") and (begun := self._begun.get(number)) is not None:
            request = begun.joined.add(frame)
            if request is not None:
                del self._begun[number]
                self._start(number, begun.begin, request)
            elif begun.joined.size > MAX_REQUEST:
                del self._begun[number]
                why = too_large("SERVER: Received", begun.joined.size, MAX_REQUEST)
                self._refuse(number, grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        running = self._running.get(number)
        if running is not None and frame.taken and running.window is not None:
            for _ in range(min(frame.taken, AHEAD)):
                running.window.release()
        if frame.cancel:
            self._begun.pop(number, None)
            self._running.pop(number, None)
            self._outgoing.drop(number)
            if running is not None:
                running.call.cancel()
                if running.sending is not None:
                    running.sending.cancel()
            self._end_if_done()

    def _start(self, number: int, begin: pb.Begin, request: bytes) -> None:
        try:
            call = self._methods[begin.method, begin.streaming](
                request,
                timeout=min(begin.timeout, _LONGEST) if begin.timeout > 0 else None,
                metadata=from_pairs(begin.metadata),
            )
        except (ValueError, TypeError) as error:
            self._refuse(number, grpc.StatusCode.INTERNAL, str(error))
            return
        running = self._running[number] = _Running(call)
        if isinstance(call, StreamCall):
            running.window = asyncio.Semaphore(AHEAD)
            running.sending = asyncio.create_task(self._send(number, call, running.window))
        else:
            call.add_done_callback(partial(self._answer, number))

    async def _send(self, number: int, call: StreamCall, window: asyncio.Semaphore) -> None:
        # How it failed its end says.
        with suppress(grpc.aio.AioRpcError):
            async for message in call:
                await window.acquire()
                self._outgoing.put(pb.Frame(call=number), message)
        self._answer(number, call)

    def _answer(self, number: int, call: UnaryCall | StreamCall) -> None:
        if self._running.pop(number, None) is None:
            # It was cancelled: nobody waits for it.
            return
        exchange = call.exchange
        status = exchange.status or grpc.StatusCode.CANCELLED
        try:
            ended = end_of(status, exchange.text, exchange.initial, exchange.trailing)
        except (ValueError, TypeError):
            _log.exception("a handler ended with a text or metadata that cannot be sent")
            self._refuse(number, grpc.StatusCode.INTERNAL, "Invalid metadata")
            return
        if status is OK and exchange.reply is not EMPTY:
            self._outgoing.put(pb.Frame(call=number), exchange.reply)
        self._outgoing.put(pb.Frame(call=number, end=ended))
        self._end_if_done()

    def _refuse(self, number: int, status: grpc.StatusCode, why: str) -> None:
        self._outgoing.put(pb.Frame(call=number, end=end_of(status, why)))
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._client_left and not self._begun and not self._running:
            self._outgoing.close()
