"""The methods of the JSON-RPC binding: reading of params, the call of the operation, and writing of the result."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

import orjson
from google.protobuf.struct_pb2 import Struct

from taskplane.gateway.a2a import operations
from taskplane.gateway.a2a.follow import Item, PayloadStream, cursor_of, total_bytes
from taskplane.gateway.a2a.plain_text import PlainText
from taskplane.gateway.agents import Agent
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.errors import error_0_3, error_1_0
from taskplane.gateway.event_streams import event_stream
from taskplane.gateway.metrics import EVENTS
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate import v1_0
from taskplane.gateway.translate.dialect import Send, TaskQuery, Wait
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.rewinds import REWIND
from taskplane.gateway.translate.struct import fill_metadata
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0, Dialect
from taskplane.gateway.web import etags, sse
from taskplane.gateway.web.disconnect import cancel_on_disconnect
from taskplane.gateway.web.http import Content, Headers, Reply, Request, empty_reply
from taskplane.runtime import json_lines, logs
from taskplane.runtime.errors import NotFound, PlaneError, Refused
from taskplane.runtime.validation import MOST_WRONG, invalid

P = ParamSpec("P")


# Not frozen, which would cost time for each field of each request.
@dataclass(slots=True)
class Call:
    """A JSON-RPC request with a valid envelope. `id` is its id as JSON, empty for a notification; `agent` the agent
    it is for, if that is known; `path` the agent's name in the path, empty for the default agent. `missing`: there is
    no such agent."""

    plane: Plane
    request: Request
    caller: Caller
    agent: Agent | None
    path: str
    dialect: Dialect
    params: Any
    id: bytes
    echo: Headers
    # Streams have the pieces of texts that grow.
    growing_text: bool
    missing: NotFound | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A JSON-RPC method. `writes`: only for callers that may write. `sends`: it is for an agent; any other one is about
    tasks, whatever became of their agents."""

    dialect: Dialect
    serve: Callable[[Call], Awaitable[Reply]]
    writes: bool = False
    sends: bool = False


def error_body(dialect: Dialect | None, error: PlaneError) -> dict[str, Any]:
    """Return the `error` member of a response; in the form of 1.0 if the version is not known."""
    return (error_0_3 if dialect is V0_3 else error_1_0)(error, logs.request_id.get())


async def _result(call: Call, size: int, write: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> Content:
    """Return the response with the result of `write`, which is about messages of `size` bytes."""

    def written() -> Content:
        result = json_lines.encode(write(*args, **kwargs))
        return Content(200, b'{"jsonrpc":"2.0","id":' + call.id + b',"result":' + result + b"}", headers=call.echo)

    return await call.plane.worker.run(size, written)


def _error_event(call: Call, error: PlaneError) -> bytes:
    """Return an error as a stream event. It has no `event:` line, since official clients lose the code with one."""
    body = {"jsonrpc": "2.0", "id": orjson.Fragment(call.id), "error": error_body(call.dialect, error)}
    return sse.event(json_lines.encode(body))


async def _stream(call: Call, begin: Callable[[], Awaitable[PayloadStream]], history_length: int | None) -> Reply:
    """Return the stream that `begin` opens. Errors before its first event are an ordinary response, except in 0.3,
    where the official client reads nothing but event streams; an agent that is missing is one in both."""
    plane = call.plane
    if call.agent is not None and not call.agent.streams:
        raise Refused("this agent does not stream", reason="UNSUPPORTED_OPERATION")
    slot = plane.streams.take(call.caller.principal)
    try:
        flow = await begin()
    except PlaneError as error:
        slot.release()
        if call.dialect is V1_0 or error.reason == "AGENT_NOT_FOUND":
            raise
        return Content(200, _error_event(call, error), sse.CONTENT_TYPE, sse.UNCACHED)
    except BaseException:
        slot.release()
        raise
    if not call.id:
        await flow.aclose()
        slot.release()
        return empty_reply(204)
    return event_stream(plane, call.caller, _events(call, flow, history_length), slot=slot, headers=call.echo)


async def _events(call: Call, flow: PayloadStream, history_length: int | None) -> AsyncGenerator[bytes, None]:
    write = call.dialect.event
    head = b'{"jsonrpc":"2.0","id":' + call.id + b',"result":'

    def written(items: Sequence[Item], length: int | None) -> bytes:
        return b"".join(
            [
                sse.event(head + json_lines.encode(write(payload, length, cursor)) + b"}", cursor)
                for cursor, payload in items
            ]
        )

    length = None if flow.whole else history_length
    plain = None if call.growing_text else PlainText()
    try:
        async for batch in flow:
            items = batch if plain is None else plain.take(batch)
            if items:
                EVENTS.inc(len(items))
                yield await call.plane.worker.run(total_bytes(items), written, items, length)
                length = history_length
        if plain is not None and (left := plain.rest()):
            yield written(left, length)
    except PlaneError as error:
        yield _error_event(call, error)
    finally:
        await flow.aclose()


def _addressed(call: Call, send: Send) -> Send:
    """Return the send with agent, idempotency key and expected version from path and headers."""
    settings = call.plane.settings
    submit = send.submit
    if call.path:
        submit.agent = call.agent.name if call.agent is not None else call.path
    key = call.request.header(b"idempotency-key")
    if key:
        submit.idempotency_key = key
    elif settings.idempotent_messages:
        submit.idempotency_key = submit.request.message.message_id
        submit.key_is_message_id = True
    if call.dialect is V0_3 and settings.client_task_ids == "create":
        submit.create_unknown_task = True
    submit.extensions.extend(call.request.extensions)
    if_match = call.request.header(b"if-match")
    if if_match:
        submit.expected_version = _agreed(submit.expected_version, etags.parse_if_match(if_match, "version"))
    return send


def _agreed(by_metadata: int, by_header: int) -> int:
    if by_metadata and by_header and by_metadata != by_header:
        what = "must be the same version as in the metadata of the message"
        raise invalid({"If-Match": what})
    return by_metadata or by_header


async def _send(call: Call) -> Reply:
    send = await _read_send(call)
    request = call.request
    if request.header(b"last-event-id"):
        raise invalid({"Last-Event-ID": "is for streams only"})
    if not call.id:
        send = send._replace(wait=Wait.EXISTS)
    if send.wait is Wait.AT_REST:
        async with cancel_on_disconnect(request, call.plane.streams):
            answer = await operations.send(call.plane, _addressed(call, send), request.size, request.accepted)
    else:
        answer = await operations.send(call.plane, _addressed(call, send), request.size, request.accepted)
    history_length = None if answer.whole else send.history_length
    size = answer.payload.ByteSize()
    return await _result(call, size, call.dialect.event, answer.payload, history_length, answer.cursor)


async def _read_send(call: Call) -> Send:
    """Read the params of a send. Raise NotFound if there is no such agent, which only the executor can decide of a
    rewind: that needs no agent unless it begins a turn."""
    send = await call.plane.worker.run(call.request.size, call.dialect.read_send, call.params)
    if send.converted and call.plane.settings.large_integers == "refuse":
        rule = "is an integer that a double cannot represent exactly"
        raise invalid(dict.fromkeys(send.converted[:MOST_WRONG], rule), suggestion="send the number as a string")
    if call.missing is not None and REWIND not in send.submit.request.message.metadata.fields:
        raise call.missing
    return send


async def _send_streaming(call: Call) -> Reply:
    send = await _read_send(call)
    cursor = call.request.header(b"last-event-id")
    history_length = call.dialect.stream_history if send.history_length is None else send.history_length
    return await _stream(
        call, lambda: operations.stream(call.plane, _addressed(call, send), call.request.size, cursor), history_length
    )


async def _get(call: Call) -> Reply:
    query = call.dialect.read_query(call.params)
    record = await operations.get(call.plane, query.task_id, query.history_length)
    write = call.dialect.task
    return await _result(call, record.ByteSize(), write, record.task, query.history_length, cursor_of(record))


async def _list(call: Call) -> Reply:
    asked = v1_0.read_list(call.params)
    listing = await operations.list_tasks(call.plane, asked)
    history_length = asked.history_length if asked.HasField("history_length") else None
    size = sum(task.ByteSize() for task, _ in listing.tasks)
    artifacts = asked.include_artifacts
    return await _result(call, size, v1_0.listing, listing, include_artifacts=artifacts, history_length=history_length)


async def _cancel(call: Call) -> Reply:
    query = call.dialect.read_query(call.params)
    task = await operations.cancel(call.plane, query.task_id, _metadata(query))
    return await _result(call, task.ByteSize(), call.dialect.task, task, None)


async def _subscribe(call: Call) -> Reply:
    query = call.dialect.read_query(call.params)
    cursor = call.request.header(b"last-event-id")
    return await _stream(
        call, lambda: operations.subscribe(call.plane, query.task_id, cursor), call.dialect.stream_history
    )


def _metadata(query: TaskQuery) -> Struct | None:
    if query.metadata is None:
        return None
    bad = Reading()
    struct = Struct()
    fill_metadata(struct, Fields({"metadata": query.metadata}, "", bad))
    bad.check()
    return struct


def _refusing(message: str, reason: str) -> Callable[[Call], Awaitable[Reply]]:
    """Return a method that refuses each call, for a part of the protocol that the card does not announce."""

    async def refuse(_: Call) -> Reply:
        raise Refused(message, reason=reason)

    return refuse


_no_push = _refusing("push notifications are not supported", "PUSH_NOTIFICATION_NOT_SUPPORTED")

METHODS: Final[dict[str, Method]] = {
    "SendMessage": Method(V1_0, _send, writes=True, sends=True),
    "SendStreamingMessage": Method(V1_0, _send_streaming, writes=True, sends=True),
    "GetTask": Method(V1_0, _get),
    "ListTasks": Method(V1_0, _list),
    "CancelTask": Method(V1_0, _cancel, writes=True),
    "SubscribeToTask": Method(V1_0, _subscribe),
    "CreateTaskPushNotificationConfig": Method(V1_0, _no_push),
    "GetTaskPushNotificationConfig": Method(V1_0, _no_push),
    "ListTaskPushNotificationConfigs": Method(V1_0, _no_push),
    "DeleteTaskPushNotificationConfig": Method(V1_0, _no_push),
    "GetExtendedAgentCard": Method(V1_0, _refusing("this agent has no extended card", "UNSUPPORTED_OPERATION")),
    "message/send": Method(V0_3, _send, writes=True, sends=True),
    "message/stream": Method(V0_3, _send_streaming, writes=True, sends=True),
    "tasks/get": Method(V0_3, _get),
    "tasks/cancel": Method(V0_3, _cancel, writes=True),
    "tasks/resubscribe": Method(V0_3, _subscribe),
    "tasks/pushNotificationConfig/set": Method(V0_3, _no_push),
    "tasks/pushNotificationConfig/get": Method(V0_3, _no_push),
    "tasks/pushNotificationConfig/list": Method(V0_3, _no_push),
    "tasks/pushNotificationConfig/delete": Method(V0_3, _no_push),
    "agent/getAuthenticatedExtendedCard": Method(
        V0_3, _refusing("this agent has no extended card", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
    ),
}
