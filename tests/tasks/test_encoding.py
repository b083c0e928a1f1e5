"""Messages put together from bytes equal those that the classes of the contract make."""

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain import encoding
from taskplane.tasks.domain.messages import STATUS_TEXT_MARK

TIMES = st.one_of(
    st.sampled_from([0, 1, 999_999, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_123_456]),
    st.integers(0, 253_402_300_799_999_999),
)
# The lengths on either side of where a varint takes one byte more.
LENGTHS = [0, 1, 0x7F, 0x80, 0x81, 0x3FFF, 0x4000, 0x4001, 0x1FFFFF, 0x200000, 0x200001]
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
    task = encoding.new_task(task_id, context_id, state, at, message.SerializeToString(), extra)
    assert a2a.Task.FromString(task) == expected
    assert read(encoding.task_payload(task)) == a2a.StreamResponse(task=expected)


@given(messages(), ids, ids, TIMES)
def test_a_message(message: a2a.Message, task_id: str, context_id: str, at: int) -> None:
    """A time that it brings along gives way to the store's."""
    payload = encoding.message_payload(message.SerializeToString(), encoding.ids_of(task_id, context_id), at)
    expected = a2a.StreamResponse(message=of_task(message, task_id, context_id, at))
    assert read(payload) == expected
    assert read(encoding.message_payload(expected.message.SerializeToString(), encoding.ids_of("t", "c"), 0)) == (
        a2a.StreamResponse(message=of_task(message, "t", "c", 0))
    )


@given(artifact_updates(), ids, ids)
def test_an_artifact_update(update: a2a.TaskArtifactUpdateEvent, task_id: str, context_id: str) -> None:
    payload = encoding.artifact_payload(update.SerializeToString(), encoding.ids_of(task_id, context_id))
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
    payload = encoding.status_payload(
        update.SerializeToString(),
        encoding.ids_of(task_id, context_id),
        at,
        has_message=has_message,
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
    assert a2a.TaskStatusUpdateEvent.FromString(encoding.reopening(message.SerializeToString(), state)) == expected


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_at_the_borders_of_a_varint(length: int) -> None:
    """Each length stands before the field that has it, and before all that are around that one."""
    name = "x" * length
    ids_ = encoding.ids_of(name, "c")
    said = a2a.Message(message_id="m", parts=[a2a.Part(text=name)])
    assert read(encoding.message_payload(said.SerializeToString(), ids_, 0)).message == of_task(said, name, "c", 0)
    task = a2a.Task.FromString(encoding.new_task(name, "c", 1, 0, said.SerializeToString(), None))
    assert (task.id, task.history[0].parts[0].text) == (name, name)
    for whole in range(max(length - 12, 0), length + 1):
        content = a2a.Message(message_id="x" * whole).SerializeToString()
        assert read(encoding.field(2, content)).message.message_id == "x" * whole


@given(st.integers(0, (1 << 63) - 1) | st.sampled_from([(1 << n) - k for n in range(7, 63, 7) for k in (0, 1)]))
def test_a_whole_number(value: int) -> None:
    """As the contract writes it, in a field of 64 bits; also where it is 0, which it leaves out."""
    made = a2a.TaskStatus()
    made.timestamp.seconds = value
    inner = made.timestamp.SerializeToString() or bytes([1 << 3, 0])
    assert encoding.number(1, value) == inner


PLACES: list[tuple[str, Descriptor, dict[str, str]]] = [
    ("MESSAGE", a2a.Message.DESCRIPTOR, {"CONTEXT": "context_id", "TASK": "task_id", "ROLE": "role"}),
    ("STATUS", a2a.TaskStatus.DESCRIPTOR, {"STATE": "state", "MESSAGE": "message", "TIMESTAMP": "timestamp"}),
    (
        "UPDATE",
        a2a.TaskStatusUpdateEvent.DESCRIPTOR,
        {"TASK": "task_id", "CONTEXT": "context_id", "STATUS": "status"},
    ),
    ("UPDATE", a2a.TaskArtifactUpdateEvent.DESCRIPTOR, {"TASK": "task_id", "CONTEXT": "context_id"}),
    (
        "TASK",
        a2a.Task.DESCRIPTOR,
        {"ID": "id", "CONTEXT": "context_id", "STATUS": "status", "HISTORY": "history", "METADATA": "metadata"},
    ),
    (
        "OF",
        a2a.StreamResponse.DESCRIPTOR,
        {
            "TASK": "task",
            "MESSAGE": "message",
            "STATUS_UPDATE": "status_update",
            "ARTIFACT_UPDATE": "artifact_update",
        },
    ),
]


@pytest.mark.parametrize(("prefix", "descriptor", "names"), PLACES, ids=[each[1].name for each in PLACES])
def test_the_numbers_of_fields_are_those_of_the_contract(
    prefix: str, descriptor: Descriptor, names: dict[str, str]
) -> None:
    for name, field in names.items():
        assert getattr(encoding, f"_{prefix}_{name}") == descriptor.fields_by_name[field].number
