"""A2A 0.3 as JSON: `kind` discriminators, lower-case states and roles (A2A 0.3.0 section 6)."""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate import cards
from taskplane.gateway.translate.dialect import Encoded, Payload, Wait
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.parts import Parts, read_0_3, to_0_3
from taskplane.gateway.translate.requests import Requests
from taskplane.gateway.translate.v1_0 import Dialect

_UNKNOWN: Final = "unknown"
STATES: Final[dict[int, str]] = {
    a2a.TASK_STATE_UNSPECIFIED: _UNKNOWN,
    **{
        value: name.removeprefix("TASK_STATE_").lower().replace("_", "-")
        for name, value in a2a.TaskState.items()
        if value
    },
}
ROLE_NUMBERS: Final[dict[str, a2a.Role.ValueType]] = {
    "user": a2a.ROLE_USER,
    "agent": a2a.ROLE_AGENT,
    "ROLE_USER": a2a.ROLE_USER,
    "ROLE_AGENT": a2a.ROLE_AGENT,
}
# States in which a status event has `final`: the agent is done or waits for the user.
FINAL: Final = frozenset(
    {
        a2a.TASK_STATE_COMPLETED,
        a2a.TASK_STATE_FAILED,
        a2a.TASK_STATE_CANCELED,
        a2a.TASK_STATE_REJECTED,
        a2a.TASK_STATE_INPUT_REQUIRED,
    }
)


class _Requests(Requests):
    """The requests of 0.3, whose parts have a `kind`, and whose sends say whether they block."""

    roles = ROLE_NUMBERS
    role_rule = "must be user or agent"
    push_field = "pushNotificationConfig"

    def wait(self, asked: Fields | None, request: a2a.SendMessageRequest) -> Wait:
        blocking = None if asked is None else asked.flag("blocking")
        # As over REST and gRPC, which cannot tell false from a flag that is missing: a key means one request on all.
        request.configuration.return_immediately = not blocking
        if blocking is None:
            return Wait.GRACE
        return Wait.AT_REST if blocking else Wait.EXISTS

    def read_part(self, source: Fields, parts: Parts) -> None:
        read_0_3(source, parts)

    def _read_plain(self, source: Any, into: a2a.Message) -> bool:
        # Every part has a `kind`, so no message is plain.
        return False


class _Dialect(Dialect):
    """A2A 0.3: messages with a `kind`, and with members that 1.0 leaves out when they are empty."""

    version = "0.3"
    has_tenants = False
    requests = _Requests()

    def part(self, found: a2a.Part) -> Encoded:
        return to_0_3(found)

    def role(self, role: int) -> str:
        return "user" if role == a2a.ROLE_USER else "agent"

    def state(self, state: int) -> str:
        return STATES.get(state, _UNKNOWN)

    def message(self, found: a2a.Message) -> Encoded:
        return {"kind": "message", "messageId": "", "role": "agent", "parts": [], **super().message(found)}

    def artifact(self, found: a2a.Artifact) -> Encoded:
        return {"artifactId": "", "parts": [], **super().artifact(found)}

    def task(
        self, found: a2a.Task, history_length: int | None = None, cursor: str = "", *, numbered: bool = False
    ) -> Encoded:
        empty = {"kind": "task", "id": "", "contextId": "", "status": {"state": _UNKNOWN}}
        return {**empty, **super().task(found, history_length, cursor, numbered=numbered)}

    def status_update(self, found: a2a.TaskStatusUpdateEvent, cursor: str = "", *, numbered: bool = False) -> Encoded:
        final = found.status.state in FINAL
        empty = {"kind": "status-update", "taskId": "", "contextId": "", "status": {"state": _UNKNOWN}, "final": final}
        return {**empty, **super().status_update(found, cursor, numbered=numbered)}

    def artifact_update(
        self, found: a2a.TaskArtifactUpdateEvent, cursor: str = "", *, numbered: bool = False
    ) -> Encoded:
        artifact: Encoded = {"artifactId": "", "parts": []}
        empty = {"kind": "artifact-update", "taskId": "", "contextId": "", "artifact": artifact}
        return {
            **empty,
            "append": False,
            "lastChunk": False,
            **super().artifact_update(found, cursor, numbered=numbered),
        }

    def card(self, found: a2a.AgentCard) -> Encoded:
        return cards.to_0_3(found)

    def event(self, found: Payload, cursor: str = "", *, numbered: bool = False) -> Encoded:
        # An element is identified by its `kind`, so it is written without the wrapper.
        written: Encoded
        (written,) = super().event(found, cursor, numbered=numbered).values()
        return written


V0_3: Final = _Dialect()
