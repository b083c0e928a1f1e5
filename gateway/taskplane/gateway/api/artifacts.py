"""Artifacts under /api: the list of a task's artifacts with their times."""

from dataclasses import dataclass
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.api.envelope import data_reply
from taskplane.gateway.api.session_tasks import iterate_events
from taskplane.gateway.auth import Caller
from taskplane.gateway.http import Reply, Request
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.translate.v0_3 import V0_3


@dataclass(slots=True)
class _Seen:
    """The times of the first and the last event of an artifact, and the number of its versions."""

    first: Timestamp
    last: Timestamp
    versions: int = 0


async def list_all(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the artifacts of a task, each with `createdAt`, `updatedAt` and the number of its `versions`. Raise
    NotFound."""
    record = await _record(plane, request)
    seen = await _seen(plane, record)
    shown = await plane.worker.run(record.ByteSize(), _shown, record, seen)
    return data_reply(shown, "Successfully retrieved artifacts")


async def _record(plane: Plane, request: Request) -> pb.TaskRecord:
    asked = pb.GetTaskRequest(task_id=request.arguments["task"], history_length=0)
    return (await plane.tasks.GetTask(asked)).record


async def _seen(plane: Plane, record: pb.TaskRecord) -> dict[str, _Seen]:
    """Return what the log has of each artifact, by its id; nothing for a document task, whose log has none."""
    seen: dict[str, _Seen] = {}
    if record.origin == pb.ORIGIN_MANAGED and record.task.artifacts:
        async for event in iterate_events(plane, record.id, pb.EVENT_KIND_ARTIFACT):
            update = event.event.artifact_update
            one = seen.setdefault(update.artifact.artifact_id, _Seen(event.created_at, event.created_at))
            one.last = event.created_at
            one.versions += not update.append
    return seen


def _shown(record: pb.TaskRecord, seen: dict[str, _Seen]) -> list[dict[str, Any]]:
    artifacts: list[dict[str, Any]] = []
    for artifact in record.task.artifacts:
        one = seen.get(artifact.artifact_id) or _Seen(record.created_at, record.updated_at, 1)
        times = {"createdAt": to_text(one.first), "updatedAt": to_text(one.last)}
        artifacts.append({**V0_3.artifact(artifact), **times, "versions": one.versions})
    return artifacts
