"""A2A 0.3 as its REST has it: ProtoJSON of the messages of `a2a.v1`, which are those of `taskplane.api.a2a.v0_3`.

Official clients read answers strictly, so nothing is written that these messages do not have. Requests are read in
any spelling that is in use: the names of either JSON or the protobuf, and roles of both.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import NO_CONTENT_0_3
from taskplane.gateway.translate import cards
from taskplane.gateway.translate.dialect import Encoded, Read, Wait
from taskplane.gateway.translate.fields import Fields, is_object
from taskplane.gateway.translate.parts import WRAPPED, Parts, read_0_3
from taskplane.gateway.translate.requests import STATES, Requests
from taskplane.gateway.translate.v0_3 import FINAL, ROLE_NUMBERS
from taskplane.gateway.translate.v1_0 import Dialect
from taskplane.runtime.json_values import to_dict, to_json

_STATES: Final = {**STATES, a2a.TASK_STATE_CANCELED: "TASK_STATE_CANCELLED"}
_FILES: Final = {"fileWithBytes": "bytes", "file_with_bytes": "bytes", "fileWithUri": "uri", "file_with_uri": "uri"}
_KINDS: Final = ("text", "file", "data")
_SEND: Final = {"request": "message"}
_CONTENT: Final = {"content": "parts"}
_PUSH: Final = {"pushNotification": "pushNotificationConfig", "push_notification": "pushNotificationConfig"}


class _Requests(Requests):
    """The requests of 0.3 over REST."""

    roles = ROLE_NUMBERS
    role_rule = "must be ROLE_USER or ROLE_AGENT"
    push_field = "pushNotificationConfig"

    def __init__(self) -> None:
        super().__init__()
        # There is no list of tasks.
        self.readers = {name: reader for name, reader in self.readers.items() if name != "ListTasks"}

    def send(self, source: Fields) -> Read:
        sent = _renamed(source, _SEND)
        if is_object(message := sent.get("message")):
            sent["message"] = _renamed(Fields(message, source.path("message"), source.bad), _CONTENT)
        if is_object(configuration := sent.get("configuration")):
            inner = Fields(configuration, source.path("configuration"), source.bad)
            sent["configuration"] = _renamed(inner, _PUSH)
        found = super().send(Fields(sent, source.at, source.bad))
        request = found.request
        assert isinstance(request, a2a.SendMessageRequest)
        asked = request.configuration
        # 0 cannot be told from a length that is missing.
        if asked.HasField("history_length") and not asked.history_length:
            asked.ClearField("history_length")
        return found

    def get(self, source: Fields) -> Read:
        found = super().get(source)
        request = found.request
        assert isinstance(request, a2a.GetTaskRequest)
        if not request.history_length:
            request.ClearField("history_length")
        return found

    def wait(self, asked: Fields | None, request: a2a.SendMessageRequest) -> Wait:
        # Nor can false be told from a flag that is missing.
        blocking = asked is not None and asked.flag("blocking")
        request.configuration.return_immediately = not blocking
        return Wait.AT_REST if blocking else Wait.GRACE

    def read_part(self, source: Fields, parts: Parts) -> None:
        if (part := _with_kind(source)) is None:
            source.bad.add(source.at, NO_CONTENT_0_3)
            parts.add()
        else:
            read_0_3(Fields(part, source.at, source.bad), parts)


class _Dialect(Dialect):
    """A2A 0.3 over REST."""

    version = "0.3"
    has_tenants = False
    requests = _Requests()

    def part(self, found: a2a.Part) -> Encoded:
        metadata = to_dict(found.metadata) if found.HasField("metadata") else None
        out: Encoded
        if text := found.text:
            out = {"text": text}
        elif (content := found.WhichOneof("content")) == "data":
            value = to_json(found.data)
            if not is_object(value):
                value, metadata = {"value": value}, {**(metadata or {}), WRAPPED: True}
            out = {"data": {"data": value}}
        elif content in ("raw", "url"):
            file = {"fileWithBytes": b64encode(found.raw).decode()} if content == "raw" else {"fileWithUri": found.url}
            if media_type := found.media_type:
                file["mimeType"] = media_type
            if filename := found.filename:
                file["name"] = filename
            out = {"file": file}
        else:
            out = {"text": ""} if content else {}
        if metadata is not None:
            out["metadata"] = metadata
        return out

    def state(self, state: int) -> str | int:
        return _STATES.get(state, state)

    def message(self, found: a2a.Message) -> Encoded:
        out = super().message(found)
        if "parts" in out:
            out["content"] = out.pop("parts")
        out.pop("referenceTaskIds", None)
        return out

    def card(self, found: a2a.AgentCard) -> Encoded:
        # The one answer in the JSON of 0.3: official clients read it so.
        return cards.to_0_3(found)

    def status_update(self, found: a2a.TaskStatusUpdateEvent, cursor: str = "", *, numbered: bool = False) -> Encoded:
        return {**super().status_update(found, cursor, numbered=numbered), "final": found.status.state in FINAL}


def _renamed(source: Fields, names: Mapping[str, str]) -> dict[str, Any]:
    """Return an object with other names for some of its members; a member that has its name already wins, unless it is
    null. Errors call a member by the name that it was sent with."""
    found = dict(source.source)
    for name, other in names.items():
        if name in found:
            value = found.pop(name)
            if found.get(other) is None and value is not None:
                found[other] = value
                source.bad.call(source.path(other), source.path(name))
    return found


def _with_kind(part: Fields) -> dict[str, Any] | None:
    """Return a part in the form of JSON-RPC, which one with a `kind` has already; None if it has no content, or
    several."""
    found = dict(part.source)
    if is_object(file := found.get("file")):
        found["file"] = _renamed(Fields(file, part.path("file"), part.bad), _FILES)
    if "kind" not in found:
        given = [kind for kind in _KINDS if found.get(kind) is not None]
        if len(given) != 1:
            return None
        found["kind"] = given[0]
        # Data in a DataPart, or the object itself.
        if given[0] == "data" and is_object(data := found["data"]) and "data" in data:
            found["data"] = data["data"]
            part.bad.call(part.path("data"), f"{part.path('data')}.data")
    return found


V0_3_REST: Final = _Dialect()
