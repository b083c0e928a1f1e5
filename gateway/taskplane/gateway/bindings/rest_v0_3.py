"""The REST binding of A2A 0.3 (section 3.2.3): its paths below `/v1`, in the form of the official libraries, which is
ProtoJSON.

The text of 0.3 shows the JSON of JSON-RPC instead, so requests may have either. Its errors have no mapping there; this
one is what its clients read.
"""

from collections.abc import Mapping
from typing import Final

from taskplane.gateway.a2a import refusals
from taskplane.gateway.a2a.operations import OPERATIONS, Unary, unread
from taskplane.gateway.bindings.rest import Form, Rest
from taskplane.gateway.errors import error_rest_0_3, rest_status_0_3
from taskplane.gateway.settings import ERROR_MAPS, ErrorMap
from taskplane.gateway.translate.v0_3_rest import V0_3_REST
from taskplane.gateway.web.http import JSON, Request


def _json(_request: Request) -> bytes:
    return JSON


# Its paths are those of 0.3 alone, so a client that names its own version, 1.0, can mean nothing else.
_FORM: Final = Form(V0_3_REST, ("0.3", "1.0"), rest_status_0_3, error_rest_0_3, _json)
FORMS: Final[Mapping[ErrorMap, Form]] = dict.fromkeys(ERROR_MAPS, _FORM)

# 0.3 describes it, but neither its messages nor its clients have it.
_LISTING: Final = Unary("ListTasks", unread, refusals.listing)


def _paths() -> tuple[tuple[str, str, Rest], ...]:
    task, config = (("id", "task"),), (("taskId", "task"), ("id", "config"))
    configs = "/v1/tasks/{task}/pushNotificationConfigs"
    found = (
        ("POST", "/v1/message:send", "SendMessage", ()),
        ("POST", "/v1/message:stream", "SendStreamingMessage", ()),
        # Paths with ":cancel" or ":subscribe" come before /v1/tasks/{task}: that path would match them, too.
        ("POST", "/v1/tasks/{task}:cancel", "CancelTask", task),
        ("GET", "/v1/tasks/{task}:subscribe", "SubscribeToTask", task),
        ("POST", "/v1/tasks/{task}:subscribe", "SubscribeToTask", task),
        ("GET", "/v1/tasks/{task}", "GetTask", task),
        ("POST", configs, "CreateTaskPushNotificationConfig", config[:1]),
        ("GET", configs, "ListTaskPushNotificationConfigs", config[:1]),
        ("GET", f"{configs}/{{config}}", "GetTaskPushNotificationConfig", config),
        ("DELETE", f"{configs}/{{config}}", "DeleteTaskPushNotificationConfig", config),
        ("GET", "/v1/card", "GetExtendedAgentCard", ()),
    )
    return (
        ("GET", "/v1/tasks", Rest(FORMS, _LISTING)),
        *((method, path, Rest(FORMS, OPERATIONS[name], ids)) for method, path, name, ids in found),
    )


PATHS: Final = _paths()
"""The paths below the base of an agent, with their methods and handlers."""
