"""A client of taskplane that loses nothing when connections break.

`Client` sends, streams and resumes; the classes below are its events and failures. It works with other A2A 1.0 servers
as well, without exact resume where they have no cursors.
"""

from typing import TYPE_CHECKING, Any

from taskplane.client.events import (
    Artifact,
    ArtifactUpdate,
    Event,
    FullTask,
    Message,
    Received,
    StatusUpdate,
    Tool,
    Unknown,
)
from taskplane.client.failures import (
    BadUsage,
    Declined,
    Ended,
    Failure,
    Missing,
    NotConnected,
    NotUnderstood,
    Unauthorized,
    Unreachable,
)
from taskplane.client.messages import rewind_message, user_message
from taskplane.client.states import ACTIVE, AT_REST, PAUSED, TERMINAL, State

if TYPE_CHECKING:
    from taskplane.client.client import Client

__all__ = [
    "ACTIVE",
    "AT_REST",
    "PAUSED",
    "TERMINAL",
    "Artifact",
    "ArtifactUpdate",
    "BadUsage",
    "Client",
    "Declined",
    "Ended",
    "Event",
    "Failure",
    "FullTask",
    "Message",
    "Missing",
    "NotConnected",
    "NotUnderstood",
    "Received",
    "State",
    "StatusUpdate",
    "Tool",
    "Unauthorized",
    "Unknown",
    "Unreachable",
    "rewind_message",
    "user_message",
]


def __getattr__(name: str) -> Any:
    # Its HTTP library takes longer to import than all else together, and a command that sends nothing does without.
    if name == "Client":
        from taskplane.client.client import Client

        return Client
    raise AttributeError(name)
