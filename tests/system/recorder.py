"""Clients that send, stream, return with their last id after a cut, and record their view."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.system.wire import Events, Json, Sse, request, state_of, stream, text_message

from taskplane.api.message_metadata import CURSOR

ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
COMPLETED = "TASK_STATE_COMPLETED"
# Refusals while a part of the plane is unavailable: the client tries again.
AWAY = {
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "CHANNEL_CLOSED",
    "CLOSING",
    "SHUTTING_DOWN",
    "DATABASE_BUSY",
    "DATABASE_DOWN",
    "DATABASE_READ_ONLY",
    "DATABASE_TIMEOUT",
}
_PAUSE = 0.05


@dataclass
class Record:
    """The view of one client of one task, over all its connections."""

    text: str
    task_id: str = ""
    cursor: str = ""
    state: str = ""
    generations: list[int] = field(default_factory=list[int])
    contents: dict[int, Json] = field(default_factory=dict[int, Json])
    faults: list[str] = field(default_factory=list[str])
    retries: list[int] = field(default_factory=list[int])
    resyncs: int = 0
    reconnects: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def see(self, event: Sse) -> None:
        if "task" in event.result:
            task = event.result["task"]
            self.task_id = task["id"]
            if "taskplane.dev/resync" in task.get("metadata", {}):
                self.resyncs += 1
        elif self.generations and event.generation <= self.generations[-1]:
            self.faults.append(f"{event.generation} after {self.generations[-1]}")
        elif self.generations and event.generation > self.generations[-1] + 1:
            self.faults.append(f"gap before {event.generation} after {self.generations[-1]}")
        content = self._content(event)
        before = self.contents.setdefault(event.generation, content)
        if before != content and "task" not in content:
            self.faults.append(f"{event.generation} was seen with two contents")
        self.cursor = event.id
        self.generations.append(event.generation)
        self.state = state_of(event) or self.state

    def _content(self, event: Sse) -> Json:
        """The event as it is in the log: without the cursor in its metadata, which must be that of its line."""
        ((kind, payload),) = event.result.items()
        metadata: Json = dict(payload.get("metadata", {}))
        if metadata.pop(CURSOR, None) != event.id:
            self.faults.append(f"{event.generation} has another cursor in its metadata")
        bare = {name: value for name, value in payload.items() if name != "metadata"}
        return {kind: {**bare, "metadata": metadata} if metadata else bare}

    def closed(self, events: Events) -> None:
        """A connection ended in an orderly way."""
        if events.ragged:
            self.faults.append(f"the stream ended within an event, after {self.cursor}")
        if events.retry is not None:
            self.retries.append(events.retry)


@dataclass
class Recorder:
    """All clients of one run. `acknowledged` are the ids of tasks answered as completed."""

    http: httpx.AsyncClient
    records: list[Record] = field(default_factory=list[Record])
    acknowledged: list[str] = field(default_factory=list[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    last_event: float = 0.0

    async def follow(self, text: str, **fields: Any) -> Record:
        """Sends `text` by a streaming call and follows its task to its end, across any number of cuts."""
        record = Record(text)
        self.records.append(record)
        message = text_message(text, **fields)
        key = {"Idempotency-Key": message["messageId"]}
        while not record.ended:
            if record.task_id:
                params: Json = {"id": record.task_id}
                await self._read(record, "SubscribeToTask", params, {"Last-Event-ID": record.cursor})
            else:
                await self._read(record, "SendStreamingMessage", {"message": message}, key)
            if not record.ended:
                record.reconnects += 1
                await asyncio.sleep(_PAUSE)
        return record

    async def send(self, text: str, **fields: Any) -> Json:
        """A blocking send, repeated under its key until it is answered; {} if it was refused for good."""
        message = text_message(text, **fields)
        answer = await self._answer("SendMessage", {"message": message}, {"Idempotency-Key": message["messageId"]})
        task: Json = answer.get("task") or answer.get("message") or {}
        if task.get("status", {}).get("state") == COMPLETED:
            self.acknowledged.append(task["id"])
        return task

    async def converse(self) -> Json:
        """Answers a question of the agent, so that the task goes through the queue."""
        task = await self.send("ask")
        assert task, self.refusals
        return await self.send("blue", taskId=task["id"], contextId=task["contextId"])

    async def cancel(self, text: str) -> Json:
        """Begins a task and cancels it, until the answer is that it has ended."""
        message = text_message(text)
        params: Json = {"message": message, "configuration": {"returnImmediately": True}}
        task = dict((await self._answer("SendMessage", params, {"Idempotency-Key": message["messageId"]}))["task"])
        await self._answer("CancelTask", {"id": task["id"]}, {})
        return task

    @asynccontextmanager
    async def load(self, senders: int = 2) -> AsyncGenerator[None]:
        """Clients that send short messages one after the other during the block; each is answered."""
        ended = asyncio.Event()

        async def sending() -> None:
            while not ended.is_set():
                await self.send("echo meanwhile")

        async with asyncio.TaskGroup() as group:
            for _ in range(senders):
                group.create_task(sending())
            try:
                yield
            finally:
                ended.set()

    async def _answer(self, method: str, params: Json, headers: dict[str, str]) -> Json:
        while True:
            try:
                body = request(method, params)
                response = await self.http.post("/", json=body, headers={"A2A-Version": "1.0", **headers})
                answer = dict(response.json())
            except (httpx.TransportError, ValueError):
                await asyncio.sleep(_PAUSE)
                continue
            if "result" in answer:
                return dict(answer["result"])
            reason = next((str(each["reason"]) for each in answer["error"].get("data", ()) if "reason" in each), "")
            self.refusals[reason or str(answer["error"])] += 1
            if reason not in AWAY:
                return {}
            await asyncio.sleep(_PAUSE)

    async def _read(self, record: Record, method: str, params: Json, headers: dict[str, str]) -> None:
        try:
            async with stream(self.http, method, params, **headers) as events:
                async for event in events:
                    if "error" in event.data:
                        return
                    record.see(event)
                    self.last_event = time.monotonic()
                record.closed(events)
        except (httpx.TransportError, AssertionError):
            return

    def grew_within(self, seconds: float) -> bool:
        """Whether some client saw a new event in the last `seconds`."""
        return time.monotonic() - self.last_event < seconds

    def seen(self) -> dict[str, dict[int, Json]]:
        """Returns the views of clients, by task and generation."""
        found: dict[str, dict[int, Json]] = defaultdict(dict)
        for record in self.records:
            if record.task_id:
                found[record.task_id].update(record.contents)
        return dict(found)

    def faults(self) -> list[str]:
        """Returns the faults on the wire."""
        found = [f"{record.text}: {fault}" for record in self.records for fault in record.faults]
        return found + [f"{record.text}: resync" for record in self.records if record.resyncs]
