"""The limits of a task. A change is accepted only if the limits still leave room for the end of the task. No I/O."""

from typing import Final

from taskplane.runtime.errors import Refused
from taskplane.tasks.domain.task import Row

MAX_EVENTS: Final = 50_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum number of bytes of all payloads together, which are at least the bytes of the folded task."""
END_EVENTS: Final = 8
"""Events that are kept free for the end."""
END_BYTES: Final = 1024 * 1024
"""Bytes that are kept free for the end."""


def over_limit(row: Row, events: int, size: int, *, ends: bool = False) -> Refused | None:
    """Return the refusal of `events` more with `size` bytes of payload, if the task has no room for them.

    `ends`: it is the end of the task, which may take the room that is kept for it.
    """
    if row.generation + events > MAX_EVENTS - (0 if ends else END_EVENTS):
        return _refusal(row, f"{MAX_EVENTS:,} events", "TOO_MANY_EVENTS", MAX_EVENTS)
    if row.event_bytes + size > MAX_BYTES - (0 if ends else END_BYTES):
        return _refusal(row, f"{MAX_BYTES // 1024**2} MiB", "TASK_TOO_LARGE", MAX_BYTES)
    return None


def _refusal(row: Row, limit: str, reason: str, number: int) -> Refused:
    return Refused(
        f"task {row.id} has reached the limit of {limit}",
        reason=reason,
        suggestion="continue in a new task: send the message without a task id",
        metadata={"limit": str(number)},
    )
