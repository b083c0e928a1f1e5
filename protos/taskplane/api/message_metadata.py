"""Keys and values in the metadata of tasks, messages and status updates, for clients and several services."""

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
REWIND_BEFORE: Final = "kagent_rewind_before_invocation_id"
"""The key of a message that rewinds its session; its value names the first turn that is cut."""
CURSOR: Final = "taskplane.dev/cursor"
"""The key of a task that is shown, or of an event of a stream: the cursor of the event, of a task that of its newest
one, to be sent as `Last-Event-ID` or under this key in the metadata of a request."""
GENERATION: Final = "taskplane.dev/generation"
"""The key of the same that names the number of the event, for clients that ask for it."""
RESYNC: Final = "taskplane.dev/resync"
"""The key of a task that replaces events which are no longer available; its value is the reason."""
WAITING: Final = "taskplane.dev/waiting"
"""The key of a queued task: the reason why it will not begin, and the remedy; left out if it is only a matter of
time."""
