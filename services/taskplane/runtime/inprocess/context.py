"""The context that the handler of a call within this process gets."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Never

import grpc

from taskplane.runtime.inprocess.metadata import Pairs


class ServicerContext(grpc.aio.ServicerContext[Any, Any]):
    """Keeps the promises of `grpc.aio.ServicerContext`."""

    def __init__(
        self, call: grpc.aio.RpcContext, metadata: Pairs, write: Callable[[Any], Awaitable[None]] | None
    ) -> None:
        """`write` hands a reply to the client; None: the method has a single reply."""
        self._call = call
        self._metadata = metadata
        self._write = write
        self._code: grpc.StatusCode | None = None
        self._details = ""
        self._aborted = False
        self.done_callbacks: list[Callable[[Any], Any]] = []
        """Registered by the handler, for the end of the call."""
        self.initial: Pairs = ()
        self.trailing: Pairs = ()

    def status(self) -> tuple[grpc.StatusCode, str]:
        """Return the status and the details that the handler leaves behind, also if it swallowed its AbortError."""
        return self._code or grpc.StatusCode.OK, self._details

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Never:
        if self._aborted:
            raise grpc.aio.UsageError("Abort already called!")
        if code is grpc.StatusCode.OK:
            raise grpc.aio.UsageError("a call is not aborted with OK")
        self._aborted = True
        self._code = code
        self._details = details or self._details
        self.trailing = tuple(trailing_metadata) or self.trailing
        raise grpc.aio.AbortError("Locally aborted.")

    async def abort_with_status(self, status: grpc.Status) -> Never:
        await self.abort(status.code, status.details, status.trailing_metadata or ())

    async def read(self) -> Never:
        raise grpc.aio.UsageError("the request of this call is not a stream")

    async def write(self, message: Any) -> None:
        if self._aborted:
            raise grpc.aio.UsageError("the call was aborted")
        if self._write is None:
            raise grpc.aio.UsageError("the reply of this call is not a stream")
        await self._write(message)

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self.initial = tuple(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self.trailing = tuple(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self.trailing

    def invocation_metadata(self) -> Any:
        return self._metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> Any:
        return self._code

    def set_details(self, details: str) -> None:
        self._details = details

    def details(self) -> str:
        return self._details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Do nothing: messages are not sent."""

    def disable_next_message_compression(self) -> None:
        """Do nothing: messages are not sent."""

    def peer(self) -> str:
        return "inprocess"

    def peer_identities(self) -> Iterable[bytes] | None:
        return None

    def peer_identity_key(self) -> str | None:
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    def time_remaining(self) -> Any:
        return self._call.time_remaining()

    def add_done_callback(self, callback: Any) -> None:
        self.done_callbacks.append(callback)

    def cancelled(self) -> bool:
        return self._call.cancelled()

    def done(self) -> bool:
        return self._call.done()
