"""Exact resume for the official Python client of A2A (`a2a-sdk` 1.3), over each of its transports.

That client stays as it is: a cursor comes in the metadata of each event, and goes back as a parameter of the call.
"""

import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from taskplane.api.message_metadata import CURSOR
from taskplane.client.failures import NotConnected, Unreachable
from taskplane.client.pauses import GIVE_UP_AFTER, Pauses

if TYPE_CHECKING:
    from a2a.client import Client, ClientCallContext
    from a2a.types import SendMessageRequest, StreamResponse
    from a2a.utils.errors import A2AError

# Statuses of HTTP, and codes of gRPC, of a server that cannot answer now, or has a fault. A server that stops cancels
# calls; those that the caller ends raise no error of the client.
_AWAY: Final = frozenset({429, 500, 502, 503, 504, "UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "CANCELLED"})
# The official client has no class for this code of JSON-RPC: too many requests or streams.
_TOO_MANY: Final = "JSON-RPC Error -32029:"


async def resumed(
    client: "Client",
    request: "SendMessageRequest",
    *,
    key: str = "",
    context: "ClientCallContext | None" = None,
    give_up_after: float = GIVE_UP_AFTER,
) -> "AsyncGenerator[StreamResponse]":
    """Send a message by an official client, and yield the events of its task until the task is terminal or waits for
    the user. None is missing and none comes twice, however often the connection breaks.

    `key`: the idempotency key; empty: a random one. `context`: that of the client's calls. A Task in mid-stream
    replaces the events before it: the server could not continue. Raise `Unreachable` after `give_up_after` seconds
    without any success, and the error of the client for a request that the server refuses. An internal error is no
    refusal: over JSON-RPC, a server that cannot reach its stores has no other one.
    """
    from a2a.types import SubscribeToTaskRequest, TaskState

    ends = {
        *(TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED),
        *(TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_INPUT_REQUIRED),
    }
    parameters = {"Idempotency-Key": key or secrets.token_hex(16)}
    pauses, task_id, state = Pauses(give_up_after), "", 0
    while True:
        of_call = _context(context, parameters)
        if task_id:
            asked = SubscribeToTaskRequest(tenant=request.tenant, id=task_id)
            answers = client.subscribe(asked, context=of_call)
        else:
            answers = client.send_message(request, context=of_call)
        complete = False
        try:
            with pauses.open_stream(), _as_lost():
                async with aclosing(cast("AsyncGenerator[StreamResponse]", answers)) as events:
                    async for event in events:
                        pauses.reset()
                        # A rewind answers with its session first; without a new message nothing follows.
                        complete = event.HasField("message") or not request.message.parts
                        named = _task_of(event)
                        if named is not None:
                            task_id, cursor, state = named[0], named[1], named[2] or state
                            parameters = {"Last-Event-ID": cursor} if cursor else parameters
                        yield event
                        if state in ends:
                            return
        except Unreachable as error:
            await pauses.wait(error)
        else:
            if complete and not task_id:
                return
            await pauses.wait(Unreachable("The server closed the stream before the end.", reason="STREAM_CLOSED"))


def _context(context: "ClientCallContext | None", parameters: dict[str, str]) -> "ClientCallContext":
    """Return the context of a call with further parameters: headers of HTTP, or metadata of gRPC."""
    from a2a.client import ClientCallContext

    context = context or ClientCallContext()
    return context.model_copy(update={"service_parameters": {**(context.service_parameters or {}), **parameters}})


def _task_of(event: "StreamResponse") -> tuple[str, str, int] | None:
    """Return the task of an event, its cursor, and its state, 0 for an artifact; None for a direct answer, and for a
    session after its rewind, which are no tasks."""
    which = event.WhichOneof("payload")
    payload: Any = getattr(event, which or "message")
    task_id: str = payload.id if which == "task" else payload.task_id
    if which in (None, "message") or task_id == payload.context_id:
        return None
    fields = payload.metadata.fields
    cursor = fields[CURSOR].string_value if CURSOR in fields else ""
    return task_id, cursor, 0 if which == "artifact_update" else payload.status.state


@contextmanager
def _as_lost() -> Generator[None]:
    """Raise an error of the client as `Unreachable` if the server cannot be reached."""
    from a2a.utils.errors import A2AError

    try:
        yield
    except A2AError as error:
        raise _lost(error) from error


def _lost(error: "A2AError") -> Unreachable:
    """Return that the server cannot be reached; raise the error if it is another one."""
    from a2a.utils.errors import InternalError

    cause: Any = error.__cause__
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        return NotConnected(f"No server answers: {cause}", reason="UNREACHABLE")
    after = ""
    if isinstance(cause, httpx.TimeoutException):
        return Unreachable("The server has been silent for too long.", reason="SILENT")
    if isinstance(error, InternalError) or str(error).startswith(_TOO_MANY):
        away = True
    elif isinstance(cause, httpx.HTTPStatusError):
        away = cause.response.status_code in _AWAY
        after = cause.response.headers.get("retry-after", "")
    else:
        # An error of gRPC has a code; the library need not be there.
        away = isinstance(cause, httpx.TransportError) or (hasattr(cause, "code") and _is_away(cause))
    if not away:
        raise error
    retry_after = float(after) if after.isdecimal() else None
    return Unreachable(f"The connection broke: {error}", reason="CONNECTION_LOST", retry_after=retry_after)


def _is_away(cause: Any) -> bool:
    """Return whether an error of gRPC is of a server that cannot answer now."""
    if cause.code().name == "RESOURCE_EXHAUSTED":
        # A limit that passes has details; the library refuses a message that is too large without any.
        return "grpc-status-details-bin" in dict(cause.trailing_metadata() or ())
    return cause.code().name in _AWAY
