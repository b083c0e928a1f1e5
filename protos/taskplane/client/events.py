"""The elements of a stream, and their classification (T1, T7).

A stream carries full tasks, status updates, artifact updates and messages. A2A 1.0 wraps each in one key, 0.3 marks
each with `kind`. `classify` reads both versions into the classes of this module; no other code of a client reads JSON
of one version or the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from taskplane.api.message_metadata import (
    CURSOR,
    INTERRUPTED,
    INVOCATION_KEYS,
    KIND,
    PARTIAL_KEYS,
    RESYNC,
    STATUS_TEXT,
    TOOL_KEYS,
)
from taskplane.client.states import State, state_of

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool call (`called`) or its result. `body` contains the arguments or the response."""

    called: bool
    id: str
    name: str
    body: Any


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `parts` are as they arrived; `text` and `tools` read them in either version."""

    id: str
    role: str
    parts: Sequence[Json]
    task_id: str = ""
    context_id: str = ""
    metadata: Json = field(default_factory=dict[str, Any])

    @property
    def text(self) -> str:
        """Return the text parts, joined."""
        return text_of_parts(self.parts)

    @property
    def partial(self) -> bool:
        """Return whether this is a piece of a text that still grows; the final message of the same id replaces it
        (T5)."""
        return any(self.metadata.get(key) is True for key in PARTIAL_KEYS)

    @property
    def progress(self) -> bool:
        """Return whether this is a status text: one line of progress that is not part of the conversation (P4)."""
        return self.metadata.get(KIND) == STATUS_TEXT

    @property
    def interrupted(self) -> bool:
        """Return whether the text ended with its run before it was complete."""
        return self.metadata.get(INTERRUPTED) is True

    @property
    def invocation_id(self) -> str:
        """Return the id of the turn; empty if the server does not say."""
        return next((found for key in INVOCATION_KEYS if (found := read_text(self.metadata, key))), "")

    @property
    def tools(self) -> list[Tool]:
        """Return the tool calls and results among the parts."""
        return [tool for tool in map(_tool, self.parts) if tool is not None]

    @property
    def data(self) -> list[Any]:
        """Return the data parts that are neither tool calls nor results."""
        return [part["data"] for part in self.parts if "data" in part and _tool(part) is None]


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact, or a piece of one."""

    id: str
    parts: Sequence[Json]
    name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class FullTask:
    """A whole task."""

    id: str
    context_id: str
    state: State
    message: Message | None
    history: Sequence[Message]
    artifacts: Sequence[Artifact]
    metadata: Json
    at: str = ""
    """The time of the change to this state, as ISO-8601."""
    json: Json = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The task as it arrived."""

    @property
    def cursor(self) -> str:
        """Return the cursor of the task's newest event that is in it; empty if the server has no cursors."""
        return read_text(self.metadata, CURSOR)

    @property
    def resync(self) -> str:
        """Return the reason why the server sends the task instead of the requested events; empty if it does not."""
        return str(self.metadata.get(RESYNC) or "")


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """A new status of a task, or a message of the agent in an unchanged state."""

    task_id: str
    context_id: str
    state: State
    message: Message | None
    metadata: Json = field(default_factory=dict[str, Any])
    at: str = ""
    """The time of the update, as ISO-8601."""


@dataclass(frozen=True, slots=True)
class ArtifactUpdate:
    """An artifact, or a further piece of one if `append` is set."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """An element that the protocol does not define."""

    data: object


Event = FullTask | StatusUpdate | ArtifactUpdate | Message | Unknown


@dataclass(frozen=True, slots=True)
class Received:
    """An event of a stream. `data` is its JSON."""

    event: Event
    data: Any
    cursor: str = ""
    """The place after this event, for `resume`; empty if the server has no cursors."""
    resumed_after: str | None = None
    """The cursor after which a stream that broke goes on with this event; empty: with the whole task. None: the stream
    did not break before this event."""

    @property
    def task_id(self) -> str:
        """Return the id of the event's task; empty for a direct answer."""
        match self.event:
            case FullTask():
                return self.event.id
            case StatusUpdate() | ArtifactUpdate() | Message():
                return self.event.task_id
            case Unknown():
                return ""

    @property
    def state(self) -> State | None:
        """Return the state of the task after this event; None if the event does not say."""
        return self.event.state if isinstance(self.event, FullTask | StatusUpdate) else None

    @property
    def text(self) -> str:
        """Return the text that the event adds: of a message of the agent, or of a piece of an artifact."""
        match self.event:
            case ArtifactUpdate():
                return text_of_parts(self.event.artifact.parts)
            case StatusUpdate(message=Message() as said):
                return "" if said.role == "user" or said.progress else said.text
            case Message():
                return self.event.text
            case _:
                return ""


def classify(data: object) -> Event:
    """Return the event for JSON: by wrapper key, then by `kind`, then if it resembles a task, else `Unknown` (T7).

    A JSON-RPC response is unwrapped first. Something resembles a task if it has a non-empty `history` array and a
    string `id` or `contextId`.
    """
    body = read_object(data)
    if body is None:
        return Unknown(data)
    body = read_object(body.get("result")) or body
    for (key, _), read in _READERS.items():
        inner = read_object(body.get(key))
        if inner is not None:
            return read(inner)
    for (_, kind), read in _READERS.items():
        if body.get("kind") == kind:
            return read(body)
    if read_objects(body.get("history")) and any(isinstance(body.get(key), str) for key in ("id", "contextId")):
        return read_task(body)
    return Unknown(data)


def read_task(body: Json) -> FullTask:
    """Return the `FullTask` for a task's JSON of either version; missing members are tolerated."""
    status = read_object(body.get("status")) or {}
    message = read_object(status.get("message"))
    return FullTask(
        id=read_text(body, "id"),
        context_id=read_text(body, "contextId"),
        state=state_of(status.get("state", "unknown")),
        message=read_message(message) if message is not None else None,
        history=[read_message(item) for item in read_objects(body.get("history"))],
        artifacts=[read_artifact(item) for item in read_objects(body.get("artifacts"))],
        metadata=read_object(body.get("metadata")) or {},
        at=read_text(status, "timestamp"),
        json=body,
    )


def read_message(body: Json) -> Message:
    """Return the message for its JSON of either version; in ProtoJSON of 0.3 the parts are called `content`."""
    return Message(
        id=read_text(body, "messageId"),
        role="user" if read_text(body, "role").lower() in ("user", "role_user") else "agent",
        parts=read_objects(body.get("parts")) or read_objects(body.get("content")),
        task_id=read_text(body, "taskId"),
        context_id=read_text(body, "contextId"),
        metadata=read_object(body.get("metadata")) or {},
    )


def read_artifact(body: Json) -> Artifact:
    """Return the artifact for its JSON of either version."""
    return Artifact(
        id=read_text(body, "artifactId"),
        parts=read_objects(body.get("parts")),
        name=read_text(body, "name"),
        description=read_text(body, "description"),
    )


def _read_status(body: Json) -> StatusUpdate:
    status = read_object(body.get("status")) or {}
    message = read_object(status.get("message"))
    return StatusUpdate(
        task_id=read_text(body, "taskId"),
        context_id=read_text(body, "contextId"),
        state=state_of(status.get("state", "unknown")),
        message=read_message(message) if message is not None else None,
        metadata=read_object(body.get("metadata")) or {},
        at=read_text(status, "timestamp"),
    )


def _read_artifact_update(body: Json) -> ArtifactUpdate:
    return ArtifactUpdate(
        task_id=read_text(body, "taskId"),
        context_id=read_text(body, "contextId"),
        artifact=read_artifact(read_object(body.get("artifact")) or {}),
        append=body.get("append") is True,
        last=body.get("lastChunk") is True,
    )


# By the wrapper key of 1.0 and the `kind` of 0.3.
_READERS: Final[dict[tuple[str, str], Callable[[Json], Event]]] = {
    ("task", "task"): read_task,
    ("statusUpdate", "status-update"): _read_status,
    ("artifactUpdate", "artifact-update"): _read_artifact_update,
    ("message", "message"): read_message,
}


def text_of_parts(parts: Sequence[Json]) -> str:
    """Return the text parts, joined."""
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def _tool(part: Json) -> Tool | None:
    metadata = read_object(part.get("metadata")) or {}
    kind = next((metadata[key] for key in TOOL_KEYS if key in metadata), None)
    data = read_object(part.get("data"))
    if kind not in ("function_call", "function_response") or data is None:
        return None
    called = kind == "function_call"
    return Tool(called, read_text(data, "id"), read_text(data, "name"), data.get("args" if called else "response"))


def read_object(value: object) -> Json | None:
    """Return a JSON object; None for any other value."""
    return cast("Json", value) if isinstance(value, Mapping) else None


def read_objects(value: object) -> list[Json]:
    """Return the objects in a JSON list; nothing for any other value."""
    if not isinstance(value, list):
        return []
    return [item for item in map(read_object, cast("list[object]", value)) if item is not None]


def read_text(body: Json, key: str) -> str:
    """Return a string of a JSON object; empty for any other value."""
    value = body.get(key)
    return value if isinstance(value, str) else ""
