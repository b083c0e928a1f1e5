"""Task states, in whatever spelling they arrive."""

from typing import Final, Literal

State = Literal[
    "submitted",
    "working",
    "input-required",
    "auth-required",
    "completed",
    "failed",
    "canceled",
    "rejected",
    "unknown",
]

ACTIVE: Final[frozenset[State]] = frozenset({"submitted", "working"})
PAUSED: Final[frozenset[State]] = frozenset({"input-required", "auth-required"})
TERMINAL: Final[frozenset[State]] = frozenset({"completed", "failed", "canceled", "rejected"})
AT_REST: Final[frozenset[State]] = PAUSED | TERMINAL

_SPELLINGS: Final[dict[str, State]] = {
    "submitted": "submitted",
    "pending": "submitted",
    "working": "working",
    "running": "working",
    "input-required": "input-required",
    "auth-required": "auth-required",
    "completed": "completed",
    "success": "completed",
    "failed": "failed",
    "error": "failed",
    "canceled": "canceled",
    "cancelled": "canceled",
    "rejected": "rejected",
}


def state_of(spelling: object) -> State:
    """The state meant: `TASK_STATE_INPUT_REQUIRED`, `input-required` and `input_required` are one.

    Any case, A2A 1.0 and 0.3 spellings and the words other runtimes use. What nobody knows is `unknown`.
    """
    word = str(spelling).lower().removeprefix("task_state_").replace("_", "-")
    return _SPELLINGS.get(word, "unknown")
