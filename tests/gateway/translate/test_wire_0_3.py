"""The protobuf of A2A 0.3 and that of 1.0: every message there and back, with the losses that are listed."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.translate.instances import instances
from tests.gateway.translate.losses import TO_0_3, TO_1_0, lose
from tests.gateway.translate.messages import unhurried

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.dialect import Answer, Wait
from taskplane.gateway.translate.wire_0_3 import names
from taskplane.gateway.translate.wire_0_3.codec import PAIRS, event, read, result, to_0_3, to_1_0

FORMS = pytest.mark.parametrize("form", PAIRS, ids=lambda form: form.__name__)


@FORMS
@unhurried
@given(st.data())
def test_a_message_of_1_0_comes_back_without_what_0_3_cannot_say(form: type[Message], data: st.DataObject) -> None:
    """a2a B14, J12, K4."""
    found = data.draw(instances(PAIRS[form].new))
    if isinstance(found, a2a.AgentCard):
        for interface in found.supported_interfaces[:2]:
            interface.protocol_version = "0.3"
    again = to_1_0(to_0_3(found, form))
    expected = lose(found, TO_0_3)
    if form is old.PushNotificationConfig:
        expected.ClearField("task_id")
    assert again == expected


@FORMS
@unhurried
@given(st.data())
def test_a_message_of_0_3_comes_back_as_it_was_or_as_1_0_has_it(form: type[Message], data: st.DataObject) -> None:
    """a2a J12, K4."""
    found = data.draw(instances(form))
    for name in ("name", "parent"):
        if hasattr(found, name) and form is not old.AgentCard and data.draw(st.booleans()):
            setattr(found, name, names.of_config(getattr(found, name), "c"))
    again = to_0_3(to_1_0(found), form)
    losses = dict(TO_1_0)
    if form is old.CreateTaskPushNotificationConfigRequest:
        del losses[old.TaskPushNotificationConfig]
    assert again == lose(found, losses)


def test_every_message_of_0_3_is_converted_by_itself_or_within_another() -> None:
    """a2a J9, J12."""
    reached = {form.DESCRIPTOR for form in PAIRS}
    waiting = list(reached)
    while waiting:
        inner = {field.message_type for field in waiting.pop().fields if field.message_type is not None} - reached
        reached |= inner
        waiting.extend(inner)
    everything = set(old.DESCRIPTOR.message_types_by_name.values())
    assert {message.name for message in everything - reached} == set()


# --- examples


@pytest.mark.parametrize("value", [None, True, 1.5, "a", [1, {"a": None}]])
def test_data_that_is_no_object_is_wrapped_and_comes_back(value: Any) -> None:
    """a2a B14."""
    part = a2a.Part()
    part.metadata.update({"mine": 1})
    ParseDict(value, part.data)
    wrapped = to_0_3(part, old.Part)
    assert list(wrapped.data.data.fields) == ["value"]
    assert (wrapped.metadata["data_part_compat"], wrapped.metadata["mine"]) == (True, 1)
    assert to_1_0(wrapped) == part


def test_an_object_that_looks_wrapped_is_unwrapped_only_with_the_mark() -> None:
    part = a2a.Part()
    part.data.struct_value.update({"value": {"a": 1}})
    again = to_1_0(to_0_3(part, old.Part))
    assert again == part
    part.metadata.update({"data_part_compat": True})
    # One of a client that marks an object itself is the value in it.
    assert to_1_0(to_0_3(part, old.Part)).data.struct_value["a"] == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("tasks/t/pushNotificationConfigs/c", ("t", "c")),
        ("tasks/t/pushNotificationConfigs/", ("t", "")),
        ("tasks/t/pushNotificationConfigs", ("t", "")),
        ("tasks/t", ("t", "")),
        ("tasks/a/b/pushNotificationConfigs/c/d", ("a/b", "c/d")),
        ("task/t/pushNotificationConfigs/c", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_name_has_the_ids_of_a_task_and_a_config(name: str, ids: tuple[str, str]) -> None:
    """a2a A9."""
    assert names.config_ids(name) == ids


def test_the_id_of_a_new_config_is_never_taken_from_its_name() -> None:
    """a2a F7: the official client writes `None` there."""
    request = old.CreateTaskPushNotificationConfigRequest(parent="tasks/t")
    request.config.name = "tasks/t/pushNotificationConfigs/None"
    request.config.push_notification_config.url = "https://example.com"
    found = to_1_0(request)
    assert found == a2a.TaskPushNotificationConfig(task_id="t", url="https://example.com")


def test_the_official_library_reads_a_task_in_0_3_as_it_was() -> None:
    """a2a J12."""
    task = a2a.Task(id="t", context_id="c")
    task.status.state = a2a.TASK_STATE_CANCELED
    task.status.timestamp.FromJsonString("2025-01-02T03:04:05.678Z")
    said = task.history.add(message_id="m", context_id="c", task_id="t", role=a2a.ROLE_USER, extensions=["e"])
    said.parts.add(text="hi").metadata.update({"a": 1})
    # It takes the bytes of a file for their base64, which it decodes.
    said.parts.add(raw=b"aGk=", filename="n", media_type="text/csv")
    said.parts.add(url="https://example.com", media_type="text/html")
    said.parts.add().data.list_value.extend([1, "a"])
    made = task.artifacts.add(artifact_id="a", name="n", description="d", extensions=["e"])
    made.parts.add().data.struct_value.update({"a": [True, None]})
    task.metadata.update({"k": {"v": 1.5}})
    read = a2a_v0_3_pb2.Task.FromString(to_0_3(task, old.Task).SerializeToString())
    theirs = conversions.to_core_task(proto_utils.FromProto.task(read))
    assert theirs.history[0].parts[1].raw == b"hi"
    theirs.history[0].parts[1].raw = b"aGk="
    assert theirs == official.Task.FromString(task.SerializeToString())


def test_an_event_and_an_answer_have_the_wrapper_of_their_payload_and_its_cursor() -> None:
    task, message = a2a.Task(id="t", context_id="c"), a2a.Message(message_id="m")
    shown, said = to_0_3(task, old.Task), to_0_3(message, old.Message)
    assert result(Answer(task, bare=True)) == shown
    assert result(Answer(task)) == old.SendMessageResponse(task=shown)
    assert result(Answer(message, "c-1")) == old.SendMessageResponse(msg=said)
    assert (event(task).task, event(message, "c-1").msg) == (shown, said)
    for payload in (a2a.TaskStatusUpdateEvent(), a2a.TaskArtifactUpdateEvent(), task):
        written = event(payload, "c-1")
        assert getattr(written, written.WhichOneof("payload") or "").metadata["taskplane.dev/cursor"] == "c-1"
        assert not payload.HasField("metadata")


@pytest.mark.parametrize("blocking", [True, False])
def test_a_send_that_does_not_block_is_answered_once_its_task_has_begun(blocking: bool) -> None:
    """a2a C3, J11."""
    request = old.SendMessageRequest(configuration=old.SendMessageConfiguration(blocking=blocking))
    assert read(request).wait is (Wait.AT_REST if blocking else Wait.GRACE)
    assert read(old.GetTaskRequest()).wait is None
