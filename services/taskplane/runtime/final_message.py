"""The marks of the final message of a run: the message after which the run ends or pauses its task.

A run commits its final message, has it copied to the session, and then commits the end or pause with the same message.
If its process is lost in between, the marks tell the task store the intended end.
"""

from typing import Final

STATE: Final = "taskplane.dev/ends_as"
"""The key in the metadata of a status update: the name of the state that follows."""
READ: Final = "taskplane.dev/ends_after"
"""The key in the metadata of a status update: the generation of the newest user message that the run has read."""
