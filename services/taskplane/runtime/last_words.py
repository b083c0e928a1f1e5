"""The marks of the message after which a run ends or pauses its task. It comes again with that end or pause.

A run commits its last words, has them copied to the session, and then ends. If its process is lost in between, the
marks tell the task store the intended end.
"""

from typing import Final

STATE: Final = "taskplane.dev/ends_as"
"""The key in the metadata of a status update: the name of the state that follows."""
READ: Final = "taskplane.dev/ends_after"
"""The key in the metadata of a status update: the generation of the newest user message that the run has read."""
