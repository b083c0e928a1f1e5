"""The keys of this server in the metadata of tasks and messages. Values that clients send under them are not
stored, so that a runtime may save a task as it read it; only the list of numbers stored as texts is kept."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CONVERTED, CURSOR, GENERATION

Kept = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns metadata without keys of this server."""
OURS: Final = "taskplane.dev/"
"""The prefix of the keys of this server."""
STEERED: Final = "taskplane.dev/steered"
"""Key in the metadata of a document under the id of its session: the number of the entry, the newest rewind, undo or
pushed history of the session, after which it was stored; left out if there was none."""
EXPECTED_VERSION: Final = "taskplane.dev/expected_version"
"""Key in the metadata of a message: the version that its session must have."""
EXPECTED_GENERATION: Final = "taskplane.dev/expected_generation"
"""Key in the metadata of a message to a task: the generation that the task must have."""


Marked = (
    a2a.Task
    | a2a.TaskStatusUpdateEvent
    | a2a.TaskArtifactUpdateEvent
    | old.Task
    | old.TaskStatusUpdateEvent
    | old.TaskArtifactUpdateEvent
)
"""The messages that have a cursor."""


def of_client(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a client without the additions of this server."""
    return {key: value for key, value in metadata.items() if not key.startswith(OURS) or _is_kept(key, value)}


def of_request(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a request without the additions of this server, but with the cursor that it names."""
    found = of_client(metadata)
    return {**found, CURSOR: metadata[CURSOR]} if CURSOR in metadata else found


def _is_kept(key: str, value: Any) -> bool:
    # Numbers that became texts are texts when they come back.
    return key in (EXPECTED_VERSION, EXPECTED_GENERATION) or (key == CONVERTED and _are_texts(value))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)  # pyright: ignore[reportUnknownVariableType]


def marks(cursor: str, *, numbered: bool) -> dict[str, Any]:
    """Return what this server adds to the metadata of a task or an event: its cursor and, if it is `numbered`, its
    generation. One without a cursor, which is in no log, gets nothing."""
    if not cursor:
        return {}
    return {CURSOR: cursor, GENERATION: _generation(cursor)} if numbered else {CURSOR: cursor}


def mark(into: Marked, cursor: str, *, numbered: bool) -> None:
    """Add the `marks` of a task or an event to it."""
    if cursor:
        fields = into.metadata.fields
        fields[CURSOR].string_value = cursor
        if numbered:
            fields[GENERATION].number_value = _generation(cursor)


def _generation(cursor: str) -> int:
    return int(cursor.rpartition("-")[2])
