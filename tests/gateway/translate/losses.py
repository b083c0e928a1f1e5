"""The losses between the versions of A2A, each in words and as a change of a message. docs/conformance.md lists the
words; the tests that convert messages there and back expect these changes and no others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.wire_0_3 import names


class Loss(NamedTuple):
    """A loss of one type of message; one without words is none of content."""

    words: str
    apply: Callable[[Any], object]


Losses = Mapping[type[Message], Loss]


def lose(message: Any, losses: Losses) -> Any:
    """Apply the losses to a message and everything in it, from the inside to the outside."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name.startswith("google."):
            continue
        for each in value.values() if hasattr(value, "values") else value if hasattr(value, "add") else (value,):
            if isinstance(each, Message):
                lose(each, losses)
    if type(message) in losses:
        losses[type(message)].apply(message)
    return message


def _part(part: a2a.Part) -> None:
    content = part.WhichOneof("content")
    if content not in ("raw", "url"):
        part.ClearField("filename")
        part.ClearField("media_type")
    # Metadata that is empty and present.
    if content == "data" and part.data.WhichOneof("kind") != "struct_value" and not part.metadata.fields:
        part.ClearField("metadata")


def _references(message: a2a.Message) -> None:
    message.ClearField("reference_task_ids")


def _send(request: a2a.SendMessageRequest) -> None:
    request.ClearField("tenant")
    request.configuration.SetInParent()


def _configuration(configuration: a2a.SendMessageConfiguration) -> None:
    _zero(configuration)
    if configuration.HasField("task_push_notification_config"):
        configuration.task_push_notification_config.ClearField("task_id")


def _zero(request: Any) -> None:
    if not request.history_length:
        request.ClearField("history_length")


def _get(request: a2a.GetTaskRequest) -> None:
    _zero(request)
    request.ClearField("tenant")


def _tenant(request: Any) -> None:
    request.ClearField("tenant")


def _cancel(request: a2a.CancelTaskRequest) -> None:
    request.ClearField("tenant")
    request.ClearField("metadata")


def _card(card: a2a.AgentCard) -> None:
    offered = [one for one in card.supported_interfaces if one.protocol_version == "0.3"]
    kept = dict.fromkeys((one.url, one.protocol_binding or "JSONRPC") for one in offered)
    del card.supported_interfaces[:]
    for url, binding in kept:
        card.supported_interfaces.add(url=url, protocol_binding=binding, protocol_version="0.3")
    for name in ("documentation_url", "icon_url"):
        if not getattr(card, name):
            card.ClearField(name)


def _capabilities(capabilities: a2a.AgentCapabilities) -> None:
    for name in ("streaming", "push_notifications", "extended_agent_card"):
        if not getattr(capabilities, name):
            capabilities.ClearField(name)


def _flows(flows: a2a.OAuthFlows) -> None:
    flows.ClearField("device_code")


def _code_flow(flow: a2a.AuthorizationCodeOAuthFlow) -> None:
    flow.ClearField("pkce_required")


_PART: Final = "The name and the media type of a part that is text or data."
_TENANT: Final = "The tenant of a request."
_EMPTY: Final = "The difference between false, empty and missing."

TO_0_3: Final[Losses] = {
    a2a.Part: Loss(_PART, _part),
    a2a.Message: Loss("The `referenceTaskIds` of a message.", _references),
    a2a.SendMessageRequest: Loss(_TENANT, _send),
    a2a.SendMessageConfiguration: Loss("A history length of 0, which is the whole history.", _configuration),
    a2a.GetTaskRequest: Loss(_TENANT, _get),
    a2a.CancelTaskRequest: Loss("The metadata of a cancellation.", _cancel),
    a2a.SubscribeToTaskRequest: Loss(_TENANT, _tenant),
    a2a.TaskPushNotificationConfig: Loss(_TENANT, _tenant),
    a2a.GetTaskPushNotificationConfigRequest: Loss(_TENANT, _tenant),
    a2a.DeleteTaskPushNotificationConfigRequest: Loss(_TENANT, _tenant),
    a2a.ListTaskPushNotificationConfigsRequest: Loss(_TENANT, _tenant),
    a2a.GetExtendedAgentCardRequest: Loss(_TENANT, _tenant),
    a2a.AgentCard: Loss("The interfaces of a card in other versions, and the tenants of all.", _card),
    a2a.AgentCapabilities: Loss(_EMPTY, _capabilities),
    a2a.OAuthFlows: Loss("The device flow of OAuth 2.0.", _flows),
    a2a.AuthorizationCodeOAuthFlow: Loss("`pkceRequired`.", _code_flow),
}
"""The losses of the protobuf of 0.3, by the types of 1.0."""


def _in_json(message: Any) -> None:
    """Metadata that is empty and present."""
    if not message.metadata.fields:
        message.ClearField("metadata")


def _part_in_json(part: a2a.Part) -> None:
    if part.WhichOneof("content") is None:
        part.text = ""
    _part(part)
    _in_json(part)


def _message_in_json(message: a2a.Message) -> None:
    if message.role == a2a.ROLE_UNSPECIFIED:
        message.role = a2a.ROLE_AGENT
    _in_json(message)


def _status_in_json(found: Any) -> None:
    found.status.SetInParent()
    _in_json(found)


def _artifact_update_in_json(update: a2a.TaskArtifactUpdateEvent) -> None:
    update.artifact.SetInParent()
    _in_json(update)


TO_0_3_IN_JSON: Final[Losses] = {
    a2a.Part: Loss(f"{_PART} A part without content is an empty text.", _part_in_json),
    a2a.Message: Loss("A role that is not set, which becomes that of the agent.", _message_in_json),
    a2a.Artifact: Loss(_EMPTY, _in_json),
    a2a.Task: Loss(_EMPTY, _status_in_json),
    a2a.TaskStatusUpdateEvent: Loss(_EMPTY, _status_in_json),
    a2a.TaskArtifactUpdateEvent: Loss(_EMPTY, _artifact_update_in_json),
}
"""The losses of the JSON of 0.3, by the types of 1.0."""


def _old_part(part: old.Part) -> None:
    if part.WhichOneof("part") == "file" and part.file.WhichOneof("file") is None:
        part.ClearField("file")
    elif part.WhichOneof("part") == "data":
        part.data.data.SetInParent()


def _final(update: old.TaskStatusUpdateEvent) -> None:
    ends = ("COMPLETED", "FAILED", "CANCELLED", "REJECTED", "INPUT_REQUIRED")
    update.final = old.TaskState.Name(update.status.state).removeprefix("TASK_STATE_") in ends


def _configured(request: old.SendMessageRequest) -> None:
    request.configuration.SetInParent()


def _schemes(authentication: old.AuthenticationInfo) -> None:
    del authentication.schemes[1:]
    if authentication.schemes and not authentication.schemes[0]:
        del authentication.schemes[:]


def _config(config: old.TaskPushNotificationConfig) -> None:
    """Everything in the name but the ids; the one in the config wins."""
    task, in_name = names.config_ids(config.name)
    config.push_notification_config.id = config.push_notification_config.id or in_name
    config.name = names.of_config(task, config.push_notification_config.id)


def _creation(request: old.CreateTaskPushNotificationConfigRequest) -> None:
    """The name of the config."""
    task = names.task_id(request.parent)
    request.parent = names.of_task(task)
    request.config_id = request.config_id or request.config.push_notification_config.id
    request.config.push_notification_config.id = request.config_id
    request.config.name = names.of_config(task, request.config_id)


def _name(request: Any) -> None:
    request.name = names.of_task(names.task_id(request.name))


def _config_name(request: Any) -> None:
    request.name = names.of_config(*names.config_ids(request.name))


def _parent(request: Any) -> None:
    request.parent = names.of_task(names.task_id(request.parent))


def _interfaces(card: old.AgentCard) -> None:
    """Put each interface once, the preferred one first."""
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


_NAMES: Final = "What the name of a task or of a webhook has beside their ids."

TO_1_0: Final[Losses] = {
    old.Part: Loss("A file without content.", _old_part),
    old.TaskStatusUpdateEvent: Loss("`final`, since the state says it.", _final),
    old.SendMessageRequest: Loss("", _configured),
    old.AuthenticationInfo: Loss("Every authentication scheme of a webhook but the first.", _schemes),
    old.TaskPushNotificationConfig: Loss(_NAMES, _config),
    old.CreateTaskPushNotificationConfigRequest: Loss(_NAMES, _creation),
    old.GetTaskRequest: Loss(_NAMES, _name),
    old.CancelTaskRequest: Loss(_NAMES, _name),
    old.TaskSubscriptionRequest: Loss(_NAMES, _name),
    old.GetTaskPushNotificationConfigRequest: Loss(_NAMES, _config_name),
    old.DeleteTaskPushNotificationConfigRequest: Loss(_NAMES, _config_name),
    old.ListTaskPushNotificationConfigRequest: Loss(_NAMES, _parent),
    old.AgentCard: Loss("The number of times that a card lists an interface, and its version.", _interfaces),
}
"""The losses of the protobuf of 1.0, by the types of 0.3."""


LOSSES: Final[Mapping[str, Sequence[str]]] = {
    title: [words for words in dict.fromkeys(loss.words for loss in losses.values()) if words]
    for title, losses in (
        ("From 1.0 to 0.3 over REST and gRPC", TO_0_3),
        ("From 1.0 to 0.3 over JSON-RPC", TO_0_3_IN_JSON),
        ("From 0.3 to 1.0", TO_1_0),
    )
}
"""The losses in words, each once, by the way of the conversion."""
