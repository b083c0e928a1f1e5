"""Requests, their answers and push notification configs, between the protobuf of A2A 1.0 and that of 0.3.

0.3 cannot say that a number or a flag is missing: no history length asks for the whole history, and a send that does
not block is answered early.
"""

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import MAX_PARTS, TOO_MANY_PARTS
from taskplane.gateway.translate.wire_0_3 import names, tasks
from taskplane.runtime.validation import invalid


def push_to_0_3(found: a2a.TaskPushNotificationConfig, into: old.PushNotificationConfig) -> None:
    """Fill a PushNotificationConfig of 0.3."""
    into.SetInParent()
    into.id = found.id
    into.url = found.url
    into.token = found.token
    if found.HasField("authentication"):
        into.authentication.credentials = found.authentication.credentials
        into.authentication.SetInParent()
        if scheme := found.authentication.scheme:
            into.authentication.schemes.append(scheme)


def push_to_1_0(found: old.PushNotificationConfig, into: a2a.TaskPushNotificationConfig) -> None:
    """Fill a TaskPushNotificationConfig of 1.0 with the first of the schemes, since it has one only."""
    into.SetInParent()
    into.id = found.id
    into.url = found.url
    into.token = found.token
    if found.HasField("authentication"):
        into.authentication.credentials = found.authentication.credentials
        into.authentication.SetInParent()
        if schemes := found.authentication.schemes:
            into.authentication.scheme = schemes[0]


def config_to_0_3(found: a2a.TaskPushNotificationConfig, into: old.TaskPushNotificationConfig) -> None:
    """Fill a TaskPushNotificationConfig of 0.3, with its name."""
    into.name = names.of_config(found.task_id, found.id)
    push_to_0_3(found, into.push_notification_config)


def config_to_1_0(found: old.TaskPushNotificationConfig, into: a2a.TaskPushNotificationConfig) -> None:
    """Fill a TaskPushNotificationConfig of 1.0. The id in the config wins over that in the name."""
    push_to_1_0(found.push_notification_config, into)
    into.task_id, in_name = names.config_ids(found.name)
    into.id = into.id or in_name


def creation_to_0_3(found: a2a.TaskPushNotificationConfig, into: old.CreateTaskPushNotificationConfigRequest) -> None:
    """Fill a CreateTaskPushNotificationConfigRequest of 0.3."""
    into.parent = names.of_task(found.task_id)
    into.config_id = found.id
    config_to_0_3(found, into.config)


def creation_to_1_0(found: old.CreateTaskPushNotificationConfigRequest, into: a2a.TaskPushNotificationConfig) -> None:
    """Fill a TaskPushNotificationConfig of 1.0. The id is never taken from the name of the config, where official
    clients without an id write `None`."""
    push_to_1_0(found.config.push_notification_config, into)
    into.task_id = names.task_id(found.parent)
    into.id = found.config_id or into.id


def named_config_to_0_3(
    found: a2a.GetTaskPushNotificationConfigRequest | a2a.DeleteTaskPushNotificationConfigRequest,
    into: old.GetTaskPushNotificationConfigRequest | old.DeleteTaskPushNotificationConfigRequest,
) -> None:
    """Fill a request of 0.3 that is the name of a config alone."""
    into.name = names.of_config(found.task_id, found.id)


def named_config_to_1_0(
    found: old.GetTaskPushNotificationConfigRequest | old.DeleteTaskPushNotificationConfigRequest,
    into: a2a.GetTaskPushNotificationConfigRequest | a2a.DeleteTaskPushNotificationConfigRequest,
) -> None:
    """Fill a request of 1.0 about one config; its id may be missing in 0.3."""
    into.task_id, into.id = names.config_ids(found.name)


def list_configs_to_0_3(
    found: a2a.ListTaskPushNotificationConfigsRequest, into: old.ListTaskPushNotificationConfigRequest
) -> None:
    """Fill a ListTaskPushNotificationConfigRequest of 0.3."""
    into.parent = names.of_task(found.task_id)
    into.page_size = found.page_size
    into.page_token = found.page_token


def list_configs_to_1_0(
    found: old.ListTaskPushNotificationConfigRequest, into: a2a.ListTaskPushNotificationConfigsRequest
) -> None:
    """Fill a ListTaskPushNotificationConfigsRequest of 1.0."""
    into.task_id = names.task_id(found.parent)
    into.page_size = found.page_size
    into.page_token = found.page_token


def configs_to_0_3(
    found: a2a.ListTaskPushNotificationConfigsResponse, into: old.ListTaskPushNotificationConfigResponse
) -> None:
    """Fill a ListTaskPushNotificationConfigResponse of 0.3."""
    for config in found.configs:
        config_to_0_3(config, into.configs.add())
    into.next_page_token = found.next_page_token


def configs_to_1_0(
    found: old.ListTaskPushNotificationConfigResponse, into: a2a.ListTaskPushNotificationConfigsResponse
) -> None:
    """Fill a ListTaskPushNotificationConfigsResponse of 1.0."""
    for config in found.configs:
        config_to_1_0(config, into.configs.add())
    into.next_page_token = found.next_page_token


def send_to_0_3(found: a2a.SendMessageRequest, into: old.SendMessageRequest) -> None:
    """Fill a SendMessageRequest of 0.3. One without a configuration blocks in 1.0 alone, so it has one here."""
    if found.HasField("message"):
        tasks.message_to_0_3(found.message, into.request)
    configuration_to_0_3(found.configuration, into.configuration)
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)


def send_to_1_0(found: old.SendMessageRequest, into: a2a.SendMessageRequest) -> None:
    """Fill a SendMessageRequest of 1.0. One without a configuration does not block in 0.3, so it has one here.

    Raise Invalid for more parts than a message may have, before they are read.
    """
    if len(found.request.content) > MAX_PARTS:
        raise invalid({"message.content": TOO_MANY_PARTS})
    if found.HasField("request"):
        tasks.message_to_1_0(found.request, into.message)
    configuration_to_1_0(found.configuration, into.configuration)
    if found.HasField("metadata"):
        into.metadata.CopyFrom(found.metadata)


def configuration_to_0_3(found: a2a.SendMessageConfiguration, into: old.SendMessageConfiguration) -> None:
    """Fill a SendMessageConfiguration of 0.3."""
    into.accepted_output_modes.extend(found.accepted_output_modes)
    if found.HasField("task_push_notification_config"):
        push_to_0_3(found.task_push_notification_config, into.push_notification)
    into.history_length = found.history_length
    into.blocking = not found.return_immediately


def configuration_to_1_0(found: old.SendMessageConfiguration, into: a2a.SendMessageConfiguration) -> None:
    """Fill a SendMessageConfiguration of 1.0."""
    into.SetInParent()
    into.accepted_output_modes.extend(found.accepted_output_modes)
    if found.HasField("push_notification"):
        push_to_1_0(found.push_notification, into.task_push_notification_config)
    if found.history_length:
        into.history_length = found.history_length
    into.return_immediately = not found.blocking


def get_to_0_3(found: a2a.GetTaskRequest, into: old.GetTaskRequest) -> None:
    """Fill a GetTaskRequest of 0.3."""
    into.name = names.of_task(found.id)
    into.history_length = found.history_length


def get_to_1_0(found: old.GetTaskRequest, into: a2a.GetTaskRequest) -> None:
    """Fill a GetTaskRequest of 1.0."""
    into.id = names.task_id(found.name)
    if found.history_length:
        into.history_length = found.history_length


def named_task_to_0_3(
    found: a2a.CancelTaskRequest | a2a.SubscribeToTaskRequest, into: old.CancelTaskRequest | old.TaskSubscriptionRequest
) -> None:
    """Fill a request of 0.3 that is the name of a task alone."""
    into.name = names.of_task(found.id)


def named_task_to_1_0(
    found: old.CancelTaskRequest | old.TaskSubscriptionRequest, into: a2a.CancelTaskRequest | a2a.SubscribeToTaskRequest
) -> None:
    """Fill a request of 1.0 about one task."""
    into.id = names.task_id(found.name)


def card_request(_found: object, _into: object) -> None:
    """Fill a request of the extended card, which says nothing in either version."""
