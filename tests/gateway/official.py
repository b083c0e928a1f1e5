"""The official clients of A2A, unmodified: in Python and in JavaScript, of each version and over each binding that they
have. Requests, events and answers are JSON of A2A 1.0."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, cast

import pytest
from a2a.client import Client, ClientCallContext
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from tests.client.typescript import Official, official
from tests.gateway.plane import Json
from tests.support.node import NO_TYPESCRIPT
from tests.support.official_python import official_python

from taskplane.client.resuming import resumed

# Names in JavaScript of errors that have other ones in Python.
_IN_PYTHON: Final = {"RequestMalformedError": "InvalidParamsError"}


class Refused(Exception):
    """An error of the official client, by its name in Python."""


class OfficialClient(Protocol):
    """An official client. Events are ended by closing their generator. Raise `Refused`."""

    async def card(self) -> Json:
        """Return the card of which the client was made."""
        ...

    async def send(self, request: Json) -> Json:
        """Send, and wait for the task or the direct answer: `{"task"}` or `{"message"}`."""
        ...

    def stream(self, request: Json, **headers: str) -> AsyncGenerator[Json]:
        """Send, and yield the events."""
        ...

    def subscribe(self, task: str, **headers: str) -> AsyncGenerator[Json]:
        """Yield the events of a task."""
        ...

    def resumed(self, request: Json, key: str) -> AsyncGenerator[Json]:
        """Send by the helper for this client, and yield the events."""
        ...

    async def get(self, task: str, history_length: int | None = None) -> Json:
        """Return a task."""
        ...

    async def list(self, **filters: Any) -> Json:
        """Return a page of tasks."""
        ...

    async def cancel(self, task: str) -> Json:
        """Cancel a task, and return it."""
        ...


def _headers(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _json(message: Message) -> Json:
    return dict(MessageToDict(message))


class InPython:
    """The official client in Python."""

    def __init__(self, card: AgentCard, streaming: Client, blocking: Client) -> None:
        self._card = card
        self._streaming = streaming
        self._blocking = blocking

    async def card(self) -> Json:
        return _json(self._card)

    async def send(self, request: Json) -> Json:
        (answer,) = [each async for each in _events(self._blocking.send_message(_sent(request)))]
        return answer

    def stream(self, request: Json, **headers: str) -> AsyncGenerator[Json]:
        return _events(self._streaming.send_message(_sent(request), context=_context(headers)))

    def subscribe(self, task: str, **headers: str) -> AsyncGenerator[Json]:
        return _events(self._streaming.subscribe(SubscribeToTaskRequest(id=task), context=_context(headers)))

    def resumed(self, request: Json, key: str) -> AsyncGenerator[Json]:
        return _events(resumed(self._streaming, _sent(request), key=key))

    async def get(self, task: str, history_length: int | None = None) -> Json:
        request = GetTaskRequest(id=task, history_length=history_length)
        return await _answer(self._streaming.get_task, request)

    async def list(self, **filters: Any) -> Json:
        return await _answer(self._streaming.list_tasks, ParseDict(filters, ListTasksRequest()))

    async def cancel(self, task: str) -> Json:
        return await _answer(self._streaming.cancel_task, CancelTaskRequest(id=task))


def _sent(request: Json) -> SendMessageRequest:
    return ParseDict(request, SendMessageRequest())


def _context(headers: dict[str, str]) -> ClientCallContext:
    return ClientCallContext(service_parameters=_headers(headers))


async def _events(events: Any) -> AsyncGenerator[Json]:
    try:
        async with aclosing(cast("AsyncGenerator[StreamResponse]", events)) as found:
            async for event in found:
                yield _json(event)
    except A2AError as error:
        raise Refused(type(error).__name__) from error


async def _answer(call: Callable[..., Any], request: Message) -> Json:
    try:
        return _json(await call(request))
    except A2AError as error:
        raise Refused(type(error).__name__) from error


class InJavaScript:
    """The official client in JavaScript."""

    def __init__(self, client: Official) -> None:
        self._client = client

    async def card(self) -> Json:
        return await self._one("card")

    async def send(self, request: Json) -> Json:
        return await self._one("sendMessage", request)

    def stream(self, request: Json, **headers: str) -> AsyncGenerator[Json]:
        return self._events("sendMessageStream", request=request, headers=_headers(headers))

    def subscribe(self, task: str, **headers: str) -> AsyncGenerator[Json]:
        return self._events("resubscribeTask", request={"id": task}, headers=_headers(headers))

    def resumed(self, request: Json, key: str) -> AsyncGenerator[Json]:
        return self._events("stream", request=request, key=key)

    async def get(self, task: str, history_length: int | None = None) -> Json:
        return await self._one("getTask", {"id": task, "historyLength": history_length})

    async def list(self, **filters: Any) -> Json:
        return await self._one("listTasks", filters)

    async def cancel(self, task: str) -> Json:
        return await self._one("cancelTask", {"id": task})

    async def _one(self, act: str, request: Json | None = None) -> Json:
        (answer,) = [each async for each in self._events(act, request=request)]
        return answer

    async def _events(self, act: str, **given: Any) -> AsyncGenerator[Json]:
        async for each in self._client.act(act, **given):
            if failed := each.get("failed"):
                raise Refused(_IN_PYTHON.get(failed, failed))
            yield each


@dataclass(frozen=True)
class Kind:
    """A kind of official client, and how to open one for the agent whose card is below `url`. `port`: where its calls
    go, if not to the address in the card."""

    language: str
    version: str
    binding: str

    @property
    def name(self) -> str:
        return f"{self.language}-{self.version}-{self.binding}"

    def open(self, url: str, port: int = 0) -> AbstractAsyncContextManager[OfficialClient]:
        return (_in_python if self.language == "python" else _in_javascript)(self, url, port)


@asynccontextmanager
async def _in_python(kind: Kind, url: str, port: int) -> AsyncGenerator[OfficialClient]:
    made = partial(official_python, url, kind.binding, kind.version, port=port)
    async with made() as (streaming, card), made(streaming=False) as (blocking, _):
        yield InPython(card, streaming, blocking)


@asynccontextmanager
async def _in_javascript(kind: Kind, url: str, port: int) -> AsyncGenerator[OfficialClient]:
    async with official(url=url, port=port, version=kind.version, binding=kind.binding) as client:
        yield InJavaScript(client)


_BINDINGS: Final = {"python": ("JSONRPC", "HTTP+JSON", "GRPC"), "javascript": ("JSONRPC", "HTTP+JSON", "GRPC")}
_MARKS: Final = {"python": [], "javascript": [pytest.mark.skipif(bool(NO_TYPESCRIPT), reason=NO_TYPESCRIPT)]}
KINDS: Final = [
    pytest.param(kind, id=kind.name, marks=_MARKS[kind.language])
    for language, bindings in _BINDINGS.items()
    for version in ("1.0", "0.3")
    for kind in (Kind(language, version, binding) for binding in bindings)
]
