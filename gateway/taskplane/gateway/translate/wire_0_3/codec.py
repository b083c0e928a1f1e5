"""The codec between the protobuf of A2A 0.3 (`a2a.v1` in its specification) and that of 1.0: a table of the messages.

Everything inside is 1.0, so this is for the edge alone. docs/conformance.md lists what a version cannot say.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.dialect import Answer, CardAnswer, Payload, Read, Result, Wait
from taskplane.gateway.translate.metadata import mark
from taskplane.gateway.translate.wire_0_3 import cards, requests, tasks

Old = TypeVar("Old", bound=Message)


class Pair(NamedTuple):
    """The type of 1.0 for one of 0.3, and the functions that fill an empty message of the other version."""

    new: type[Message]
    to_0_3: Callable[[Any, Any], None]
    to_1_0: Callable[[Any, Any], None]


def to_0_3(found: Message, form: type[Old]) -> Old:
    """Return a message of 1.0 in a type of 0.3."""
    into = form()
    PAIRS[form].to_0_3(found, into)
    return into


def to_1_0(found: Message) -> Message:
    """Return a message of 0.3 in its type of 1.0."""
    pair = PAIRS[type(found)]
    into = pair.new()
    pair.to_1_0(found, into)
    return into


def read(request: Message) -> Read:
    """Return a request, and when a send is answered: one that does not block cannot be told from one that says nothing
    about it."""
    wait = None
    if isinstance(request, old.SendMessageRequest):
        wait = Wait.AT_REST if request.configuration.blocking else Wait.GRACE
    return Read(to_1_0(request), wait)


def event(payload: Payload, cursor: str = "", *, numbered: bool = False) -> old.StreamResponse:
    """Return an element of a stream, in its wrapper. It carries its cursor itself and, if it is `numbered`, its
    generation; a message has neither."""
    into = old.StreamResponse()
    if isinstance(payload, a2a.TaskArtifactUpdateEvent):
        tasks.artifact_update_to_0_3(payload, into.artifact_update)
        mark(into.artifact_update, cursor, numbered=numbered)
    elif isinstance(payload, a2a.TaskStatusUpdateEvent):
        tasks.status_update_to_0_3(payload, into.status_update)
        mark(into.status_update, cursor, numbered=numbered)
    else:
        _answer_to_0_3(Answer(payload, cursor, numbered=numbered), into)
    return into


def result(found: Result) -> Message:
    """Return the answer to a send, in its wrapper, or the task or the card that a call is about."""
    if isinstance(found, CardAnswer):
        return to_0_3(found.card, old.AgentCard)
    assert isinstance(found, Answer)
    payload = found.payload
    if found.bare and isinstance(payload, a2a.Task):
        task = to_0_3(payload, old.Task)
        mark(task, found.cursor, numbered=found.numbered)
        return task
    into = old.SendMessageResponse()
    _answer_to_0_3(found, into)
    return into


def _answer_to_0_3(found: Answer, into: old.SendMessageResponse | old.StreamResponse) -> None:
    payload = found.payload
    if isinstance(payload, a2a.Task):
        tasks.task_to_0_3(payload, into.task)
        mark(into.task, found.cursor, numbered=found.numbered)
    else:
        tasks.message_to_0_3(payload, into.msg)


def _answer_of(found: a2a.SendMessageResponse, into: old.SendMessageResponse) -> None:
    if which := found.WhichOneof("payload"):
        _answer_to_0_3(Answer(getattr(found, which)), into)


def _event_of(found: a2a.StreamResponse, into: old.StreamResponse) -> None:
    if which := found.WhichOneof("payload"):
        into.CopyFrom(event(getattr(found, which)))


def _wrapped_to_1_0(found: old.StreamResponse | old.SendMessageResponse, into: Any) -> None:
    if which := found.WhichOneof("payload"):
        inner = getattr(into, "message" if which == "msg" else which)
        PAIRS[type(getattr(found, which))].to_1_0(getattr(found, which), inner)


PAIRS: Final[Mapping[type[Message], Pair]] = {
    old.Part: Pair(a2a.Part, tasks.part_to_0_3, tasks.part_to_1_0),
    old.Message: Pair(a2a.Message, tasks.message_to_0_3, tasks.message_to_1_0),
    old.Artifact: Pair(a2a.Artifact, tasks.artifact_to_0_3, tasks.artifact_to_1_0),
    old.TaskStatus: Pair(a2a.TaskStatus, tasks.status_to_0_3, tasks.status_to_1_0),
    old.Task: Pair(a2a.Task, tasks.task_to_0_3, tasks.task_to_1_0),
    old.TaskStatusUpdateEvent: Pair(a2a.TaskStatusUpdateEvent, tasks.status_update_to_0_3, tasks.status_update_to_1_0),
    old.TaskArtifactUpdateEvent: Pair(
        a2a.TaskArtifactUpdateEvent, tasks.artifact_update_to_0_3, tasks.artifact_update_to_1_0
    ),
    old.SendMessageRequest: Pair(a2a.SendMessageRequest, requests.send_to_0_3, requests.send_to_1_0),
    old.SendMessageConfiguration: Pair(
        a2a.SendMessageConfiguration, requests.configuration_to_0_3, requests.configuration_to_1_0
    ),
    old.SendMessageResponse: Pair(a2a.SendMessageResponse, _answer_of, _wrapped_to_1_0),
    old.StreamResponse: Pair(a2a.StreamResponse, _event_of, _wrapped_to_1_0),
    old.GetTaskRequest: Pair(a2a.GetTaskRequest, requests.get_to_0_3, requests.get_to_1_0),
    old.CancelTaskRequest: Pair(a2a.CancelTaskRequest, requests.named_task_to_0_3, requests.named_task_to_1_0),
    old.TaskSubscriptionRequest: Pair(
        a2a.SubscribeToTaskRequest, requests.named_task_to_0_3, requests.named_task_to_1_0
    ),
    old.PushNotificationConfig: Pair(a2a.TaskPushNotificationConfig, requests.push_to_0_3, requests.push_to_1_0),
    old.TaskPushNotificationConfig: Pair(
        a2a.TaskPushNotificationConfig, requests.config_to_0_3, requests.config_to_1_0
    ),
    old.CreateTaskPushNotificationConfigRequest: Pair(
        a2a.TaskPushNotificationConfig, requests.creation_to_0_3, requests.creation_to_1_0
    ),
    old.GetTaskPushNotificationConfigRequest: Pair(
        a2a.GetTaskPushNotificationConfigRequest, requests.named_config_to_0_3, requests.named_config_to_1_0
    ),
    old.DeleteTaskPushNotificationConfigRequest: Pair(
        a2a.DeleteTaskPushNotificationConfigRequest, requests.named_config_to_0_3, requests.named_config_to_1_0
    ),
    old.ListTaskPushNotificationConfigRequest: Pair(
        a2a.ListTaskPushNotificationConfigsRequest, requests.list_configs_to_0_3, requests.list_configs_to_1_0
    ),
    old.ListTaskPushNotificationConfigResponse: Pair(
        a2a.ListTaskPushNotificationConfigsResponse, requests.configs_to_0_3, requests.configs_to_1_0
    ),
    old.GetAgentCardRequest: Pair(a2a.GetExtendedAgentCardRequest, requests.card_request, requests.card_request),
    old.AgentCard: Pair(a2a.AgentCard, cards.card_to_0_3, cards.card_to_1_0),
}
"""The messages of the operations, by their types in 0.3."""
