"""Clients of every kind that watch a growing artifact, and their views of it."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from tests.system.plane import Plane
from tests.system.stores import task_store
from tests.system.wire import Events, Json, Sse, stream, text_message, text_message_0_3

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb


class Chunk(NamedTuple):
    """One piece of an artifact, and its position in the log."""

    generation: int
    artifact_id: str
    append: bool
    last: bool
    text: str


@dataclass
class View:
    """The view of one client."""

    task_id: str = ""
    # Of the first event.
    cursor: str = ""
    # Of the newest event.
    newest: str = ""
    # Of the first snapshot.
    snapshot: str = ""
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    # The final state, and the number of chunks before it.
    state: str = ""
    before_end: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return self.snapshot + "".join(chunk.text for chunk in self.chunks)

    def chunk(self, generation: int, update: Json) -> None:
        artifact = update["artifact"]
        text = "".join(part.get("text", "") for part in artifact["parts"])
        append, last = bool(update.get("append")), bool(update.get("lastChunk"))
        self.chunks.append(Chunk(generation, artifact["artifactId"], append, last, text))
        self._changed.set()

    def status(self, state: str) -> None:
        state = state.removeprefix("TASK_STATE_").lower()
        if state in ("completed", "failed", "canceled"):
            self.state, self.before_end = state, len(self.chunks)
            self._changed.set()

    def began(self, task: Json) -> None:
        self.task_id = task["id"]
        parts = [part for artifact in task.get("artifacts", ()) for part in artifact["parts"]]
        self.snapshot = "".join(part["text"] for part in parts)
        self._changed.set()

    def take(self, event: Sse) -> None:
        """An event of a stream, of either version."""
        self.cursor, self.newest = self.cursor or event.id, event.id
        result = event.result
        kind = result.get("kind")
        if "task" in result or kind == "task":
            self.began(result.get("task", result))
        elif "artifactUpdate" in result or kind == "artifact-update":
            self.chunk(event.generation, result.get("artifactUpdate", result))
        else:
            self.status(result.get("statusUpdate", result)["status"]["state"])

    async def sees(self, text: str, timeout: float = 30.0) -> None:
        """Returns once the artifact begins like that."""
        async with asyncio.timeout(timeout):
            while not (self.task_id and self.text.startswith(text)):
                self._changed.clear()
                await self._changed.wait()


async def sender(http: httpx.AsyncClient, view: View, text: str, version: str) -> None:
    """Sends a message by the streaming method of a version, and records the stream."""
    said = text_message(text) if version == "1.0" else text_message_0_3(text)
    method = "SendStreamingMessage" if version == "1.0" else "message/stream"
    async with stream(http, method, {"message": said}, **{"A2A-Version": version}) as events:
        async for event in events:
            view.take(event)


async def subscriber(
    http: httpx.AsyncClient, view: View, task_id: str, version: str, cursor: str, *, leave_after: int = 0
) -> None:
    """Subscribes after a cursor, or without one; leaves after a number of chunks, and returns with its last cursor."""
    method = "SubscribeToTask" if version == "1.0" else "tasks/resubscribe"
    cursors = {"Last-Event-ID": cursor} if cursor else {}
    headers = {"A2A-Version": version, **cursors}
    async with stream(http, method, {"id": task_id}, **headers) as events:
        async for event in events:
            view.take(event)
            if leave_after and len(view.chunks) == leave_after:
                break
        else:
            return
    await subscriber(http, view, task_id, version, view.newest)


async def log_reader(http: httpx.AsyncClient, view: View, task_id: str) -> None:
    """Reads the log under /api, from its first event to the end."""
    view.task_id = task_id
    async with http.stream("GET", f"/api/tasks/{task_id}/events") as response:
        async for event in Events(response):
            shown: dict[str, Any] = event.data["event"] or {}
            if event.data["kind"] == "artifact":
                view.chunk(event.data["generation"], shown["artifactUpdate"])
            elif "statusUpdate" in shown:
                view.status(shown["statusUpdate"]["status"]["state"])


async def watcher(plane: Plane, view: View, task_id: str, cursor: str) -> None:
    """Watches the task over gRPC."""
    view.task_id = task_id
    ended = (a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED, a2a.TASK_STATE_CANCELED)
    async with task_store(plane) as (store, _):
        call = store.WatchTask(pb.WatchTaskRequest(task_id=task_id, cursor=cursor, stop_at=ended))
        async for event in _events(call):
            update = event.event.artifact_update
            if event.kind == pb.EVENT_KIND_ARTIFACT:
                parts = [{"text": part.text} for part in update.artifact.parts]
                shown = {"artifactId": update.artifact.artifact_id, "parts": parts}
                said = {"artifact": shown, "append": update.append, "lastChunk": update.last_chunk}
                view.chunk(event.generation, said)
            elif event.event.HasField("status_update"):
                view.status(a2a.TaskState.Name(event.event.status_update.status.state))


async def _events(call: AsyncIterable[pb.WatchTaskResponse]) -> AsyncIterator[pb.Event]:
    async for response in call:
        for event in response.events.events:
            yield event
