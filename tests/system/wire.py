"""The HTTP requests of the system tests: A2A 1.0 JSON-RPC, and streams with their ids."""

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from taskplane.api import growing_text

Json = dict[str, Any]
_ids = itertools.count(1)


@dataclass(frozen=True)
class Sse:
    """One event of a stream: its id (empty for none) and its data."""

    id: str
    data: Json

    @property
    def generation(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def result(self) -> Json:
        assert "result" in self.data, self.data
        return dict(self.data["result"])


def text_message(text: str, **fields: Any) -> Json:
    """A user's message of one text part."""
    return {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **fields}


def text_message_0_3(text: str, **fields: Any) -> Json:
    """The same in the words of A2A 0.3."""
    parts = [{"kind": "text", "text": text}]
    return {"kind": "message", "messageId": uuid4().hex, "role": "user", "parts": parts, **fields}


def request(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def client(url: str, **headers: str) -> httpx.AsyncClient:
    """A client without a limit on silence or connections: the tests set their own times."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    # Without the certificates that plain HTTP has no use for: loading them is nearly all that a client costs.
    return httpx.AsyncClient(base_url=url, timeout=60.0, limits=limits, headers=headers, verify=False)


async def call(http: httpx.AsyncClient, method: str, params: Json, **headers: str) -> Json:
    """The whole JSON-RPC answer, `result` or `error`; the version is that of the method's name."""
    version = "0.3" if "/" in method else "1.0"
    answer = await http.post("/", json=request(method, params), headers={"A2A-Version": version, **headers})
    assert answer.status_code == 200, (answer.status_code, answer.text)
    return dict(answer.json())


async def result(http: httpx.AsyncClient, method: str, params: Json, **headers: str) -> Json:
    answer = await call(http, method, params, **headers)
    assert "result" in answer, answer
    return dict(answer["result"])


async def send(http: httpx.AsyncClient, text: str, **kwargs: Any) -> Json:
    """A blocking send; the task or the message."""
    headers = kwargs.pop("headers", {})
    configuration = kwargs.pop("configuration", {})
    params = {"message": text_message(text, **kwargs), "configuration": configuration}
    return await result(http, "SendMessage", params, **headers)


class Events:
    """The events of one SSE body, as they come; comments are skipped. `retry` is the pause in milliseconds at the end
    of the stream; `ragged` means that it ended within an event."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.retry: int | None = None
        self.ragged = False

    async def __aiter__(self) -> AsyncIterator[Sse]:
        event_id, data = "", ""
        async for line in self._response.aiter_lines():
            if line.startswith("id:"):
                event_id = line[3:].strip()
            elif line.startswith("data:"):
                data = line[5:].strip()
            elif line.startswith("retry:"):
                self.retry = int(line[6:])
            elif not line and data:
                yield Sse(event_id, json.loads(data))
                event_id, data = "", ""
        self.ragged = bool(event_id or data)


@asynccontextmanager
async def stream(http: httpx.AsyncClient, method: str, params: Json, **headers: str) -> AsyncGenerator[Events]:
    """The events of a streaming call, as they come, with the pieces of texts that grow."""
    body = request(method, params)
    known = {"A2A-Version": "1.0", "A2A-Extensions": growing_text.EXTENSION}
    async with http.stream("POST", "/", json=body, headers={**known, **headers}) as response:
        assert response.status_code == 200, response.status_code
        assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
        yield Events(response)


async def sse_log(http: httpx.AsyncClient, task_id: str) -> list[Sse]:
    """Every event of an ended task, from its first, with its place."""
    async with http.stream("GET", f"/api/tasks/{task_id}/events") as response:
        return [event async for event in Events(response)]


async def raw_log(http: httpx.AsyncClient, task_id: str) -> list[Json]:
    """Every event of an ended task, from its first."""
    return [event.data for event in await sse_log(http, task_id)]


async def data(http: httpx.AsyncClient, path: str) -> Any:
    """Returns the data of a route under /api; None if the envelope has none."""
    answer = await http.get(path)
    assert answer.status_code == 200, (answer.status_code, answer.text)
    return answer.json().get("data")


def task_of(events: list[Sse]) -> Json:
    """The Task that opens a stream."""
    return dict(events[0].result["task"])


def texts_of(task: Json) -> list[str]:
    """Returns the texts of a task in order: its history and, unless included, the message of its status."""
    messages: list[Json] = [*task.get("history", [])]
    last = task["status"].get("message")
    if last and all(last["messageId"] != each["messageId"] for each in messages):
        messages.append(last)
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]


def state_of(event: Sse) -> str:
    """The state an event carries, or nothing."""
    found: Json = event.result.get("statusUpdate") or event.result.get("task") or {}
    return str(found.get("status", {}).get("state", ""))


async def until(probe: Any, timeout: float = 20.0) -> Any:
    """Polls a coroutine function until it returns something true; for conditions without an event."""
    async with asyncio.timeout(timeout):
        while True:
            found = await probe()
            if found:
                return found
            await asyncio.sleep(0.02)
