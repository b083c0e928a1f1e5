"""A channel to the servicers of this process. It saves the socket, and is not kinder than one.

Every call runs in a task of its own with an empty context, so nothing of the caller is seen but its metadata. Size
limits, deadlines, cancellation, statuses and trailers are those of a socket. Messages are handed over as they are, not
copied: both sides treat them as immutable. A stream hands over one message at a time. A caller that is cancelled waits
until the handler has finished its `finally`; cancelled once more it does not.
"""

import asyncio
import contextvars
import logging
import re
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Never, Self

import grpc

from taskplane.runtime.exchange import LOCALLY_CANCELLED, OK, Exchange, TooLarge, too_large
from taskplane.runtime.local_calls import StreamCall, UnaryCall
from taskplane.runtime.server import MAX_REPLY, MAX_REQUEST, Services

_log = logging.getLogger(__name__)
_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_known_keys: set[str] = set()


class LocalChannel(grpc.aio.Channel):
    """A channel that calls `services` directly. Use it through stubs, like any other, and close it like any other.

    What says nothing of its own keeps the promise of `grpc.aio.Channel`.
    """

    def __init__(self, services: Services) -> None:
        """What is registered later is served, too."""
        self.services = services
        self.running: set[Exchange] = set()
        self.closed = asyncio.Event()

    def unary_unary(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return _Method(self, method, request_serializer, response_deserializer, streaming=False)

    def unary_stream(
        self, method: str, request_serializer: Any = None, response_deserializer: Any = None, *_: Any, **__: Any
    ) -> Any:
        return _Method(self, method, request_serializer, response_deserializer, streaming=True)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return unserved(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return unserved(method)

    async def close(self, grace: float | None = None) -> None:
        """No call starts any more; those that run have `grace` seconds, then they are cancelled and waited for."""
        self.closed.set()
        tasks = {exchange.task for exchange in self.running if exchange.task is not None}
        if tasks and grace:
            await asyncio.wait(tasks, timeout=grace)
        for exchange in list(self.running):
            exchange.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """READY until it is closed."""
        return grpc.ChannelConnectivity.SHUTDOWN if self.closed.is_set() else grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Returns when the state is another one; the only change there is is the end."""
        if self.get_state() is last_observed_state:
            await self.closed.wait()

    async def channel_ready(self) -> None:
        """It is."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()


def unserved(method: str) -> Callable[..., Never]:
    """The caller of a method that streams requests. Stubs make one per method, so it refuses when it is called."""

    def refuse(*_: Any, **__: Any) -> Never:
        raise TypeError(f"{method}: no service of ours streams requests")

    return refuse


class _Method:
    """One method as a client calls it. What can be known before a call is known before it."""

    def __init__(self, channel: LocalChannel, path: str, serialize: Any, deserialize: Any, *, streaming: bool) -> None:
        self._channel = channel
        self._path = path
        self._streaming = streaming
        self._serialize = serialize
        self._deserialize = deserialize
        self._reply_type = _type_of(deserialize)
        self._request_type: type | None = None
        self._parse: Any = None
        self._form: Any = None
        self._behaviour: Any = None

    def _find(self) -> bool:
        handler: Any = self._channel.services.handlers.get(self._path)
        if handler is None:
            return False
        self._parse = handler.request_deserializer
        self._form = handler.response_serializer
        self._request_type = _type_of(handler.request_deserializer)
        self._behaviour = handler.unary_stream if self._streaming else handler.unary_unary
        return True

    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Iterable[tuple[str, str | bytes]] | None = None,
        credentials: object = None,
        wait_for_ready: bool | None = None,
        compression: object = None,
    ) -> "UnaryCall | StreamCall":
        channel = self._channel
        if channel.closed.is_set():
            raise grpc.aio.UsageError("Channel is closed.")
        loop = asyncio.get_running_loop()
        sent = tuple(metadata) if metadata is not None else ()
        _check(sent)
        exchange = Exchange(loop, sent, self._measured)
        call = StreamCall(exchange) if self._streaming else UnaryCall(exchange)
        if self._behaviour is None and not self._find():
            exchange.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return call
        if type(request) is not self._request_type:
            request = _converted(request, self._serialize, self._parse)
        if (size := _size(request)) > MAX_REQUEST:
            exchange.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, too_large("CLIENT: Sent", size, MAX_REQUEST))
            return call
        if timeout is not None:
            if timeout <= 0:
                exchange.expire()
                return call
            exchange.deadline = loop.time() + timeout
            exchange.timer = loop.call_at(exchange.deadline, exchange.expire)
        channel.running.add(exchange)
        exchange.task = loop.create_task(self._serve(exchange, request), name=self._path, context=contextvars.Context())
        return call

    def _measured(self, reply: Any) -> Any:
        """The reply as the client knows it."""
        if type(reply) is not self._reply_type:
            reply = _converted(reply, self._form, self._deserialize)
        if (size := _size(reply)) > MAX_REPLY:
            raise TooLarge(too_large("CLIENT: Received", size, MAX_REPLY))
        return reply

    async def _serve(self, exchange: Exchange, request: Any) -> None:
        try:
            reply = await self._behaviour(request, exchange)
            exchange.raise_if_aborted()
            if exchange.refused():
                return
            if not self._streaming:
                exchange.reply = self._measured(reply)
            exchange.finish(OK)
        except grpc.aio.AbortError:
            exchange.refused()
        except TooLarge as error:
            exchange.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except asyncio.CancelledError:
            exchange.finish(grpc.StatusCode.CANCELLED, LOCALLY_CANCELLED)
            raise
        except Exception as error:  # noqa: BLE001 - answered as a socket's server answers it
            _log.exception("unexpected %s raised by %s", type(error).__name__, self._path)
            exchange.finish(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        finally:
            exchange.finish(grpc.StatusCode.UNKNOWN, "the handler ended without an answer")
            self._channel.running.discard(exchange)
            exchange.call_back()


def _type_of(deserialize: Any) -> type | None:
    """The message class whose `FromString` this is; bytes for none; None for what one cannot know."""
    if deserialize is None:
        return bytes
    owner = getattr(deserialize, "__self__", None)
    return owner if isinstance(owner, type) else None


def _converted(message: Any, serialize: Any, deserialize: Any) -> Any:
    """What arrives when the two sides do not use the same class for a message: the bytes decide."""
    raw = serialize(message) if serialize is not None else message
    return deserialize(raw) if deserialize is not None else raw


def _size(message: Any) -> int:
    size: int = len(message) if isinstance(message, bytes) else message.ByteSize()
    return size


def _check(metadata: tuple[tuple[str, str | bytes], ...]) -> None:
    """ValueError: what HTTP/2 could not carry (RFC 9113 section 8.2, the gRPC wire format)."""
    for key, value in metadata:
        if key not in _known_keys:
            if not _KEY.fullmatch(key):
                raise ValueError(f"metadata was invalid: {key!r} is not a key")
            if len(_known_keys) < 256:
                _known_keys.add(key)
        if isinstance(value, str):
            if not value.isascii() or not value.isprintable():
                raise ValueError(f"metadata was invalid: the value of {key!r} is not printable ASCII")
        elif not key.endswith("-bin") and not (value.isascii() and value.decode().isprintable()):
            raise ValueError(f"metadata was invalid: {key!r} can carry bytes only if its name ends in -bin")
