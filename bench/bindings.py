"""The bindings of A2A 1.0, each as a client that costs little beside the server that it measures.

A binding takes the port of a server, and gives a target: what opens one connection to it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from uuid import uuid4

import grpc
import orjson
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse, TaskState
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from bench.lean_http import Connection, WrongAnswer, connect, message

COMPLETED: Final = "TASK_STATE_COMPLETED"
# Each connection is one of its own: channels with equal options share theirs otherwise.
_ALONE: Final = (("grpc.use_local_subchannel_pool", 1),)


class Answer(NamedTuple):
    """What the task of an answer tells: its state, and the texts of its message."""

    state: str
    texts: list[str]


class Piece(NamedTuple):
    """What an event of a stream tells: the text of an artifact, or a state."""

    text: str | None
    state: str


class Channel(Protocol):
    """One connection to a server."""

    async def send(self, text: str) -> Answer:
        """Make a blocking send."""
        ...

    def stream(self, text: str) -> AsyncIterator[Piece]:
        """Make a streaming send."""
        ...


Target = Callable[[], AbstractAsyncContextManager[Channel]]
Binding = Callable[[int], Target]


def jsonrpc(port: int) -> Target:
    """JSON-RPC at an HTTP port."""
    return partial(_over_http, port, _JsonRpc)


def rest(port: int) -> Target:
    """REST at an HTTP port."""
    return partial(_over_http, port, _Rest)


def over_grpc(port: int) -> Target:
    """gRPC at a port of its own."""
    return partial(_over_grpc, port)


@asynccontextmanager
async def _over_http(port: int, kind: "type[_JsonRpc] | type[_Rest]") -> AsyncGenerator[Channel]:
    async with connect(port) as connection:
        yield kind(connection)


@asynccontextmanager
async def _over_grpc(port: int) -> AsyncGenerator[Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=_ALONE) as channel:
        yield _Grpc(channel)


class _JsonRpc:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, text: str) -> Answer:
        status = await self._connection.post("SendMessage", message(text))
        return _answer(status, orjson.loads(await self._connection.body()).get("result", {}))

    async def stream(self, text: str) -> AsyncIterator[Piece]:
        if await self._connection.post("SendStreamingMessage", message(text)) != 200:
            raise WrongAnswer("not 200")
        async for data in self._connection.events():
            yield _piece(orjson.loads(data)["result"])


class _Rest:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def send(self, text: str) -> Answer:
        status = await self._connection.post_json("/message:send", message(text))
        return _answer(status, orjson.loads(await self._connection.body()))

    async def stream(self, text: str) -> AsyncIterator[Piece]:
        if await self._connection.post_json("/message:stream", message(text)) != 200:
            raise WrongAnswer("not 200")
        async for data in self._connection.events():
            yield _piece(orjson.loads(data))


def _answer(status: int, result: dict[str, Any]) -> Answer:
    told = result.get("task", {}).get("status", {})
    if status != 200:
        raise WrongAnswer(f"{status} {result}")
    return Answer(told.get("state", ""), [part.get("text") for part in told.get("message", {}).get("parts", [])])


def _piece(result: dict[str, Any]) -> Piece:
    update = result.get("artifactUpdate")
    text = update["artifact"]["parts"][0]["text"] if update else None
    return Piece(text, result.get("statusUpdate", {}).get("status", {}).get("state", ""))


class _Grpc:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: Any = A2AServiceStub(channel)  # type: ignore[no-untyped-call]

    async def send(self, text: str) -> Answer:
        told = (await self._stub.SendMessage(_request(text), metadata=_METADATA)).task.status
        return Answer(TaskState.Name(told.state), [part.text for part in told.message.parts])

    async def stream(self, text: str) -> AsyncIterator[Piece]:
        event: StreamResponse
        async for event in self._stub.SendStreamingMessage(_request(text), metadata=_METADATA):
            if event.HasField("artifact_update"):
                yield Piece(event.artifact_update.artifact.parts[0].text, "")
            elif event.HasField("status_update"):
                yield Piece(None, TaskState.Name(event.status_update.status.state))
            else:
                yield Piece(None, "")


_METADATA: Final = (
    ("a2a-version", "1.0"),
    ("a2a-extensions", "https://taskplane.dev/extensions/growing-text/v1"),
)


def _request(text: str) -> SendMessageRequest:
    parts = [Part(text=text)]
    return SendMessageRequest(message=Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=parts))
