"""States in which nothing runs."""

from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

TERMINAL: Final = frozenset(
    {a2a.TASK_STATE_COMPLETED, a2a.TASK_STATE_FAILED, a2a.TASK_STATE_CANCELED, a2a.TASK_STATE_REJECTED}
)
AT_REST: Final = TERMINAL | {a2a.TASK_STATE_INPUT_REQUIRED, a2a.TASK_STATE_AUTH_REQUIRED}
