"""Clients of A2A, one for each binding and version, so that the tests of operations run on all of them.

A test calls operations by their names in A2A 1.0, with JSON requests and results in the form of 1.0. A binding
converts them to its wire format and back; results of 0.3 are read by the models of the official library.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

import grpc
import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.gateway.calls import note
from tests.gateway.failures import Failure, code_of, failed, failure, failure_of
from tests.gateway.forms_0_3 import named_1_0, result_1_0, sent_0_3, sent_rest
from tests.gateway.plane import Json, Plane, events, named, said

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.message_metadata import CURSOR
from taskplane.gateway.a2a.operations import OPERATIONS
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.bindings import jsonrpc, rest, rest_v0_3
from taskplane.gateway.bindings.sent_events import SentEvents
from taskplane.gateway.errors import error_0_3, error_1_0, error_rest, error_rest_0_3, status_grpc, status_grpc_0_3
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.gateway.translate.wire_0_3.codec import PAIRS, to_0_3, to_1_0
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime.errors import PlaneError

WORKER: Final = TranslationThread()


@dataclass(frozen=True)
class Framed:
    """A request in its wire format."""

    verb: str
    path: str
    body: Any = None


@dataclass(frozen=True)
class Event:
    """An element of a stream: its cursor, empty without one, and its content in the form of 1.0."""

    id: str
    result: Json


class Binding(Protocol):
    """One binding of one version, called with requests as 1.0 has them."""

    @property
    def name(self) -> str:
        """Return the name for the ids of tests."""
        ...

    @property
    def version(self) -> str:
        """Return the version of A2A."""
        ...

    @property
    def operations(self) -> Collection[str]:
        """Return the operations of the binding."""
        ...

    @property
    def explicit(self) -> bool:
        """Whether it tells 0 and false from what is missing, and has everything that 1.0 has."""
        ...

    async def answer(self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]) -> Json | Failure:
        """Return the result of a unary operation, or the error of any, for a stream before its first event."""
        ...

    def stream(
        self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Yield the events of a stream."""
        ...

    def told(self, error: PlaneError) -> Failure:
        """Return an error as a client reads it."""
        ...


class HttpBinding(Binding, Protocol):
    """A binding over HTTP."""

    def frame(self, operation: str, params: Json) -> Framed:
        """Return a request of an operation to the default agent."""
        ...

    def read(self, operation: str, body: Json) -> Json | Failure:
        """Return the result in a body in the form of 1.0, or the error."""
        ...

    def refused(self, error: PlaneError) -> Json:
        """Return the body that the gateway writes for an error."""
        ...

    def events(self, flow: PayloadStream) -> SentEvents:
        """Return the events that the gateway writes for a stream."""
        ...


class OverHttp:
    """The calls of a binding over HTTP."""

    async def answer(
        self: HttpBinding, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]
    ) -> Json | Failure:
        framed = self.frame(operation, params)
        reply = await plane.http.request(framed.verb, framed.path, json=framed.body, headers=named(headers))
        if reply.headers["content-type"] != "text/event-stream":
            return self.read(operation, reply.json())
        (line,) = (line for line in reply.text.splitlines() if line)
        return self.read(operation, json.loads(line.removeprefix("data: ")))

    @asynccontextmanager
    async def stream(
        self: HttpBinding, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[Event], None]:
        framed = self.frame(operation, params)
        async with plane.http.stream(framed.verb, framed.path, json=framed.body, headers=named(headers)) as reply:
            assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream"), await reply.aread()
            yield _events(self, operation, reply)

    def told(self: HttpBinding, error: PlaneError) -> Failure:
        found = self.read("GetTask", self.refused(error))
        assert isinstance(found, Failure)
        return found


async def _events(binding: HttpBinding, operation: str, reply: httpx.Response) -> AsyncIterator[Event]:
    async for event in events(reply):
        found = binding.read(operation, event.data)
        assert not isinstance(found, Failure), found
        assert event.name == ""
        yield Event(event.id, found)


CARD: Final = "GetExtendedAgentCard"
METHODS_0_3: Final = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
    "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
}


@dataclass(frozen=True)
class JsonRpc(OverHttp):
    """JSON-RPC, by the methods of A2A 1.0."""

    name: str = "jsonrpc-1.0"
    version: str = "1.0"
    operations: Collection[str] = tuple(OPERATIONS)
    explicit: bool = True

    def frame(self, operation: str, params: Json) -> Framed:
        return Framed("POST", "/", {"jsonrpc": "2.0", "id": "r", "method": operation, "params": params})

    def read(self, operation: str, body: Json) -> Json | Failure:
        assert (body["jsonrpc"], body["id"]) == ("2.0", "r")
        if "error" not in body:
            result: Json = body["result"]
            return result
        return failure(body["error"]["code"], body["error"]["data"])

    def refused(self, error: PlaneError) -> Json:
        return {"jsonrpc": "2.0", "id": "r", "error": error_1_0(error, "r")}

    def events(self, flow: PayloadStream) -> SentEvents:
        return jsonrpc.events(WORKER, flow, jsonrpc.Frame(b'"r"', V1_0))


@dataclass(frozen=True)
class JsonRpc03(OverHttp):
    """JSON-RPC, by the methods of A2A 0.3, which has no list of tasks."""

    name: str = "jsonrpc-0.3"
    version: str = "0.3"
    operations: Collection[str] = tuple(METHODS_0_3)
    explicit: bool = True

    def frame(self, operation: str, params: Json) -> Framed:
        sends = operation in ("SendMessage", "SendStreamingMessage")
        body = {"jsonrpc": "2.0", "id": "r", "method": METHODS_0_3[operation]}
        return Framed("POST", "/", {**body, "params": sent_0_3(params) if sends else params})

    def read(self, operation: str, body: Json) -> Json | Failure:
        assert (body["jsonrpc"], body["id"]) == ("2.0", "r")
        if "error" not in body and operation == CARD:
            card: Json = body["result"]
            return card
        if "error" not in body:
            wrapped = result_1_0(body["result"])
            return wrapped if operation not in ("GetTask", "CancelTask") else wrapped["task"]
        data = body["error"]["data"]
        return Failure(
            body["error"]["code"],
            data["reason"],
            data.get("metadata", {}),
            data.get("suggestion", ""),
            data.get("fields", {}),
        )

    def refused(self, error: PlaneError) -> Json:
        return {"jsonrpc": "2.0", "id": "r", "error": error_0_3(error, "r")}

    def events(self, flow: PayloadStream) -> SentEvents:
        return jsonrpc.events(WORKER, flow, jsonrpc.Frame(b'"r"', V0_3))


@dataclass(frozen=True)
class Rest(OverHttp):
    """REST, by the paths of A2A 1.0."""

    name: str = "rest-1.0"
    version: str = "1.0"
    operations: Collection[str] = tuple(OPERATIONS)
    explicit: bool = True

    def frame(self, operation: str, params: Json) -> Framed:
        verb, path = PATHS[operation]
        ids = {name for name in ("taskId", "id") if f"{{{name}}}" in path}
        for name in ids:
            path = path.replace(f"{{{name}}}", quote(params[name], safe=""))
        if verb == "POST":
            return Framed(verb, path, params)
        query = {name: value for name, value in params.items() if name not in ids}
        texts = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in query.items()}
        return Framed(verb, f"{path}?{urlencode(texts)}" if texts else path)

    def read(self, operation: str, body: Json) -> Json | Failure:
        error = body.get("error")
        return body if error is None else failure(code_of(error), error["details"])

    def refused(self, error: PlaneError) -> Json:
        return error_rest(error, "r")

    def events(self, flow: PayloadStream) -> SentEvents:
        return rest.FORMS["1.0.1"].events(WORKER, flow)


@dataclass(frozen=True)
class Rest03(OverHttp):
    """REST, by the paths of A2A 0.3. Requests are written, and results read, as messages of `a2a.v1`."""

    name: str = "rest-0.3"
    version: str = "0.3"
    operations: Collection[str] = tuple(METHODS_0_3)
    explicit: bool = False

    def frame(self, operation: str, params: Json) -> Framed:
        framed = Rest().frame(operation, params)
        path = "/v1" + (framed.path if operation != CARD else "/card")
        if operation not in ("SendMessage", "SendStreamingMessage"):
            return Framed(framed.verb, path, framed.body)
        return Framed(framed.verb, path, sent_rest(params))

    def read(self, operation: str, body: Json) -> Json | Failure:
        if "error" in body:
            assert body["message"] == body["error"]["message"]
            found = failure(body["code"], body["error"]["details"])
            return replace(found, fields={named_1_0(path): rule for path, rule in found.fields.items()})
        if operation == CARD:
            # The JSON of cards, as over JSON-RPC.
            return body
        name = "Task" if operation in ("GetTask", "CancelTask") else "StreamResponse"
        # A member that the official messages do not have is an error here, as it is to their client.
        read = ParseDict(body, getattr(a2a_v0_3_pb2, name)())
        shown: Json = MessageToDict(to_1_0(getattr(old, name).FromString(read.SerializeToString())))
        return shown

    def refused(self, error: PlaneError) -> Json:
        return error_rest_0_3(error, "r")

    def events(self, flow: PayloadStream) -> SentEvents:
        return rest_v0_3.FORMS["1.0.1"].events(WORKER, flow)


@dataclass(frozen=True)
class Grpc:
    """gRPC, by the stub of A2A 1.0 of the official library."""

    name: str = "grpc-1.0"
    version: str = "1.0"
    operations: Collection[str] = tuple(OPERATIONS)
    explicit: bool = True

    async def answer(self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]) -> Json | Failure:
        found, _ = await self.whole(plane, operation, params, named(headers))
        return found

    async def whole(
        self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]
    ) -> tuple[Json | Failure, Mapping[str, Any]]:
        """Return the answer, and the metadata around it."""
        call = self._call(plane, operation, params, headers)
        try:
            reply = await call if operation not in STREAMS else [self._shown(event) async for event in call]
        except grpc.aio.AioRpcError as error:
            return self._failed(error), {"initial": tuple(error.initial_metadata()), "details": error.details()}
        metadata = {"initial": tuple(await call.initial_metadata()), "trailing": tuple(await call.trailing_metadata())}
        if isinstance(reply, list):
            return {"events": reply}, metadata
        found: Json = self._shown(reply)
        if operation == "ListTasks":
            # Protobuf leaves defaults out.
            found = {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0, **found}
        return found, metadata

    @asynccontextmanager
    async def stream(
        self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[Event], None]:
        call = self._call(plane, operation, params, named(headers))

        async def found() -> AsyncIterator[Event]:
            async for reply in call:
                yield _event(self._shown(reply))

        try:
            yield found()
        finally:
            call.cancel()

    def told(self, error: PlaneError) -> Failure:
        return failure_of(status_grpc(error, "r"))

    def _failed(self, error: grpc.aio.AioRpcError) -> Failure:
        """Return the error of a call, with its fields as 1.0 names them."""
        return failed(error)

    def _shown(self, reply: Any) -> Json:
        """Return a reply as 1.0 has it in JSON."""
        return MessageToDict(reply)

    def _call(self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]) -> Any:
        method = getattr(A2AServiceStub(plane.channel), operation)  # type: ignore[no-untyped-call]
        metadata = [(name.lower(), value) for name, value in headers.items()]
        return method(
            ParseDict(params, OFFICIAL[operation](), ignore_unknown_fields=True), metadata=metadata, timeout=20.0
        )


class Grpc03(Grpc):
    """gRPC, by the stub of A2A 0.3 of the official library."""

    def __init__(self) -> None:
        super().__init__("grpc-0.3", "0.3", tuple(METHODS_0_3), explicit=False)

    def told(self, error: PlaneError) -> Failure:
        return failure_of(status_grpc_0_3(error, "r"))

    def _failed(self, error: grpc.aio.AioRpcError) -> Failure:
        found = failed(error)
        fields = {"id" if path == "name" else named_1_0(path): rule for path, rule in found.fields.items()}
        return replace(found, fields=fields)

    def _shown(self, reply: Any) -> Json:
        found: Json = MessageToDict(to_1_0(getattr(old, reply.DESCRIPTOR.name).FromString(reply.SerializeToString())))
        return found

    def _call(self, plane: Plane, operation: str, params: Json, headers: Mapping[str, str]) -> Any:
        form = OLD_REQUESTS[operation]
        name = form.DESCRIPTOR.name.removesuffix("Request")
        method = getattr(
            a2a_v0_3_pb2_grpc.A2AServiceStub(plane.channel),  # type: ignore[no-untyped-call]
            operation if operation == "SendStreamingMessage" else name,
        )
        request = ParseDict(params, PAIRS[form].new(), ignore_unknown_fields=True)
        sent = getattr(a2a_v0_3_pb2, form.DESCRIPTOR.name).FromString(to_0_3(request, form).SerializeToString())
        return method(sent, metadata=[(name.lower(), value) for name, value in headers.items()], timeout=20.0)


OLD_REQUESTS: Final[Mapping[str, Any]] = {
    "SendMessage": old.SendMessageRequest,
    "SendStreamingMessage": old.SendMessageRequest,
    "GetTask": old.GetTaskRequest,
    "CancelTask": old.CancelTaskRequest,
    "SubscribeToTask": old.TaskSubscriptionRequest,
    "CreateTaskPushNotificationConfig": old.CreateTaskPushNotificationConfigRequest,
    "GetTaskPushNotificationConfig": old.GetTaskPushNotificationConfigRequest,
    "ListTaskPushNotificationConfigs": old.ListTaskPushNotificationConfigRequest,
    "DeleteTaskPushNotificationConfig": old.DeleteTaskPushNotificationConfigRequest,
    "GetExtendedAgentCard": old.GetAgentCardRequest,
}
"""The message of the requests of each operation in the protobuf of 0.3."""
STREAMS: Final = ("SendStreamingMessage", "SubscribeToTask")
_PUSH: Final = "TaskPushNotificationConfig"
OFFICIAL: Final[Mapping[str, Any]] = {
    "SendMessage": sdk.SendMessageRequest,
    "SendStreamingMessage": sdk.SendMessageRequest,
    f"Create{_PUSH}": sdk.TaskPushNotificationConfig,
    **{
        name: getattr(sdk, f"{name}Request")
        for name in OPERATIONS
        if name not in ("SendMessage", "SendStreamingMessage", f"Create{_PUSH}")
    },
}
"""The message of the requests of each operation in the official library."""


def _event(content: Json) -> Event:
    """Return an element of a stream over gRPC, which carries its cursor in its metadata only."""
    (held,) = content.values()
    return Event(held.get("metadata", {}).get(CURSOR, ""), content)


PATHS: Final = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}

HTTP_BINDINGS: Final[tuple[HttpBinding, ...]] = (JsonRpc(), JsonRpc03(), Rest(), Rest03())
BINDINGS: Final[tuple[HttpBinding | Grpc, ...]] = (*HTTP_BINDINGS, Grpc(), Grpc03())
LISTING: Final = tuple(binding for binding in BINDINGS if "ListTasks" in binding.operations)
"""The bindings with a list of tasks."""


class Client:
    """A client of a gateway over one binding."""

    def __init__(self, plane: Plane, binding: Binding) -> None:
        self.plane = plane
        self.binding = binding

    async def result(self, operation: str, params: Json, **headers: str) -> Json:
        """Return the result of a unary operation that succeeds."""
        found = await self.answer(operation, params, **headers)
        assert not isinstance(found, Failure), found
        return found

    async def error(self, operation: str, params: Json, **headers: str) -> Failure:
        """Return the error of an operation that fails, for a stream before its first event."""
        found = await self.answer(operation, params, **headers)
        assert isinstance(found, Failure), found
        return found

    async def answer(self, operation: str, params: Json, **headers: str) -> Json | Failure:
        """Return the result of a unary operation, or the error of any."""
        found = await self.binding.answer(self.plane, operation, params, headers)
        note(operation, self.binding.name, "refused" if isinstance(found, Failure) else "answered")
        return found

    async def send(self, text: str, *, message: Json | None = None, **configuration: Any) -> Json:
        """Send a message, and return the task or the message of the answer."""
        params = {"message": said(text, **(message or {})), "configuration": configuration}
        result = await self.result("SendMessage", params)
        answer: Json = result.get("task") or result["message"]
        return answer

    @asynccontextmanager
    async def stream(self, operation: str, params: Json, **headers: str) -> AsyncGenerator[AsyncIterator[Event], None]:
        """Yield the events of a stream."""
        async with self.binding.stream(self.plane, operation, params, headers) as found:
            yield self._noted(operation, found)

    async def _noted(self, operation: str, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            note(operation, self.binding.name, "answered")
            yield event

    async def streamed(self, operation: str, params: Json, **headers: str) -> list[Event]:
        """Return all events of a stream that ends."""
        async with self.stream(operation, params, **headers) as found:
            return [event async for event in found]
