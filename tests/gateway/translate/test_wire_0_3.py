"""The protobuf of A2A 0.3 and that of 1.0: every message there and back, with the losses that docs/http.md lists."""

from collections.abc import Callable
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, conversions, proto_utils
from a2a.types import a2a_pb2 as official
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.translate.instances import instances
from tests.gateway.translate.messages import unhurried

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.dialect import Answer, Wait
from taskplane.gateway.translate.wire_0_3 import names
from taskplane.gateway.translate.wire_0_3.codec import PAIRS, event, read, result, to_0_3, to_1_0

FORMS = pytest.mark.parametrize("form", PAIRS, ids=lambda form: form.__name__)
Losses = dict[type[Message], Callable[[Any], None]]


def lose(message: Any, losses: Losses) -> Any:
    """Applies the losses to a message and everything in it, from the inside to the outside."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name.startswith("google."):
            continue
        for each in value.values() if hasattr(value, "values") else value if hasattr(value, "add") else (value,):
            if isinstance(each, Message):
                lose(each, losses)
    if type(message) in losses:
        losses[type(message)](message)
    return message


# --- 1.0, 0.3 and 1.0 again


def lose_part(part: a2a.Part) -> None:
    """Names and types of what is no file; an empty metadata beside data that was wrapped."""
    content = part.WhichOneof("content")
    if content not in ("raw", "url"):
        part.ClearField("filename")
        part.ClearField("media_type")
    if content == "data" and part.data.WhichOneof("kind") != "struct_value" and not part.metadata.fields:
        part.ClearField("metadata")


def lose_send(request: a2a.SendMessageRequest) -> None:
    request.ClearField("tenant")
    request.configuration.SetInParent()


def lose_configuration(configuration: a2a.SendMessageConfiguration) -> None:
    lose_zero(configuration)
    push = configuration.task_push_notification_config
    if configuration.HasField("task_push_notification_config"):
        push.ClearField("task_id")


def lose_zero(request: Any) -> None:
    """A history length of 0."""
    if not request.history_length:
        request.ClearField("history_length")


def lose_get(request: a2a.GetTaskRequest) -> None:
    lose_zero(request)
    request.ClearField("tenant")


def lose_tenant(request: Any) -> None:
    request.ClearField("tenant")


def lose_cancel(request: a2a.CancelTaskRequest) -> None:
    request.ClearField("tenant")
    request.ClearField("metadata")


def lose_card(card: a2a.AgentCard) -> None:
    """Interfaces of other versions, and the difference between empty and missing."""
    offered = [one for one in card.supported_interfaces if one.protocol_version == "0.3"]
    kept = dict.fromkeys((one.url, one.protocol_binding or "JSONRPC") for one in offered)
    del card.supported_interfaces[:]
    for url, binding in kept:
        card.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="0.3")
    for name in ("documentation_url", "icon_url"):
        if not getattr(card, name):
            card.ClearField(name)


def lose_capabilities(capabilities: a2a.AgentCapabilities) -> None:
    for name in ("streaming", "push_notifications", "extended_agent_card"):
        if not getattr(capabilities, name):
            capabilities.ClearField(name)


TO_0_3: Losses = {
    a2a.Part: lose_part,
    a2a.Message: lambda message: message.ClearField("reference_task_ids"),
    a2a.SendMessageRequest: lose_send,
    a2a.SendMessageConfiguration: lose_configuration,
    a2a.GetTaskRequest: lose_get,
    a2a.CancelTaskRequest: lose_cancel,
    a2a.SubscribeToTaskRequest: lose_tenant,
    a2a.TaskPushNotificationConfig: lose_tenant,
    a2a.GetTaskPushNotificationConfigRequest: lose_tenant,
    a2a.DeleteTaskPushNotificationConfigRequest: lose_tenant,
    a2a.ListTaskPushNotificationConfigsRequest: lose_tenant,
    a2a.GetExtendedAgentCardRequest: lose_tenant,
    a2a.AgentCard: lose_card,
    a2a.AgentCapabilities: lose_capabilities,
    a2a.OAuthFlows: lambda flows: flows.ClearField("device_code"),
    a2a.AuthorizationCodeOAuthFlow: lambda flow: flow.ClearField("pkce_required"),
}


@FORMS
@unhurried
@given(st.data())
def test_a_message_of_1_0_comes_back_without_what_0_3_cannot_say(form: type[Message], data: st.DataObject) -> None:
    found = data.draw(instances(PAIRS[form].new))
    if isinstance(found, a2a.AgentCard):
        for interface in found.supported_interfaces[:2]:
            interface.protocol_version = "0.3"
    again = to_1_0(to_0_3(found, form))
    expected = lose(found, TO_0_3)
    if form is old.PushNotificationConfig:
        expected.ClearField("task_id")
    assert again == expected


# --- 0.3, 1.0 and 0.3 again


def lose_old_part(part: old.Part) -> None:
    """A file without content."""
    if part.WhichOneof("part") == "file" and part.file.WhichOneof("file") is None:
        part.ClearField("file")
    elif part.WhichOneof("part") == "data":
        part.data.data.SetInParent()


def set_final(update: old.TaskStatusUpdateEvent) -> None:
    ends = ("COMPLETED", "FAILED", "CANCELLED", "REJECTED", "INPUT_REQUIRED")
    update.final = old.TaskState.Name(update.status.state).removeprefix("TASK_STATE_") in ends


def lose_schemes(authentication: old.AuthenticationInfo) -> None:
    """All but the first."""
    del authentication.schemes[1:]
    if authentication.schemes and not authentication.schemes[0]:
        del authentication.schemes[:]


def lose_config(config: old.TaskPushNotificationConfig) -> None:
    """Everything in the name but the ids; the one in the config wins."""
    task, in_name = names.config_ids(config.name)
    config.push_notification_config.id = config.push_notification_config.id or in_name
    config.name = names.of_config(task, config.push_notification_config.id)


def lose_creation(request: old.CreateTaskPushNotificationConfigRequest) -> None:
    """The name of the config."""
    task = names.task_id(request.parent)
    request.parent = names.of_task(task)
    request.config_id = request.config_id or request.config.push_notification_config.id
    request.config.push_notification_config.id = request.config_id
    request.config.name = names.of_config(task, request.config_id)


def lose_name(request: Any) -> None:
    request.name = names.of_task(names.task_id(request.name))


def lose_config_name(request: Any) -> None:
    request.name = names.of_config(*names.config_ids(request.name))


def lose_parent(request: Any) -> None:
    request.parent = names.of_task(names.task_id(request.parent))


def order_interfaces(card: old.AgentCard) -> None:
    """Each interface once, the preferred one first."""
    found = [(one.url, one.transport or "JSONRPC") for one in card.additional_interfaces]
    if card.url:
        found.insert(0, (card.url, card.preferred_transport or "JSONRPC"))
    del card.additional_interfaces[:]
    card.url = card.preferred_transport = ""
    for url, transport in dict.fromkeys(found):
        card.additional_interfaces.add(url=url, transport=transport)
    if found:
        card.url, card.preferred_transport = found[0]
    card.protocol_version = "0.3.0"
    if card.supports_authenticated_extended_card:
        card.capabilities.SetInParent()


TO_1_0: Losses = {
    old.Part: lose_old_part,
    old.TaskStatusUpdateEvent: set_final,
    old.SendMessageRequest: lambda request: request.configuration.SetInParent(),
    old.AuthenticationInfo: lose_schemes,
    old.TaskPushNotificationConfig: lose_config,
    old.CreateTaskPushNotificationConfigRequest: lose_creation,
    old.GetTaskRequest: lose_name,
    old.CancelTaskRequest: lose_name,
    old.TaskSubscriptionRequest: lose_name,
    old.GetTaskPushNotificationConfigRequest: lose_config_name,
    old.DeleteTaskPushNotificationConfigRequest: lose_config_name,
    old.ListTaskPushNotificationConfigRequest: lose_parent,
    old.AgentCard: order_interfaces,
}


@FORMS
@unhurried
@given(st.data())
def test_a_message_of_0_3_comes_back_as_it_was_or_as_1_0_has_it(form: type[Message], data: st.DataObject) -> None:
    found = data.draw(instances(form))
    for name in ("name", "parent"):
        if hasattr(found, name) and form is not old.AgentCard and data.draw(st.booleans()):
            setattr(found, name, names.of_config(getattr(found, name), "c"))
    again = to_0_3(to_1_0(found), form)
    losses = dict(TO_1_0)
    if form is old.CreateTaskPushNotificationConfigRequest:
        del losses[old.TaskPushNotificationConfig]
    assert again == lose(found, losses)


# --- examples


@pytest.mark.parametrize("value", [None, True, 1.5, "a", [1, {"a": None}]])
def test_data_that_is_no_object_is_wrapped_and_comes_back(value: Any) -> None:
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
    assert names.config_ids(name) == ids


def test_the_id_of_a_new_config_is_never_taken_from_its_name() -> None:
    """The official client writes `None` there."""
    request = old.CreateTaskPushNotificationConfigRequest(parent="tasks/t")
    request.config.name = "tasks/t/pushNotificationConfigs/None"
    request.config.push_notification_config.url = "https://example.com"
    found = to_1_0(request)
    assert found == a2a.TaskPushNotificationConfig(task_id="t", url="https://example.com")


def test_the_official_library_reads_a_task_in_0_3_as_it_was() -> None:
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
    request = old.SendMessageRequest(configuration=old.SendMessageConfiguration(blocking=blocking))
    assert read(request).wait is (Wait.AT_REST if blocking else Wait.GRACE)
    assert read(old.GetTaskRequest()).wait is None
