"""A client of taskplane that loses nothing when connections break.

`Client` sends, streams and resumes; the classes below are its events and failures. `Client` works with other A2A 1.0
servers, too. If a server has no cursors, the client does not resume exactly.
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
    # Import `Client` on demand: its HTTP library has the longest import time, and commands that send nothing do not
    # need it.
    if name == "Client":
        from taskplane.client.client import Client

        return Client
    raise AttributeError(name)
