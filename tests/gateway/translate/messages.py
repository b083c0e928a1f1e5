"""Arbitrary A2A messages, for the tests of both versions."""

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

# These tests prove no speed, and test machines may be slow.
unhurried = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
numbers = (st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)).map(lambda one: one + 0.0)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(texts, values, max_size=3)


@st.composite
def structs(draw: st.DrawFn) -> Struct:
    return json_format.ParseDict(draw(objects), Struct())


@st.composite
def parts(draw: st.DrawFn) -> a2a.Part:
    part = a2a.Part(filename=draw(texts), media_type=draw(texts))
    content = draw(st.sampled_from(["text", "raw", "url", "data", ""]))
    if content == "data":
        json_format.Parse(json.dumps(draw(values)), part.data)
    elif content:
        setattr(part, content, draw(st.binary(max_size=9)) if content == "raw" else draw(texts))
    if draw(st.booleans()):
        part.metadata.CopyFrom(draw(structs()))
    return part


def with_metadata(draw: st.DrawFn, message: Any) -> Any:
    if draw(st.booleans()):
        message.metadata.CopyFrom(draw(structs()))
    return message


@st.composite
def messages(draw: st.DrawFn) -> a2a.Message:
    message = a2a.Message(
        message_id=draw(texts),
        context_id=draw(texts),
        task_id=draw(texts),
        role=draw(st.sampled_from(a2a.Role.values())),
        parts=draw(st.lists(parts(), max_size=3)),
        extensions=draw(st.lists(texts, max_size=2)),
        reference_task_ids=draw(st.lists(texts, max_size=2)),
    )
    found: a2a.Message = with_metadata(draw, message)
    return found


@st.composite
def artifacts(draw: st.DrawFn) -> a2a.Artifact:
    artifact = a2a.Artifact(
        artifact_id=draw(texts),
        name=draw(texts),
        description=draw(texts),
        parts=draw(st.lists(parts(), max_size=3)),
        extensions=draw(st.lists(texts, max_size=2)),
    )
    found: a2a.Artifact = with_metadata(draw, artifact)
    return found


@st.composite
def statuses(draw: st.DrawFn) -> a2a.TaskStatus:
    status = a2a.TaskStatus(state=draw(st.sampled_from(a2a.TaskState.values())))
    if draw(st.booleans()):
        status.message.CopyFrom(draw(messages()))
    if draw(st.booleans()):
        nanos = draw(st.sampled_from([0, 5_000_000, 123_000_000, 123_456_000, 123_456_789, 999_999_999]))
        status.timestamp.CopyFrom(Timestamp(seconds=draw(st.integers(-62135596800, 253402300799)), nanos=nanos))
    return status


@st.composite
def tasks(draw: st.DrawFn) -> a2a.Task:
    task = a2a.Task(
        id=draw(texts),
        context_id=draw(texts),
        artifacts=draw(st.lists(artifacts(), max_size=2)),
        history=draw(st.lists(messages(), max_size=3)),
    )
    if draw(st.booleans()):
        task.status.CopyFrom(draw(statuses()))
    found: a2a.Task = with_metadata(draw, task)
    return found


@st.composite
def status_updates(draw: st.DrawFn) -> a2a.TaskStatusUpdateEvent:
    update = a2a.TaskStatusUpdateEvent(task_id=draw(texts), context_id=draw(texts))
    if draw(st.booleans()):
        update.status.CopyFrom(draw(statuses()))
    found: a2a.TaskStatusUpdateEvent = with_metadata(draw, update)
    return found


@st.composite
def artifact_updates(draw: st.DrawFn) -> a2a.TaskArtifactUpdateEvent:
    update = a2a.TaskArtifactUpdateEvent(
        task_id=draw(texts), context_id=draw(texts), append=draw(st.booleans()), last_chunk=draw(st.booleans())
    )
    if draw(st.booleans()):
        update.artifact.CopyFrom(draw(artifacts()))
    found: a2a.TaskArtifactUpdateEvent = with_metadata(draw, update)
    return found


@st.composite
def responses(draw: st.DrawFn) -> a2a.StreamResponse:
    kind = draw(st.sampled_from(["task", "message", "status_update", "artifact_update"]))
    made: dict[str, st.SearchStrategy[Any]] = {
        "task": tasks(),
        "message": messages(),
        "status_update": status_updates(),
        "artifact_update": artifact_updates(),
    }
    response = a2a.StreamResponse()
    getattr(response, kind).CopyFrom(draw(made[kind]))
    getattr(response, kind).SetInParent()
    return response
