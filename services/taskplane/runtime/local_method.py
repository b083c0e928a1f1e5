"""A method of a service of this process, as a client calls it."""

import asyncio
import contextvars
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc

from taskplane.runtime.exchange import LOCALLY_CANCELLED, OK, Exchange, Pairs, Stream, TooLarge, too_large
from taskplane.runtime.local_calls import Failed, StreamCall, UnaryCall
from taskplane.runtime.running import Running
from taskplane.runtime.server import MAX_REPLY, MAX_REQUEST

_log = logging.getLogger(__name__)
_running_loop: Final = asyncio.get_running_loop
_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_known_keys: set[str] = set()

Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class Habits:
    """What a client does the same way in all its calls."""

    metadata: Callable[[Metadata | None], Pairs]
    """The metadata of a call, from what the caller gave: that comes last. The rest must be fit for HTTP/2."""
    deadline: float | None
    """Seconds, for a call that is given no `timeout`."""
    failed: Failed
    """What is raised for an error of gRPC."""


BARE: Final = Habits(lambda given: tuple(given) if given is not None else (), None, lambda error: error)
"""Nothing is added to a call."""


class LocalMethod:
    """One method as a client calls it. What can be known before a call is known before it."""

    def __init__(
        self,
        handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]",
        under_way: Running,
        path: str,
        serialize: Any,
        deserialize: Any,
        *,
        streaming: bool,
        habits: Habits = BARE,
    ) -> None:
        self._handlers = handlers
        self._under_way = under_way
        self._path = path
        self._streaming = streaming
        self._serialize = serialize
        self._deserialize = deserialize
        self._outgoing = habits.metadata
        self._deadline = habits.deadline
        self._failed = habits.failed
        self._reply_type = _type_of(deserialize)
        self._reply_size = _size_of(self._reply_type)
        self._request_type: type | None = None
        self._request_size: Callable[[Any], int] = len
        self._parse: Any = None
        self._form: Any = None
        self._behaviour: Any = None

    def of(self, habits: Habits) -> "LocalMethod":
        """The same method as the calls of one client."""
        return LocalMethod(
            self._handlers,
            self._under_way,
            self._path,
            self._serialize,
            self._deserialize,
            streaming=self._streaming,
            habits=habits,
        )

    def _find(self) -> bool:
        handler: Any = self._handlers.get(self._path)
        if handler is None:
            return False
        self._parse = handler.request_deserializer
        self._form = handler.response_serializer
        self._request_type = _type_of(handler.request_deserializer)
        self._request_size = _size_of(self._request_type)
        self._behaviour = handler.unary_stream if self._streaming else handler.unary_unary
        return True

    def __call__(
        self,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Metadata | None = None,
        credentials: object = None,
        wait_for_ready: bool | None = None,
        compression: object = None,
    ) -> "UnaryCall | StreamCall":
        under_way = self._under_way
        if under_way.closed:
            raise self._failed(grpc.aio.UsageError("Channel is closed."))
        if metadata is not None:
            metadata = tuple([_carried(key, value) for key, value in metadata])
        if timeout is None:
            timeout = self._deadline
        loop = _running_loop()
        sent = self._outgoing(metadata)
        exchange: Exchange
        call: UnaryCall | StreamCall
        if self._streaming:
            exchange = stream = Stream(loop, sent, self._measured)
            call = StreamCall(stream, self._failed)
        else:
            exchange = Exchange(loop, sent)
            call = UnaryCall(exchange, self._failed)
        if self._behaviour is None and not self._find():
            exchange.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return call
        if type(request) is not self._request_type:
            request = _converted(request, self._serialize, self._parse)
        size = self._request_size(request)
        if size > MAX_REQUEST:
            exchange.finish(grpc.StatusCode.RESOURCE_EXHAUSTED, too_large("CLIENT: Sent", size, MAX_REQUEST))
            return call
        if timeout is not None:
            if timeout <= 0:
                exchange.expire()
                return call
            exchange.deadline = loop.time() + timeout
        row = under_way.rows.get(timeout)
        if row is None:
            row = under_way.row(timeout, loop)
        row[exchange] = None
        exchange.row = row
        # What loop.create_task does, less its own naming of every task.
        exchange.task = asyncio.Task(
            self._serve(exchange, request), loop=loop, name=self._path, context=contextvars.Context()
        )
        return call

    def _measured(self, reply: Any) -> Any:
        """The reply as the client knows it."""
        if type(reply) is not self._reply_type:
            reply = _converted(reply, self._form, self._deserialize)
        size = self._reply_size(reply)
        if size > MAX_REPLY:
            raise TooLarge(too_large("CLIENT: Received", size, MAX_REPLY))
        return reply

    async def _serve(self, exchange: Exchange, request: Any) -> None:
        try:
            reply = await self._behaviour(request, exchange)
            if exchange.chosen is None or not exchange.refused():
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
            if exchange.status is None:
                exchange.finish(grpc.StatusCode.UNKNOWN, "the handler ended without an answer")
            exchange.leave()


def _type_of(deserialize: Any) -> type | None:
    """The message class whose `FromString` this is; bytes for none; None for what one cannot know."""
    if deserialize is None:
        return bytes
    owner = getattr(deserialize, "__self__", None)
    return owner if isinstance(owner, type) else None


def _size_of(kind: type | None) -> Callable[[Any], int]:
    """What tells the size of a message of this class in bytes. Found by the class, for finding it costs half of it."""
    if kind is bytes:
        return len
    size: Callable[[Any], int] = getattr(kind, "ByteSize", _size)
    return size


def _size(message: Any) -> int:
    size: int = len(message) if isinstance(message, bytes) else message.ByteSize()
    return size


def _converted(message: Any, serialize: Any, deserialize: Any) -> Any:
    """What arrives when the two sides do not use the same class for a message: the bytes decide."""
    raw = serialize(message) if serialize is not None else message
    return deserialize(raw) if deserialize is not None else raw


def _carried(key: str, value: str | bytes) -> tuple[str, str | bytes]:
    """A pair of metadata as it arrives: bytes if its key ends in -bin, else text.

    ValueError, TypeError: what HTTP/2 could not carry (RFC 9113 section 8.2, the gRPC wire format).
    """
    if key not in _known_keys:
        if not _KEY.fullmatch(key):
            raise ValueError(f"metadata was invalid: {key!r} is not a key")
        if len(_known_keys) < 256:
            _known_keys.add(key)
    if key.endswith("-bin"):
        if isinstance(value, str):
            raise TypeError(f"metadata was invalid: the value of {key!r} must be bytes")
        return key, value
    text = value if isinstance(value, str) else value.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"metadata was invalid: the value of {key!r} is not printable ASCII")
    return key, text
