"""The payloads of events: what was sent, with the fields that the store sets in place of others."""

from typing import Any

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain import payloads
from taskplane.tasks.domain.messages import STATUS_TEXT_MARK

TIMES = st.one_of(
    st.sampled_from([0, 1, 999_999, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_123_456]),
    st.integers(0, 253_402_300_799_999_999),
)
text = st.text(max_size=5)
ids = st.text(min_size=1, max_size=40)
# The last is one that nobody knows yet.
roles = st.sampled_from([0, 1, 2, 9])
states = st.integers(0, 8)


def struct(content: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(content)
    return made


structs = st.dictionaries(text, st.none() | st.booleans() | text | st.lists(text, max_size=2), max_size=2).map(struct)


@st.composite
def parts(draw: st.DrawFn) -> a2a.Part:
    part = a2a.Part(filename=draw(text), media_type=draw(text))
    match draw(st.sampled_from(["text", "raw", "url", "data", "none"])):
        case "text":
            part.text = draw(text)
        case "raw":
            part.raw = draw(st.binary(max_size=5))
        case "url":
            part.url = draw(text)
        case "data":
            part.data.struct_value.CopyFrom(draw(structs))
        case _:
            pass
    if draw(st.booleans()):
        part.metadata.CopyFrom(draw(structs))
    return part


@st.composite
def messages(draw: st.DrawFn) -> a2a.Message:
    """Also such as name another task than theirs: what the store knows takes their place."""
    made = a2a.Message(
        message_id=draw(text),
        context_id=draw(text),
        task_id=draw(text),
        role=draw(roles),  # type: ignore[arg-type]
        parts=draw(st.lists(parts(), max_size=2)),
        extensions=draw(st.lists(text, max_size=2)),
        reference_task_ids=draw(st.lists(text, max_size=2)),
    )
    if draw(st.booleans()):
        made.metadata.CopyFrom(draw(structs))
    return made


@st.composite
def status_updates(draw: st.DrawFn) -> a2a.TaskStatusUpdateEvent:
    made = a2a.TaskStatusUpdateEvent(task_id=draw(text), context_id=draw(text))
    if draw(st.booleans()):
        made.status.state = draw(states)  # type: ignore[assignment]
    if draw(st.booleans()):
        made.status.message.CopyFrom(draw(messages()))
    if draw(st.booleans()):
        made.status.timestamp.FromMicroseconds(draw(TIMES))
    if draw(st.booleans()):
        made.metadata.CopyFrom(draw(structs))
    return made


@st.composite
def artifact_updates(draw: st.DrawFn) -> a2a.TaskArtifactUpdateEvent:
    made = a2a.TaskArtifactUpdateEvent(
        task_id=draw(text), context_id=draw(text), append=draw(st.booleans()), last_chunk=draw(st.booleans())
    )
    if draw(st.booleans()):
        artifact = a2a.Artifact(artifact_id=draw(text), name=draw(text), parts=draw(st.lists(parts(), max_size=2)))
        made.artifact.CopyFrom(artifact)
    if draw(st.booleans()):
        made.metadata.CopyFrom(draw(structs))
    return made


def of_task(message: a2a.Message, task_id: str, context_id: str, at: int | None = None) -> a2a.Message:
    made = a2a.Message()
    made.CopyFrom(message)
    made.task_id, made.context_id = task_id, context_id
    if at is not None:
        stamp = Timestamp()
        stamp.FromMicroseconds(at)
        made.metadata.fields["taskplane.dev/time"].string_value = stamp.ToJsonString()
    return made


def read(payload: bytes) -> a2a.StreamResponse:
    return a2a.StreamResponse.FromString(payload)


@given(messages(), ids, ids, states, TIMES, st.none() | structs)
def test_a_new_task(
    message: a2a.Message, task_id: str, context_id: str, state: int, at: int, metadata: Struct | None
) -> None:
    expected = a2a.Task(id=task_id, context_id=context_id, history=[of_task(message, task_id, context_id, at)])
    expected.status.state = state  # type: ignore[assignment]
    expected.status.timestamp.FromMicroseconds(at)
    if metadata is not None:
        expected.metadata.CopyFrom(metadata)
    extra = metadata.SerializeToString() if metadata is not None else None
    assert payloads.new_task(task_id, context_id, state, at, message.SerializeToString(), extra) == expected


@given(messages(), ids, ids, TIMES)
def test_a_message(message: a2a.Message, task_id: str, context_id: str, at: int) -> None:
    """A time that it brings along gives way to the store's."""
    payload = payloads.message_payload(message.SerializeToString(), task_id, context_id, at)
    expected = a2a.StreamResponse(message=of_task(message, task_id, context_id, at))
    assert read(payload) == expected
    assert read(payloads.message_payload(expected.message.SerializeToString(), "t", "c", 0)) == (
        a2a.StreamResponse(message=of_task(message, "t", "c", 0))
    )


@given(artifact_updates(), ids, ids)
def test_an_artifact_update(update: a2a.TaskArtifactUpdateEvent, task_id: str, context_id: str) -> None:
    payload = payloads.artifact_payload(update.SerializeToString(), task_id, context_id)
    expected = a2a.StreamResponse(artifact_update=update)
    expected.artifact_update.task_id, expected.artifact_update.context_id = task_id, context_id
    assert read(payload) == expected


@given(status_updates(), ids, ids, TIMES, st.none() | roles, st.booleans(), st.booleans())
def test_a_status_update(
    update: a2a.TaskStatusUpdateEvent,
    task_id: str,
    context_id: str,
    at: int,
    role: int | None,
    timed: bool,
    is_text: bool,
) -> None:
    """Its own time, even one of more nanoseconds, gives way to the store's; P4: the mark of a status text is added."""
    has_message = update.status.HasField("message")
    payload = payloads.status_payload(
        update.SerializeToString(),
        task_id,
        context_id,
        at,
        timed=timed,
        role=role,
        metadata=STATUS_TEXT_MARK if is_text else b"",
    )
    expected = a2a.StreamResponse(status_update=update)
    expected.status_update.task_id, expected.status_update.context_id = task_id, context_id
    expected.status_update.status.timestamp.FromMicroseconds(at)
    if has_message:
        said = of_task(update.status.message, task_id, context_id, None if timed else at)
        said.role = said.role if role is None else role  # type: ignore[assignment]
        if is_text:
            said.metadata.fields["kind"].string_value = "status-message"
        expected.status_update.status.message.CopyFrom(said)
    assert read(payload) == expected


@given(messages(), states)
def test_a_message_that_reopens_its_task(message: a2a.Message, state: int) -> None:
    expected = a2a.TaskStatusUpdateEvent()
    expected.status.state = state  # type: ignore[assignment]
    expected.status.message.CopyFrom(message)
    assert a2a.TaskStatusUpdateEvent.FromString(payloads.reopening(message.SerializeToString(), state)) == expected


def test_a_stored_payload_with_fields_that_come_twice_is_read_as_one() -> None:
    """Earlier releases wrote the fields of the store after those of the request."""
    stored = (
        b"\x1at\n\x05other\x1a\x1f\x08\x02\x12\x17\n\x01m \x012\x10\n\x0e\n\x01k\x12\t\x11\x00\x00\x00\x00\x00\x00\xf0?"
        b"\x1a\x02\x10\x07\n\x01t\x12\x01c\x1aD\x128\x12\x01c\x1a\x01t \x022.\n,\n\x12taskplane.dev/time\x12\x16"
        b"\x1a\x142023-11-14T22:13:20Z\x1a\x08\x08\x80\xe2\xcf\xaa\x06\x10\x00"
    )
    update = a2a.TaskStatusUpdateEvent(task_id="other")
    update.status.state = a2a.TASK_STATE_WORKING
    update.status.message.CopyFrom(a2a.Message(message_id="m", role=a2a.ROLE_USER, metadata=struct({"k": 1})))
    update.status.timestamp.FromNanoseconds(7)
    made = payloads.status_payload(update.SerializeToString(), "t", "c", 1_700_000_000_000_000, role=a2a.ROLE_AGENT)
    assert made != stored and read(made) == read(stored)
