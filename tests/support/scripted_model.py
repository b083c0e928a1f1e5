"""A server of chat completions with scripted answers, over real HTTP: whole or streamed, slow, cut or refused.

`open_model(script)` serves it; the script is called with each request and returns the steps of its answer. Every
request is recorded, with its connection and the time at which the connection was closed.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

MODEL: Final = "scripted"


@dataclass(frozen=True)
class Delta:
    """The next piece of the text."""

    text: str


@dataclass(frozen=True)
class CallBegin:
    """The beginning of a tool call: its index in the answer, its id and its name."""

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class CallPiece:
    """The next piece of the arguments of the tool call at `index`."""

    index: int
    arguments: str


@dataclass(frozen=True)
class Finish:
    """The reason for the end of the answer."""

    reason: str = "stop"


@dataclass(frozen=True)
class Failing:
    """An error within a stream that began well."""

    message: str


@dataclass(frozen=True)
class Until:
    """Waits for an event of the test."""

    event: asyncio.Event


@dataclass(frozen=True)
class After:
    """Waits for this number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """Cuts the connection."""


@dataclass(frozen=True)
class Status:
    """Answers with an error status instead; must be the first step."""

    code: int
    body: str = '{"error": {"message": "secret-of-the-provider", "type": "error"}}'
    headers: tuple[tuple[str, str], ...] = ()


Step = Delta | CallBegin | CallPiece | Finish | Failing | Until | After | Cut | Status
Answer = Sequence[Step]


def text(*pieces: str, finish: str | None = "stop") -> list[Step]:
    """A text. Without `finish` the stream ends normally, and without a reason."""
    return [*map(Delta, pieces), *([Finish(finish)] if finish else [])]


def calls(
    *wanted: tuple[str, Any], piece: int = 7, finish: str | None = "tool_calls", prefix: str = "call"
) -> list[Step]:
    """Tool calls by name and arguments (JSON, or its text), cut into pieces of this number of characters."""
    steps: list[Step] = []
    for index, (name, given) in enumerate(wanted):
        arguments = given if isinstance(given, str) else json.dumps(given)
        steps.append(CallBegin(index, f"{prefix}-{index}", name))
        steps += [CallPiece(index, arguments[at : at + piece]) for at in range(0, len(arguments), piece)]
    return [*steps, *([Finish(finish)] if finish else [])]


def refused(code: int, *, retry_after: float | None = None) -> list[Step]:
    """An error status."""
    return [Status(code, headers=(("Retry-After", str(retry_after)),) if retry_after is not None else ())]


def hang() -> list[Step]:
    """No answer, ever. Not an event: it would belong to one loop, and tables of answers are used in several."""
    return [After(86_400.0)]


@dataclass
class Request:
    """A received request, and the state of its connection."""

    body: dict[str, Any]
    headers: dict[str, str]
    connection: int
    closed: asyncio.Event
    at: float = field(default_factory=time.monotonic)
    closed_at: float = 0.0
    # The answer was sent to its end.
    answered: bool = False
    # The first step after the head was sent, or waited for.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def is_over(self) -> bool:
        """Whether the answer is complete, or the connection is closed."""
        return self.answered or self.closed.is_set()

    @property
    def tools(self) -> list[str]:
        """The names of the tools."""
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]

    @property
    def forced(self) -> str:
        """The name of the tool that the model must call; empty: it may choose."""
        choice = self.body.get("tool_choice")
        if isinstance(choice, dict):
            return str(choice["function"]["name"])  # pyright: ignore[reportUnknownArgumentType]
        return self.tools[0] if choice == "required" and len(self.tools) == 1 else ""

    @property
    def said(self) -> list[tuple[str, str]]:
        """The role and the text of each message but those of the system."""
        return [
            (each["role"], _text(each.get("content"))) for each in self.body["messages"] if each["role"] != "system"
        ]

    @property
    def system(self) -> str:
        """The text of the messages of the system."""
        return "\n".join(_text(each["content"]) for each in self.body["messages"] if each["role"] == "system")


class ScriptedModel:
    """The server. `requests` are those received; `answers` are given one after the other, then those of the script."""

    def __init__(self, script: Callable[[Request], Answer] | None = None) -> None:
        self.requests: list[Request] = []
        self.answers: deque[Answer] = deque()
        self.url = ""
        self.connections = 0
        self.open_connections = 0
        self._script = script

    def add(self, *answers: Answer) -> None:
        """Adds answers to the next requests."""
        self.answers.extend(answers)

    def answer(self, request: Request) -> Answer:
        """The answer to a request."""
        if self._script is not None and (given := self._script(request)):
            return given
        return (
            self.answers.popleft() if self.answers else [Status(500, '{"error": {"message": "nothing is scripted"}}')]
        )


class _Connection(asyncio.StreamReaderProtocol):
    """Reports that the client has closed the connection while an answer is written."""

    def __init__(self, model: ScriptedModel, serve: Callable[["_Connection"], Any]) -> None:
        self.reader: Final = asyncio.StreamReader()
        self.closed: Final = asyncio.Event()
        self.model: Final = model
        model.connections += 1
        model.open_connections += 1
        self.number: Final = model.connections
        self.current: Request | None = None
        self.writer: asyncio.StreamWriter | None = None

        async def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writer = writer
            await serve(self)

        super().__init__(self.reader, connected)

    def eof_received(self) -> bool | None:
        self._close()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._close()
        super().connection_lost(exc)

    def _close(self) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        self.model.open_connections -= 1
        if self.current is not None:
            self.current.closed_at = time.monotonic()
            self.current.closed.set()


@asynccontextmanager
async def open_model(script: Callable[[Request], Answer] | None = None) -> AsyncGenerator[ScriptedModel, None]:
    """A served model."""
    model = ScriptedModel(script)
    serving: set[asyncio.Task[None]] = set()

    async def serve(connection: _Connection) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await _serve(model, connection)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # The client is gone, or the test is over.
            pass
        finally:
            serving.discard(task)
            if connection.writer is not None:
                connection.writer.close()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(model, serve), "127.0.0.1", 0)
    try:
        model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield model
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


async def _serve(model: ScriptedModel, connection: _Connection) -> None:
    while not connection.closed.is_set():
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await connection.reader.readexactly(int(headers.get("content-length", "0")))
        assert head[0].startswith("POST /v1/chat/completions "), head[0]
        request = Request(json.loads(body), headers, connection.number, asyncio.Event())
        connection.current = request
        model.requests.append(request)
        await _answer(model.answer(request), request, connection)
        connection.current = None


async def _answer(steps: Answer, request: Request, connection: _Connection) -> None:
    writer = connection.writer
    assert writer is not None
    if steps and isinstance(steps[0], Status):
        refusal = steps[0]
        lines = [f"HTTP/1.1 {refusal.code} Refused", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in refusal.headers]
        _write(writer, [*lines, f"Content-Length: {len(refusal.body)}", "", refusal.body])
    elif request.body.get("stream"):
        await _stream(steps, request, connection, writer)
    else:
        chunks = [chunk async for chunk in _chunks(steps, request, connection)]
        body = json.dumps(_whole(chunks))
        _write(
            writer,
            ["HTTP/1.1 200 OK", "Content-Type: application/json", f"Content-Length: {len(body.encode())}", "", body],
        )
    await writer.drain()
    request.answered = True


async def _stream(steps: Answer, request: Request, connection: _Connection, writer: asyncio.StreamWriter) -> None:
    begun = False
    async for chunk in _chunks(steps, request, connection):
        if not begun:
            begun = True
            _write(writer, ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", "", ""])
        data = f"data: {json.dumps(chunk) if isinstance(chunk, dict) else chunk}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")


async def _chunks(steps: Iterable[Step], request: Request, connection: _Connection) -> AsyncGenerator[Any, None]:
    finished = False
    for step in steps:
        request.begun.set()
        match step:
            case Until(event):
                await _first(event.wait(), connection.closed.wait())
            case After(seconds):
                await _first(asyncio.sleep(seconds), connection.closed.wait())
            case Cut():
                assert connection.writer is not None
                connection.writer.transport.abort()
            case Failing(message):
                yield {"error": {"message": message, "type": "server_error", "code": 500}}
            case Finish(reason):
                finished = True
                yield _chunk({}, reason)
            case Delta(words):
                yield _chunk({"role": "assistant", "content": words})
            case CallBegin(index, id_, name):
                function = {"name": name, "arguments": ""}
                yield _chunk({"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]})
            case CallPiece(index, arguments):
                yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
            case Status():
                raise AssertionError("a status is the first step")
        if connection.closed.is_set():
            raise ConnectionResetError("the client is gone")
    if finished:
        usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
        yield {**_chunk({}), "choices": [], "usage": usage}
        yield "[DONE]"


async def _first(*waiting: Any) -> None:
    tasks = [asyncio.ensure_future(each) for each in waiting]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


def _whole(chunks: Iterable[Any]) -> dict[str, Any]:
    """The answer of a request that is not streamed."""
    words, reason, wanted, usage = "", "stop", dict[int, dict[str, Any]](), dict[str, int]()
    found: list[dict[str, Any]] = [chunk for chunk in chunks if isinstance(chunk, dict)]
    for chunk in found:
        usage = chunk.get("usage", usage)
        for choice in chunk.get("choices", ()):
            reason = choice["finish_reason"] or reason
            words += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", ()):
                known = wanted.setdefault(
                    call["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                known["id"] = call.get("id", known.get("id"))
                known["function"]["name"] += call["function"].get("name", "")
                known["function"]["arguments"] += call["function"].get("arguments", "")
    message = {"role": "assistant", "content": words or None, **({"tool_calls": [*wanted.values()]} if wanted else {})}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
    return {**whole, **({"usage": usage} if usage else {})}


def _write(writer: asyncio.StreamWriter, lines: Sequence[str]) -> None:
    writer.write("\r\n".join(lines).encode())


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = cast("list[dict[str, Any]]", content)
        return "".join(part.get("text", "") for part in parts)
    return content or ""
