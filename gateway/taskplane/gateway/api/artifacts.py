"""Artifacts under /api: the list of a task's artifacts with their times, and the download of one."""

import re
from typing import Any, Final

import orjson
from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api.envelope import data_reply
from taskplane.gateway.api.session_tasks import iterate_events
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Content, Headers, Reply, Request, attachment
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.struct import to_json
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.runtime.errors import NotFound

# Times of the first and the last event, by artifact id.
_Times = dict[str, tuple[Timestamp, Timestamp]]

_MEDIA_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


async def list_all(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the artifacts of a task, each with `createdAt` and `updatedAt`. Raise NotFound."""
    record = await _record(plane, request)
    times = await _times(plane, record)
    shown = await plane.worker.run(record.ByteSize(), _shown, record, times)
    return data_reply(shown, "Successfully retrieved artifacts")


async def download(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the content of one artifact under its own media type, with headers that keep a browser from rendering it.

    Raise NotFound.
    """
    record = await _record(plane, request)
    artifact_id = request.arguments["artifact"]
    for artifact in record.task.artifacts:
        if artifact.artifact_id == artifact_id:
            body, media_type, name = await plane.worker.run(artifact.ByteSize(), _content, artifact)
            return Content(200, body, media_type.encode(), _headers(name))
    raise NotFound(f"the task has no artifact {artifact_id[:100]}", reason="ARTIFACT_NOT_FOUND")


async def _record(plane: Plane, request: Request) -> pb.TaskRecord:
    asked = pb.GetTaskRequest(task_id=request.arguments["task"], history_length=0)
    return (await plane.tasks.GetTask(asked)).record


async def _times(plane: Plane, record: pb.TaskRecord) -> _Times:
    """Return the times of the first and the last event of each artifact; nothing for a document task, whose log has
    none."""
    times: _Times = {}
    if record.origin == pb.ORIGIN_MANAGED and record.task.artifacts:
        async for event in iterate_events(plane, record.id, pb.EVENT_KIND_ARTIFACT):
            artifact_id = event.event.artifact_update.artifact.artifact_id
            first = times[artifact_id][0] if artifact_id in times else event.created_at
            times[artifact_id] = (first, event.created_at)
    return times


def _shown(record: pb.TaskRecord, times: _Times) -> list[dict[str, Any]]:
    artifacts: list[dict[str, Any]] = []
    for artifact in record.task.artifacts:
        first, last = times.get(artifact.artifact_id, (record.created_at, record.updated_at))
        artifacts.append({**V0_3.artifact(artifact), "createdAt": to_text(first), "updatedAt": to_text(last)})
    return artifacts


def _content(artifact: a2a.Artifact) -> tuple[bytes, str, str]:
    """Return body, media type and file name. Texts or bytes are joined, a single data part is JSON, and so is the whole
    artifact in every other case."""
    parts = artifact.parts
    contents = {part.WhichOneof("content") for part in parts}
    name = next((part.filename for part in parts if part.filename), artifact.name)
    declared = next((part.media_type for part in parts if _MEDIA_TYPE.fullmatch(part.media_type)), "")
    if contents == {"text"}:
        media_type = declared or "text/plain"
        if media_type.startswith("text/") and "charset" not in media_type:
            media_type += "; charset=utf-8"
        return "".join(part.text for part in parts).encode(), media_type, name
    if contents == {"raw"}:
        return b"".join(part.raw for part in parts), declared or "application/octet-stream", name
    if contents == {"data"} and len(parts) == 1:
        return orjson.dumps(to_json(parts[0].data)), declared or "application/json", name
    return orjson.dumps(V0_3.artifact(artifact)), "application/json", name


def _headers(name: str) -> Headers:
    return [
        attachment(name or "artifact"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"sandbox; default-src 'none'"),
    ]
