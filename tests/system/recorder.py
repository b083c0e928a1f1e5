"""Clients that stream a task, remember everything they saw, and come back with their last id when they are cut off."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.system.wire import Json, Sse, state_of, stream, text_message

ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}


@dataclass
class Record:
    """What one client saw of one task, over all its connections."""

    text: str
    task_id: str = ""
    cursor: str = ""
    state: str = ""
    generations: list[int] = field(default_factory=list[int])
    contents: dict[int, Json] = field(default_factory=dict[int, Json])
    faults: list[str] = field(default_factory=list[str])
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
        before = self.contents.setdefault(event.generation, event.result)
        if before != event.result and "task" not in event.result:
            self.faults.append(f"{event.generation} was seen with two contents")
        self.cursor = event.id
        self.generations.append(event.generation)
        self.state = state_of(event) or self.state


@dataclass
class Recorder:
    """All clients of one run."""

    http: httpx.AsyncClient
    records: list[Record] = field(default_factory=list[Record])
    last_event: float = 0.0

    async def follow(self, text: str, **fields: Any) -> Record:
        """Sends `text` by a streaming call and follows its task to its end, however often the stream is cut."""
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
                await asyncio.sleep(0.05)
        return record

    async def _read(self, record: Record, method: str, params: Json, headers: dict[str, str]) -> None:
        try:
            async with stream(self.http, method, params, **headers) as events:
                async for event in events:
                    if "error" in event.data:
                        return
                    record.see(event)
                    self.last_event = time.monotonic()
        except (httpx.TransportError, AssertionError):
            return

    def grew_within(self, seconds: float) -> bool:
        """Whether some client saw a new event in the last `seconds`."""
        return time.monotonic() - self.last_event < seconds

    def seen(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for record in self.records:
            found[record.task_id].extend(record.generations)
        found.pop("", None)
        return found
