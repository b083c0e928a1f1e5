"""The keys under which this server speaks in the metadata of tasks and messages. What clients send under them is not
stored, so that a runtime may save a task as it read it."""

from collections.abc import Mapping
from typing import Any, Final

_OURS: Final = "taskplane.dev/"
CURSOR: Final = "taskplane.dev/cursor"
"""Key in the metadata of a Task that is shown: the cursor of its newest event, to be sent as `Last-Event-ID`."""
RESYNC: Final = "taskplane.dev/resync"
"""Key in the metadata of a Task that replaces events which are no longer available; its value is the reason."""
EXPECTED_VERSION: Final = "taskplane.dev/expected_version"
"""Key in the metadata of a message whose session must have this version."""


def of_client(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a client without what this server adds."""
    return {key: value for key, value in metadata.items() if not key.startswith(_OURS) or key == EXPECTED_VERSION}


def add_metadata(shown: dict[str, Any], key: str, value: Any) -> None:
    """Add a value to the metadata of a task or message in JSON; an empty one is not added."""
    if value:
        shown["metadata"] = {**shown.get("metadata", {}), key: value}
