"""Tasks, messages and the events of streams, between the protobuf of A2A 1.0 and that of 0.3.

Each function fills an empty message, which is present in its parent even if it stays empty. Lists are copied before
they are read, which is faster than their own iteration.
"""

from collections.abc import Callable
from typing import Any

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.parts import WRAPPED
from taskplane.gateway.translate.v0_3 import FINAL

_Converter = Callable[[Any, Any], None]


def part_to_0_3(found: a2a.Part, into: old.Part) -> None:
    """Fill a Part of 0.3. Data that is not an object is wrapped and marked."""
    if text := found.text:
        into.text = text
        content = "text"
    else:
        content = found.WhichOneof("content") or ""
        if content == "text":
            into.text = ""
        elif content == "data":
            value = found.data
            if value.WhichOneof("kind") == "struct_value":
                into.data.data.CopyFrom(value.struct_value)
            else:
                into.data.data.fields["value"].CopyFrom(value)
                into.metadata.fields[WRAPPED].bool_value = True
        elif content:
            file = into.file
            if content == "raw":
                file.file_with_bytes = found.raw
            else:
                file.file_with_uri = found.url
            file.name = found.filename
            file.mime_type = found.media_type
    if found.HasField("metadata"):
        wrapped = content == "data" and into.HasField("metadata")
        into.metadata.CopyFrom(found.metadata)
        if wrapped:
            into.metadata.fields[WRAPPED].bool_value = True


def part_to_1_0(found: old.Part, into: a2a.Part) -> None:
    """Fill a Part of 1.0. Data that was wrapped is unwrapped."""
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)
    content = found.WhichOneof("part")
    if content == "text":
        into.text = found.text
    elif content == "file":
        file = found.file
        if (by := file.WhichOneof("file")) == "file_with_bytes":
            into.raw = file.file_with_bytes
        elif by:
            into.url = file.file_with_uri
        into.filename = file.name
        into.media_type = file.mime_type
    elif content == "data":
        data, marks = found.data.data, into.metadata.fields
        if WRAPPED in marks and marks[WRAPPED].bool_value and list(data.fields) == ["value"]:
            into.data.CopyFrom(data.fields["value"])
            del marks[WRAPPED]
            if not marks:
                into.ClearField("metadata")
        else:
            into.data.struct_value.CopyFrom(data)


def message_to_0_3(found: a2a.Message, into: old.Message) -> None:
    """Fill a Message of 0.3."""
    into.SetInParent()
    into.message_id = found.message_id
    into.context_id = found.context_id
    into.task_id = found.task_id
    into.role = old.Role.ValueType(found.role)
    for part in found.parts[:]:
        part_to_0_3(part, into.content.add())
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)
    if extensions := found.extensions:
        into.extensions.extend(extensions)


def message_to_1_0(found: old.Message, into: a2a.Message) -> None:
    """Fill a Message of 1.0."""
    into.SetInParent()
    into.message_id = found.message_id
    into.context_id = found.context_id
    into.task_id = found.task_id
    into.role = a2a.Role.ValueType(found.role)
    for part in found.content[:]:
        part_to_1_0(part, into.parts.add())
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)
    if extensions := found.extensions:
        into.extensions.extend(extensions)


def artifact_to_0_3(found: a2a.Artifact, into: old.Artifact) -> None:
    """Fill an Artifact of 0.3."""
    _fill_artifact(found, into, part_to_0_3)


def artifact_to_1_0(found: old.Artifact, into: a2a.Artifact) -> None:
    """Fill an Artifact of 1.0."""
    _fill_artifact(found, into, part_to_1_0)


def status_to_0_3(found: a2a.TaskStatus, into: old.TaskStatus) -> None:
    """Fill a TaskStatus of 0.3."""
    into.SetInParent()
    into.state = old.TaskState.ValueType(found.state)
    if found.HasField("message"):
        message_to_0_3(found.message, into.update)
    if found.HasField("timestamp"):
        into.timestamp.CopyFrom(found.timestamp)


def status_to_1_0(found: old.TaskStatus, into: a2a.TaskStatus) -> None:
    """Fill a TaskStatus of 1.0."""
    into.SetInParent()
    into.state = a2a.TaskState.ValueType(found.state)
    if found.HasField("update"):
        message_to_1_0(found.update, into.message)
    if found.HasField("timestamp"):
        into.timestamp.CopyFrom(found.timestamp)


def task_to_0_3(found: a2a.Task, into: old.Task) -> None:
    """Fill a Task of 0.3."""
    _fill_task(found, into, status_to_0_3, artifact_to_0_3, message_to_0_3)


def task_to_1_0(found: old.Task, into: a2a.Task) -> None:
    """Fill a Task of 1.0."""
    _fill_task(found, into, status_to_1_0, artifact_to_1_0, message_to_1_0)


def status_update_to_0_3(found: a2a.TaskStatusUpdateEvent, into: old.TaskStatusUpdateEvent) -> None:
    """Fill a TaskStatusUpdateEvent of 0.3; its state says whether it is the final one."""
    into.SetInParent()
    into.task_id = found.task_id
    into.context_id = found.context_id
    if found.HasField("status"):
        status_to_0_3(found.status, into.status)
        into.final = found.status.state in FINAL
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)


def status_update_to_1_0(found: old.TaskStatusUpdateEvent, into: a2a.TaskStatusUpdateEvent) -> None:
    """Fill a TaskStatusUpdateEvent of 1.0."""
    into.SetInParent()
    into.task_id = found.task_id
    into.context_id = found.context_id
    if found.HasField("status"):
        status_to_1_0(found.status, into.status)
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)


def artifact_update_to_0_3(found: a2a.TaskArtifactUpdateEvent, into: old.TaskArtifactUpdateEvent) -> None:
    """Fill a TaskArtifactUpdateEvent of 0.3."""
    _fill_artifact_update(found, into, artifact_to_0_3)


def artifact_update_to_1_0(found: old.TaskArtifactUpdateEvent, into: a2a.TaskArtifactUpdateEvent) -> None:
    """Fill a TaskArtifactUpdateEvent of 1.0."""
    _fill_artifact_update(found, into, artifact_to_1_0)


# These messages have equal members in both versions; the converters of what is within them have a direction.


def _fill_artifact(found: a2a.Artifact | old.Artifact, into: Any, part: _Converter) -> None:
    into.SetInParent()
    into.artifact_id = found.artifact_id
    into.name = found.name
    into.description = found.description
    for each in found.parts[:]:
        part(each, into.parts.add())
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)
    if extensions := found.extensions:
        into.extensions.extend(extensions)


def _fill_task(
    found: a2a.Task | old.Task, into: Any, status: _Converter, artifact: _Converter, message: _Converter
) -> None:
    into.SetInParent()
    into.id = found.id
    into.context_id = found.context_id
    if found.HasField("status"):
        status(found.status, into.status)
    for made in found.artifacts[:]:
        artifact(made, into.artifacts.add())
    for said in found.history[:]:
        message(said, into.history.add())
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)


def _fill_artifact_update(
    found: a2a.TaskArtifactUpdateEvent | old.TaskArtifactUpdateEvent, into: Any, artifact: _Converter
) -> None:
    into.SetInParent()
    into.task_id = found.task_id
    into.context_id = found.context_id
    if found.HasField("artifact"):
        artifact(found.artifact, into.artifact)
    into.append = found.append
    into.last_chunk = found.last_chunk
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)
