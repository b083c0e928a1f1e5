"""The errors of operations on sessions, each with its text, reason and suggestion."""

from taskplane.runtime.errors import AlreadyExists, Conflict, Invalid, NotFound, Refused


def session_not_found(context_id: str) -> NotFound:
    """Return the error for a session that does not exist or that has another owner."""
    return NotFound(f"session {context_id} does not exist", reason="SESSION_NOT_FOUND")


def key_reused(entry_id: str) -> Refused:
    """Return the error for an id that another entry has."""
    return Refused(
        "this idempotency key was used with another request, or in another session",
        reason="KEY_REUSED",
        suggestion="repeat the first request unchanged or use a new key",
        metadata={"entry_id": entry_id},
    )


def task_deleted(entry_id: str) -> Refused:
    """Return the error for an entry of a task that was deleted."""
    return Refused(
        "the task of this turn was deleted",
        reason="TASK_DELETED",
        suggestion="send the message with a new idempotency key and without a task id",
        metadata={"entry_id": entry_id},
    )


def version_mismatch(context_id: str, expected: int, version: int) -> Conflict:
    """Return the error for a session that was changed meanwhile; its `version` is in the metadata."""
    return Conflict(
        f"session {context_id} is at version {version}, not {expected}",
        reason="VERSION_MISMATCH",
        suggestion="read the session again, then decide again",
        metadata={"version": str(version)},
    )


def invocation_not_found(invocation_id: str) -> NotFound:
    """Return the error for an invocation that was never seen in the session, or was cut, voided or replaced."""
    return NotFound(
        f"invocation {invocation_id} is not in effect in this session",
        reason="INVOCATION_NOT_FOUND",
        suggestion="read the session again: it may have been rewound already",
        metadata={"invocation_id": invocation_id},
    )


def session_exists(context_id: str) -> AlreadyExists:
    """Return the error for an id that a session has which this request did not make."""
    return AlreadyExists(
        f"session {context_id} exists already", reason="SESSION_EXISTS", suggestion="leave the id empty for a new one"
    )


def nothing_to_undo(context_id: str) -> Refused:
    """Return the error for an undo without a rewind that counts."""
    return Refused(f"session {context_id} has no rewind to undo", reason="NOTHING_TO_UNDO")


def too_late_to_undo(context_id: str) -> Refused:
    """Return the error for an undo after a new turn was begun."""
    return Refused(
        f"a new turn began in session {context_id} after its newest rewind",
        reason="TOO_LATE_TO_UNDO",
        suggestion="rewind before the invocation of that rewind, which undoes it and removes the later turns",
    )


def beyond_head(context_id: str, seq: int) -> Invalid:
    """Return the error for the number of an entry beyond the `seq` entries of the session."""
    return Invalid(
        f"session {context_id} has {seq} entries", reason="BEYOND_HEAD", fields={"seq": f"must be at most {seq}"}
    )
