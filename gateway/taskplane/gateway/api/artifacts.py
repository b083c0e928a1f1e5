"""Artifacts under /api: the list of a task's artifacts with their times."""

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

# Times of the first and the last event, by artifact id.
_Times = dict[str, tuple[Timestamp, Timestamp]]


async def list_all(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the artifacts of a task, each with `createdAt` and `updatedAt`. Raise NotFound."""
    record = await _record(plane, request)
    times = await _times(plane, record)
    shown = await plane.worker.run(record.ByteSize(), _shown, record, times)
    return data_reply(shown, "Successfully retrieved artifacts")


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
