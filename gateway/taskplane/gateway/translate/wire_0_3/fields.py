"""The JSON paths of the fields of requests in 0.3, for those of 1.0 that checks name."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.message import Message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import NO_CONTENT, NO_CONTENT_0_3, REQUIRED

_NAME: Final = "must be a name such as tasks/{task}"
_Paths = Sequence[tuple[re.Pattern[str], str]]


def _paths(**by_pattern: str) -> _Paths:
    return [(re.compile(pattern), path) for pattern, path in by_pattern.items()]


_TASK: Final = _paths(**{r"id$": "name"})
_CONFIG: Final = _paths(**{r"(taskId|id)$": "name"})
_SEND: Final = _paths(
    **{
        r"message\.parts\b": "message.content",
        r"(.+\.content\[\d+\])\.url$": r"\1.file.fileWithUri",
        r"(.+\.content\[\d+\])\.filename$": r"\1.file.name",
        r"(.+\.content\[\d+\])\.mediaType$": r"\1.file.mimeType",
        r"(.+\.content\[\d+\])\.data$": r"\1.data.data",
        r"configuration\.taskPushNotificationConfig\b": "configuration.pushNotification",
        r"(.+)\.authentication\.scheme$": r"\1.authentication.schemes[0]",
    }
)
_CREATE: Final = _paths(
    **{
        r"taskId$": "parent",
        r"id$": "configId",
        r"(url|token|authentication\.credentials)$": r"config.pushNotificationConfig.\1",
        r"authentication\.scheme$": "config.pushNotificationConfig.authentication.schemes[0]",
    }
)
_BY_REQUEST: Final[Mapping[type[Message], _Paths]] = {
    a2a.SendMessageRequest: _SEND,
    a2a.GetTaskRequest: _TASK,
    a2a.CancelTaskRequest: _TASK,
    a2a.SubscribeToTaskRequest: _TASK,
    a2a.TaskPushNotificationConfig: _CREATE,
    a2a.GetTaskPushNotificationConfigRequest: _CONFIG,
    a2a.DeleteTaskPushNotificationConfigRequest: _CONFIG,
    a2a.ListTaskPushNotificationConfigsRequest: _paths(taskId="parent"),
}


def as_sent(request: Message, fields: Mapping[str, str]) -> dict[str, str]:
    """Return wrong fields of a request of 1.0 as the request of 0.3 has them, and their rules in its terms."""
    paths = _BY_REQUEST.get(type(request), ())
    found: dict[str, str] = {}
    for path, rule in fields.items():
        for pattern, sent in paths:
            # Each begins at the beginning of a path.
            if pattern.match(path):
                path = pattern.sub(sent, path, count=1)
        found[path] = _rule(path, rule)
    return found


def _rule(path: str, rule: str) -> str:
    if path == "name" and rule == REQUIRED:
        return _NAME
    return NO_CONTENT_0_3 if rule == NO_CONTENT else rule
