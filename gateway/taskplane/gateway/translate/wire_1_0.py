"""A2A 1.0 as protobuf: the messages in which results and events are sent, with their cursors."""

from typing import Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.cards import pure_1_0
from taskplane.gateway.translate.dialect import CardAnswer, Listing, Payload, Result
from taskplane.gateway.translate.metadata import mark

_FIELDS: Final[dict[type[Message], str]] = {
    a2a.Task: "task",
    a2a.Message: "message",
    a2a.TaskStatusUpdateEvent: "status_update",
    a2a.TaskArtifactUpdateEvent: "artifact_update",
}


def event(payload: Payload, cursor: str = "", *, numbered: bool = False) -> a2a.StreamResponse:
    """Return an element of a stream. It carries its cursor itself, since gRPC has nothing beside a message. `numbered`:
    also its generation."""
    response = a2a.StreamResponse()
    _fill(getattr(response, _FIELDS[type(payload)]), payload, cursor, numbered)
    return response


def result(found: Result) -> Message:
    """Return the answer to a unary call."""
    if isinstance(found, CardAnswer):
        return pure_1_0(found.card)
    if isinstance(found, Listing):
        listed = a2a.ListTasksResponse(
            next_page_token=found.next_page_token, page_size=found.page_size, total_size=found.total_size
        )
        for task, cursor in found.tasks:
            _fill(listed.tasks.add(), task, cursor, found.numbered)
        return listed
    payload = found.payload
    if found.bare:
        task = a2a.Task()
        _fill(task, payload, found.cursor, found.numbered)
        return task
    response = a2a.SendMessageResponse()
    _fill(getattr(response, _FIELDS[type(payload)]), payload, found.cursor, found.numbered)
    return response


def _fill(message: Payload, payload: Payload, cursor: str, numbered: bool) -> None:
    """Copy a payload, which others may read at the same time, and mark it."""
    message.CopyFrom(payload)  # type: ignore[arg-type]
    if not isinstance(message, a2a.Message):
        mark(message, cursor, numbered=numbered)


MESSAGES: Final[dict[str, tuple[type[Message], type[Message]]]] = {
    "SendMessage": (a2a.SendMessageRequest, a2a.SendMessageResponse),
    "SendStreamingMessage": (a2a.SendMessageRequest, a2a.StreamResponse),
    "GetTask": (a2a.GetTaskRequest, a2a.Task),
    "ListTasks": (a2a.ListTasksRequest, a2a.ListTasksResponse),
    "CancelTask": (a2a.CancelTaskRequest, a2a.Task),
    "SubscribeToTask": (a2a.SubscribeToTaskRequest, a2a.StreamResponse),
    "CreateTaskPushNotificationConfig": (a2a.TaskPushNotificationConfig, a2a.TaskPushNotificationConfig),
    "GetTaskPushNotificationConfig": (a2a.GetTaskPushNotificationConfigRequest, a2a.TaskPushNotificationConfig),
    "ListTaskPushNotificationConfigs": (
        a2a.ListTaskPushNotificationConfigsRequest,
        a2a.ListTaskPushNotificationConfigsResponse,
    ),
    "GetExtendedAgentCard": (a2a.GetExtendedAgentCardRequest, a2a.AgentCard),
    "DeleteTaskPushNotificationConfig": (a2a.DeleteTaskPushNotificationConfigRequest, Empty),
}
"""The messages of each operation: that of its requests, and that of its results."""
