"""Task states and their spellings."""

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
    """Return the state for a spelling in any case: of A2A 1.0, of 0.3, or of another runtime; else `unknown`.

    `TASK_STATE_INPUT_REQUIRED`, `input-required` and `input_required` are the same state.
    """
    word = str(spelling).lower().removeprefix("task_state_").replace("_", "-")
    return _SPELLINGS.get(word, "unknown")
