"""The calls of health and reflection, which need no credentials, with places apart from those of all other calls."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

import grpc
from google.protobuf.message import DecodeError

from taskplane.runtime.errors import Exhausted, Invalid, PlaneError
from taskplane.runtime.interceptors import ClientGone, Context, at_end, malformed, refuse
from taskplane.runtime.status import to_status

ARRIVAL: Final = 5.0
"""Seconds for the arrival of a request."""


class Anonymous:
    """A registry of services that need no credentials. At most `most` of their streams are open, and as many of their
    other calls; further ones end with Exhausted `TOO_MANY_CALLS`. So streams leave room for health checks, and all of
    them for other services."""

    def __init__(self, server: grpc.aio.Server, most: int) -> None:
        self._server = server
        self._streams, self._others = _Places(most, "streams"), _Places(most, "calls")

    @property
    def registry(self) -> grpc.aio.Server:
        """Return this registry for the generated `add_XServicer_to_server`, which use only the two methods below."""
        return cast("grpc.aio.Server", self)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Do nothing. `add_registered_method_handlers` gets the same handlers, with their names."""

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Add the methods of a service to the server."""
        bounded = {
            name: _bounded(handler, self._streams if handler.response_streaming else self._others)
            for name, handler in method_handlers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service_name, bounded),))


class _Places:
    def __init__(self, most: int, kind: str) -> None:
        self._most = most
        self._kind = kind
        self._taken = 0

    def take(self, context: Context) -> None:
        """Count a call until its client has the whole reply, or has gone. Raise Exhausted if there are too many."""
        if self._taken >= self._most:
            raise Exhausted(
                f"too many open {self._kind} without credentials; at most {self._most:,} per process",
                reason="TOO_MANY_CALLS",
                suggestion="end other streams of health or reflection, or try again later",
                retry_after=1.0,
            )
        self._taken += 1
        at_end(context, self._release)

    def _release(self) -> None:
        self._taken -= 1


def _bounded(handler: "grpc.RpcMethodHandler[Any, Any]", places: _Places) -> "grpc.RpcMethodHandler[Any, Any]":
    """Return the handler with a limit. It takes a single request as a stream too, since gRPC would read the request
    before the call has its place."""
    one = not handler.request_streaming
    if handler.response_streaming:
        behaviour: Any = handler.unary_stream if one else handler.stream_stream
    else:
        behaviour = handler.unary_unary if one else handler.stream_unary
    make: Any = (
        grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
    )

    async def serve(requests: Any, context: Context) -> Any:
        try:
            places.take(context)
            request = await _only(context) if one else requests
        except PlaneError as error:
            await refuse(context, error, to_status)
        replies = behaviour(request, context)
        if not hasattr(replies, "__aiter__"):
            return await replies
        async with aclosing(replies):
            async for reply in replies:
                try:
                    await context.write(reply)
                except grpc.aio.InternalError as gone:
                    raise ClientGone from gone
        return None

    made: grpc.RpcMethodHandler[Any, Any] = make(serve, handler.request_deserializer, handler.response_serializer)
    return made


async def _only(context: Context) -> Any:
    try:
        async with asyncio.timeout(ARRIVAL):
            request: Any = await context.read()
    except TimeoutError:
        raise Invalid("the request took too long to arrive", reason="BODY_TIMEOUT") from None
    except DecodeError:
        request = grpc.aio.EOF
    if request is grpc.aio.EOF:
        raise malformed()
    return request
