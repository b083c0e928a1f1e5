"""Errors as plain exceptions that every package may raise; `status.py` maps them to gRPC and back.

Every error has a sentence on the problem and its cause, a stable reason in capitals (`google.rpc.ErrorInfo`),
and, where they help, a suggestion, the fields of the request that were wrong, and how long to wait before a retry.
"""

from collections.abc import Mapping
from typing import ClassVar


class PlaneError(Exception):
    """An answer that refuses. `code` is the name of the gRPC status code it becomes."""

    code: ClassVar[str] = "INTERNAL"
    default_reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        suggestion: str = "",
        fields: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        """`fields` maps a request field to its problem; `retry_after` is in seconds."""
        super().__init__(message)
        self.message = message
        self.reason = reason or self.default_reason
        self.suggestion = suggestion
        self.fields = dict(fields or {})
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after


class Invalid(PlaneError):
    """The request itself is wrong; the same request will always be wrong."""

    code = "INVALID_ARGUMENT"
    default_reason = "INVALID_ARGUMENT"


class NotFound(PlaneError):
    """The object does not exist, or belongs to another owner; the two cases have the same answer."""

    code = "NOT_FOUND"
    default_reason = "NOT_FOUND"


class AlreadyExists(PlaneError):
    """The id is taken."""

    code = "ALREADY_EXISTS"
    default_reason = "ALREADY_EXISTS"


class Refused(PlaneError):
    """The state of the thing does not allow it; the reason names the rule."""

    code = "FAILED_PRECONDITION"
    default_reason = "FAILED_PRECONDITION"


class Conflict(PlaneError):
    """Somebody else was faster; read again, then decide again."""

    code = "ABORTED"
    default_reason = "ABORTED"


class OutOfRange(PlaneError):
    """The requested position is not available, or not available any more."""

    code = "OUT_OF_RANGE"
    default_reason = "OUT_OF_RANGE"


class Exhausted(PlaneError):
    """A limit is reached; nothing was changed."""

    code = "RESOURCE_EXHAUSTED"
    default_reason = "RESOURCE_EXHAUSTED"


class Unavailable(PlaneError):
    """A part cannot be reached just now; whether the call took effect may be unknown."""

    code = "UNAVAILABLE"
    default_reason = "UNAVAILABLE"


class DeadlineExceeded(PlaneError):
    """The caller's deadline passed first; whether the call took effect is unknown."""

    code = "DEADLINE_EXCEEDED"
    default_reason = "DEADLINE_EXCEEDED"


class Unauthenticated(PlaneError):
    """The caller is unknown."""

    code = "UNAUTHENTICATED"
    default_reason = "UNAUTHENTICATED"


class PermissionDenied(PlaneError):
    """The caller is known and may not do this at all."""

    code = "PERMISSION_DENIED"
    default_reason = "PERMISSION_DENIED"


class Unimplemented(PlaneError):
    """No such operation here."""

    code = "UNIMPLEMENTED"
    default_reason = "UNIMPLEMENTED"


class DataLoss(PlaneError):
    """Stored data is damaged, and stays so until an operator has mended it."""

    code = "DATA_LOSS"
    default_reason = "DATA_LOSS"


class Internal(PlaneError):
    """A fault of ours. The text shown says so and no more; the log has the rest."""
