"""A method of a service of this process, as a client calls it."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Mapping
from inspect import unwrap
from typing import Any

import grpc

from taskplane.runtime.exchange import LOCALLY_CANCELLED, OK, Exchange, Pairs, Stream, TooLarge, too_large
from taskplane.runtime.interceptors import Malformed
from taskplane.runtime.method import ChannelMethod
from taskplane.runtime.running import Running
from taskplane.runtime.services import MAX_REPLY

_log = logging.getLogger(__name__)


class LocalMethod(ChannelMethod):
    """One method of this process as a client calls it."""

    def __init__(
        self,
        handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]",
        under_way: Running,
        path: str,
        serialize: Any,
        deserialize: Any,
        *,
        streaming: bool,
    ) -> None:
        super().__init__(under_way, path, streaming=streaming)
        self._handlers = handlers
        self._serialize = serialize
        self._deserialize = deserialize
        self._reply_type = _type_of(deserialize)
        self._reply_size = _size_of(self._reply_type)
        self._request_type: type | None = None
        self._request_size: Callable[[Any], int] = len
        self._parse: Any = None
        self._form: Any = None
        self._behaviour: Any = None

    def _find(self) -> bool:
        handler: Any = self._handlers.get(self._path)
        behaviour = handler and (handler.unary_stream if self._streaming else handler.unary_unary)
        if not behaviour:
            return False
        self._parse = handler.request_deserializer
        self._form = handler.response_serializer
        self._request_type = _type_of(handler.request_deserializer)
        self._request_size = _size_of(self._request_type)
        self._behaviour = behaviour
        return True

    def _exchange(self, loop: asyncio.AbstractEventLoop, metadata: Pairs) -> Exchange:
        return Stream(loop, metadata, self._measured) if self._streaming else Exchange(loop, metadata)

    def _sent(self, exchange: Exchange, request: Any) -> tuple[Any, int]:
        if self._behaviour is None and not self._find():
            exchange.finish(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            return request, 0
        if type(request) is not self._request_type:
            request = _converted(request, self._serialize, self._parse)
            if type(request) is Malformed:
                return request, 0
        return request, self._request_size(request)

    def _begin(self, exchange: Exchange, request: Any, timeout: float | None) -> None:
        # What loop.create_task does, less its own naming of every task.
        exchange.task = asyncio.Task(
            self._serve(exchange, request), loop=exchange.loop, name=self._path, context=contextvars.Context()
        )

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
    """The message class whose `FromString` this is or wraps; bytes for none; None for what one cannot know."""
    if deserialize is None:
        return bytes
    owner = getattr(unwrap(deserialize), "__self__", None)
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
