"""Keys and values in the metadata of messages and status updates that clients and several services read alike."""

from typing import Final

INVOCATION: Final = "kagent_invocation_id"
"""The key of the turn that a message belongs to."""
INVOCATION_KEYS: Final = (INVOCATION, "adk_invocation_id")
PARTIAL: Final = "kagent_adk_partial"
"""The key of a message that is a piece of a growing text; true."""
PARTIAL_KEYS: Final = (PARTIAL, "adk_partial")
TOOL_KEYS: Final = ("kagent_type", "adk_type")
"""The keys of a data part that is a tool call or its result."""
INTERRUPTED: Final = "interrupted"
"""The key of a text that ended with its run before it was complete; true."""
LOST_ATTEMPT: Final = "taskplane.dev/lost_attempt"
"""The key of a message that was said in an attempt which was lost and run again; the number of that attempt. Also that
of the status update which queues the task again."""
KIND: Final = "kind"
STATUS_TEXT: Final = "status-message"
"""The value under `KIND` of a message that is a line of progress."""
CONVERTED: Final = "taskplane.dev/converted"
"""The key of the paths of numbers that became texts, in the metadata of the message, artifact or task with them."""
USAGE: Final = "taskplane.dev/usage"
"""The key of the figures of a run, in the metadata of the status update that ends it."""
