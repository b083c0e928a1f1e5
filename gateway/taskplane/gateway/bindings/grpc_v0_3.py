"""The gRPC binding of A2A 0.3 (section 3.2.2): its service, a table over the codec of its messages.

A2A 0.3 has no tenants, so every call is to the default agent; and no list of tasks.
"""

from typing import Any, Final

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.gateway.a2a.operations import OPERATIONS, Operation
from taskplane.gateway.bindings.grpc_service import A2AService, Method
from taskplane.gateway.errors import status_grpc_0_3
from taskplane.gateway.translate.dialect import Read
from taskplane.gateway.translate.wire_0_3 import codec, fields

_CONFIG: Final = "TaskPushNotificationConfig"


def _read(_operation: Operation, request: Message) -> Read:
    return codec.read(request)


def _result(_operation: Operation, answer: Any) -> Message:
    return codec.result(answer)


def _method(operation: str, request: type[Message], result: type[Message]) -> Method:
    return Method(OPERATIONS[operation], request, result)


V0_3: Final = A2AService(
    package="a2a.v1",
    version="0.3",
    versions=("0.3", "1.0"),
    methods={
        "SendMessage": _method("SendMessage", old.SendMessageRequest, old.SendMessageResponse),
        "SendStreamingMessage": _method("SendStreamingMessage", old.SendMessageRequest, old.StreamResponse),
        "GetTask": _method("GetTask", old.GetTaskRequest, old.Task),
        "CancelTask": _method("CancelTask", old.CancelTaskRequest, old.Task),
        "TaskSubscription": _method("SubscribeToTask", old.TaskSubscriptionRequest, old.StreamResponse),
        f"Create{_CONFIG}": _method(
            f"Create{_CONFIG}", old.CreateTaskPushNotificationConfigRequest, old.TaskPushNotificationConfig
        ),
        f"Get{_CONFIG}": _method(
            f"Get{_CONFIG}", old.GetTaskPushNotificationConfigRequest, old.TaskPushNotificationConfig
        ),
        # Singular in this version.
        f"List{_CONFIG}": _method(
            f"List{_CONFIG}s",
            old.ListTaskPushNotificationConfigRequest,
            old.ListTaskPushNotificationConfigResponse,
        ),
        "GetAgentCard": _method("GetExtendedAgentCard", old.GetAgentCardRequest, old.AgentCard),
        f"Delete{_CONFIG}": _method(f"Delete{_CONFIG}", old.DeleteTaskPushNotificationConfigRequest, Empty),
    },
    read=_read,
    as_sent=fields.as_sent,
    result=_result,
    event=codec.event,
    status=lambda error, request_id, _error_map: status_grpc_0_3(error, request_id),
)
