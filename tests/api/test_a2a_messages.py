"""Our A2A messages equal those of the protocol field by field, compared with the messages of a2a-sdk."""

from typing import NamedTuple

import a2a.compat.v0_3.a2a_v0_3_pb2 as official_v0_3
import a2a.types.a2a_pb2 as official_v1
import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.json_format import MessageToJson, Parse

from taskplane.api.a2a.v0_3 import a2a_pb2 as ours_v0_3
from taskplane.api.a2a.v1 import a2a_pb2 as ours_v1

PAIRS = [
    pytest.param(ours_v1.DESCRIPTOR, official_v1.DESCRIPTOR, id="1.0"),
    pytest.param(ours_v0_3.DESCRIPTOR, official_v0_3.DESCRIPTOR, id="0.3"),
]


class Shape(NamedTuple):
    """The properties of a field that show on the wire, in ProtoJSON or in the presence rules."""

    number: int
    name: str
    json_name: str
    type: int
    repeated: bool
    packed: bool
    presence: bool
    oneof: str
    refers_to: str


def messages(file: FileDescriptor) -> dict[str, Descriptor]:
    """Every message of the file by its name inside the package, nested ones and map entries included."""
    found: dict[str, Descriptor] = {}

    def visit(message: Descriptor) -> None:
        found[message.full_name.removeprefix(f"{file.package}.")] = message
        for nested in message.nested_types:
            visit(nested)

    for message in file.message_types_by_name.values():
        visit(message)
    return found


def shape(field: FieldDescriptor, package: str) -> Shape:
    """The field, with names of the package's own types made independent of the package."""
    target = field.message_type or field.enum_type
    return Shape(
        number=field.number,
        name=field.name,
        json_name=field.json_name,
        type=field.type,
        repeated=field.is_repeated,
        packed=field.is_packed,
        presence=field.has_presence,
        oneof=field.containing_oneof.name if field.containing_oneof else "",
        refers_to=target.full_name.removeprefix(f"{package}.") if target else "",
    )


def shapes(message: Descriptor) -> set[Shape]:
    return {shape(field, message.file.package) for field in message.fields}


def numbers(enum: EnumDescriptor) -> list[tuple[str, int]]:
    return [(value.name, value.number) for value in enum.values]


@pytest.mark.parametrize(("ours", "official"), PAIRS)
def test_the_same_messages_and_enums_exist(ours: FileDescriptor, official: FileDescriptor) -> None:
    """a2a B8, J2, J4."""
    assert sorted(messages(ours)) == sorted(messages(official))
    assert sorted(ours.enum_types_by_name) == sorted(official.enum_types_by_name)


@pytest.mark.parametrize(("ours", "official"), PAIRS)
def test_every_field_has_the_same_number_type_cardinality_presence_oneof_and_json_name(
    ours: FileDescriptor, official: FileDescriptor
) -> None:
    """a2a B8, J2, J4, J5, J7, J9, J10."""
    theirs = messages(official)
    for name, message in messages(ours).items():
        assert shapes(message) == shapes(theirs[name]), name


@pytest.mark.parametrize(("ours", "official"), PAIRS)
def test_every_enum_value_has_the_same_name_and_number(ours: FileDescriptor, official: FileDescriptor) -> None:
    """a2a J2, J4."""
    for name, enum in ours.enum_types_by_name.items():
        assert numbers(enum) == numbers(official.enum_types_by_name[name]), name


@pytest.mark.parametrize(("ours", "official"), PAIRS)
def test_both_sets_load_in_one_process_because_package_and_path_differ(
    ours: FileDescriptor, official: FileDescriptor
) -> None:
    """a2a J1."""
    assert ours.package != official.package
    assert ours.name != official.name
    assert ours.pool is official.pool


def test_bytes_and_json_of_a_task_are_read_by_the_other_side_and_come_back_unchanged() -> None:
    """a2a J2."""
    task = ours_v1.Task(id="t", context_id="c", status=ours_v1.TaskStatus(state=ours_v1.TASK_STATE_CANCELED))
    task.status.timestamp.FromMilliseconds(1_700_000_000_123)
    task.history.add(message_id="m", role=ours_v1.ROLE_USER, reference_task_ids=["a", "b"]).parts.add(text="hé")
    task.artifacts.add(artifact_id="x").parts.add(raw=b"\x00\xff", filename="f", media_type="image/png")
    task.metadata.update({"n": 1.5, "list": [None, True, {"k": "v"}]})

    theirs = official_v1.Task.FromString(task.SerializeToString(deterministic=True))
    assert ours_v1.Task.FromString(theirs.SerializeToString(deterministic=True)) == task
    assert MessageToJson(theirs, sort_keys=True) == MessageToJson(task, sort_keys=True)
    assert Parse(MessageToJson(theirs), ours_v1.Task()) == task
