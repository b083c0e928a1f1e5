"""Artifacts under /api: the list of a task's artifacts with their times and places."""

from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import STATUS_TEXT
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.auth.caller import Caller
from taskplane.gateway.coordination.shown_messages import kind_of
from taskplane.gateway.kagent.envelope import data_reply
from taskplane.gateway.kagent.session_tasks import iterate_events
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.web.http import Reply, Request

# Messages and artifacts: the order of both in the log is that in which a watcher saw them.
_KINDS: Final = (pb.EVENT_KIND_CREATED, pb.EVENT_KIND_MESSAGE, pb.EVENT_KIND_STATUS, pb.EVENT_KIND_ARTIFACT)


@dataclass(slots=True)
class _Seen:
    """The times of the first and the last event of an artifact, the number of its versions, and the id of the message
    before it; empty: none is known."""

    first: Timestamp
    last: Timestamp
    versions: int = 0
    after: str = ""


async def list_all(plane: Plane, request: Request, caller: Caller) -> Reply:
    """Return the artifacts of a task, each with `createdAt`, `updatedAt`, the number of its `versions`, and
    `afterMessageId`, the newest message that had begun when its first piece came. Raise NotFound."""
    record = await _record(plane, request)
    seen = await _seen(plane, record)
    shown = await plane.worker.run(record.ByteSize(), _shown, record, seen)
    return data_reply(shown, "Successfully retrieved artifacts")


async def _record(plane: Plane, request: Request) -> pb.TaskRecord:
    asked = pb.GetTaskRequest(task_id=request.arguments["task"], history_length=0)
    return (await plane.tasks.GetTask(asked)).record


async def _seen(plane: Plane, record: pb.TaskRecord) -> dict[str, _Seen]:
    """Return the versions of each artifact in the log, by its id; empty for a document task, which has none there."""
    seen: dict[str, _Seen] = {}
    if record.origin == pb.ORIGIN_MANAGED and record.task.artifacts:
        message_id = ""
        async for event in iterate_events(plane, record.id, *_KINDS):
            if event.kind != pb.EVENT_KIND_ARTIFACT:
                message_id = _message_id(event.event) or message_id
                continue
            update = event.event.artifact_update
            new = _Seen(event.created_at, event.created_at, after=message_id)
            one = seen.setdefault(update.artifact.artifact_id, new)
            one.last = event.created_at
            one.versions += not update.append
    return seen


def _message_id(event: a2a.StreamResponse) -> str:
    """Return the id of the message that an event adds to the conversation, or lets grow; empty without any."""
    if event.HasField("task"):
        return event.task.history[-1].message_id if event.task.history else ""
    message = event.message if event.HasField("message") else event.status_update.status.message
    return "" if kind_of(message) == STATUS_TEXT else message.message_id


def _shown(record: pb.TaskRecord, seen: dict[str, _Seen]) -> list[dict[str, Any]]:
    artifacts: list[dict[str, Any]] = []
    for artifact in record.task.artifacts:
        one = seen.get(artifact.artifact_id) or _Seen(record.created_at, record.updated_at, 1)
        times = {"createdAt": to_text(one.first), "updatedAt": to_text(one.last)}
        place = {"afterMessageId": one.after} if one.after else {}
        artifacts.append({**V0_3.artifact(artifact), **times, "versions": one.versions, **place})
    return artifacts
