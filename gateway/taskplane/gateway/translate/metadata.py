"""The keys under which this server speaks in the metadata of tasks and messages. What clients send under them is not
stored, so that a runtime may save a task as it read it; only which numbers are texts stays."""

from collections.abc import Mapping
from typing import Any, Final

from taskplane.runtime.message_metadata import CONVERTED

_OURS: Final = "taskplane.dev/"
CURSOR: Final = "taskplane.dev/cursor"
"""Key in the metadata of a Task that is shown: the cursor of its newest event, to be sent as `Last-Event-ID`."""
RESYNC: Final = "taskplane.dev/resync"
"""Key in the metadata of a Task that replaces events which are no longer available; its value is the reason."""
STEERED: Final = "taskplane.dev/steered"
"""Key in the metadata of a document under the id of its session: the number of the entry, the newest rewind, undo or
pushed history of the session, after which it was stored; left out if there was none."""
WAITING: Final = "taskplane.dev/waiting"
"""Key in the metadata of a Task that is read while it is queued: why it will not begin, and what to do about it; left
out if it is only a matter of time."""
EXPECTED_VERSION: Final = "taskplane.dev/expected_version"
"""Key in the metadata of a message whose session must have this version."""


def of_client(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a client without what this server adds."""
    return {key: value for key, value in metadata.items() if not key.startswith(_OURS) or _is_kept(key, value)}


def _is_kept(key: str, value: Any) -> bool:
    # Numbers that became texts are texts when they come back.
    return key == EXPECTED_VERSION or (key == CONVERTED and _are_texts(value))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)  # pyright: ignore[reportUnknownVariableType]


def add_metadata(shown: dict[str, Any], key: str, value: Any) -> None:
    """Add a value to the metadata of a task or message in JSON; an empty one is not added."""
    if value:
        shown["metadata"] = {**shown.get("metadata", {}), key: value}
