"""Failures between a client and a server, with texts that a person can act on."""

from collections.abc import Mapping
from typing import Any, Final, cast


class Failure(Exception):
    """A call that failed. `reason` is stable, for programs; the texts are for people."""

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        code: int | None = None,
        suggestion: str = "",
        retry_after: float | None = None,
        rewound: bool = False,
    ) -> None:
        """Create a failure.

        `reason`: a word such as TASK_NOT_FOUND. `code`: the number of the JSON-RPC error, or the HTTP status; None:
        there was no answer. `suggestion`: the next step; may be empty. `retry_after`: seconds; None: the server did not
        say. `rewound`: the rewind that the call asked for was done nevertheless, so the messages that it cut must not
        be shown again.
        """
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.code = code
        self.suggestion = suggestion
        self.retry_after = retry_after
        self.rewound = rewound

    @property
    def retryable(self) -> bool:
        """Return whether the same call may succeed later."""
        return self.retry_after is not None


class Unreachable(Failure):
    """No response: nobody listens, the connection broke, or the server reports that it is unavailable.

    The call may have taken effect. Repeat it under the same key.
    """

    @property
    def retryable(self) -> bool:
        """Return true."""
        return True


class NotConnected(Unreachable):
    """A connection that could not be made, so nothing was sent."""


class NotUnderstood(Failure):
    """An answer that is none of taskplane: another program is at that address, and will be after a retry."""


class BadUsage(Failure):
    """An argument of the user that cannot be used, so nothing was sent."""


class Unauthorized(Failure):
    """A caller whom the server does not know, or does not allow to do this."""


class Missing(Failure):
    """An object that does not exist, or belongs to another owner."""


class Ended(Failure):
    """A task that takes neither messages nor cancels: it is terminal, superseded or deleted."""


class Declined(Failure):
    """A request that the server refuses."""


# The numbers of errors about an ended task. taskplane has more reasons for them; other servers name none.
_ENDED: Final = frozenset({-32002, -32004})
_REASONS_OF_ENDED: Final = frozenset({"", "TERMINAL", "SUPERSEDED", "TASK_DELETED"})


def failure_of_rpc(error: Mapping[str, Any]) -> Failure:
    """Return the failure for a JSON-RPC error object (A2A 1.0, section 5.4; JSON-RPC 2.0, section 5.1)."""
    number = error.get("code")
    details = error.get("data")
    info = _detail(details, "ErrorInfo")
    delay = str(_detail(details, "RetryInfo").get("retryDelay", ""))
    metadata = _mapping(info.get("metadata"))
    # The reason of A2A stands for several reasons of taskplane.
    own_reason = str(metadata.get("reason") or "")
    kind: type[Failure] = Declined
    if number == -32001:
        kind = Missing
    elif number in _ENDED and own_reason in _REASONS_OF_ENDED:
        kind = Ended
    elif delay:
        kind = Unreachable
    return kind(
        str(error.get("message") or "the server gave no reason"),
        reason=own_reason or str(info.get("reason") or f"RPC{number}"),
        code=number if isinstance(number, int) else None,
        suggestion=str(metadata.get("suggestion") or ""),
        retry_after=_seconds(delay),
        rewound=metadata.get("rewound") == "true",
    )


def failure_of_http(status: int, body: object, retry_after: float | None) -> Failure:
    """Return the failure for an HTTP status and its body.

    Bodies may be `{"error": text, "code": reason}`, `{"error": {...}}` of AIP-193 or of JSON-RPC, or
    `{"message": text}`.
    """
    fields = _mapping(body)
    error = fields.get("error")
    inner = _mapping(error)
    info = _detail(inner.get("details") or inner.get("data"), "ErrorInfo")
    message = error if isinstance(error, str) else inner.get("message") or fields.get("message")
    reason = fields.get("code") if isinstance(error, str) else info.get("reason") or inner.get("status")
    kind: type[Failure] = Declined
    if status in (401, 403):
        kind = Unauthorized
    elif status == 404:
        kind = Missing
    elif status in (429, 502, 503, 504):
        kind = Unreachable
    return kind(
        str(message or f"the server answered HTTP {status}"),
        reason=str(reason or f"HTTP{status}"),
        code=status,
        suggestion=str(_mapping(info.get("metadata")).get("suggestion") or fields.get("suggestion") or ""),
        retry_after=retry_after,
    )


def failure_of_event(error: Mapping[str, Any]) -> Failure:
    """Return the failure for an error in the middle of an event stream below `/api`."""
    return failure_of_http(503 if error.get("retryable") else 400, error, error.get("retryAfter"))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _detail(details: object, type_name: str) -> Mapping[str, Any]:
    if not isinstance(details, list):
        return {}
    for detail in cast("list[object]", details):
        fields = _mapping(detail)
        if str(fields.get("@type", "")).endswith(f"google.rpc.{type_name}"):
            return fields
    return {}


def _seconds(duration: str) -> float | None:
    """Parse a google.protobuf.Duration in JSON, such as `1.5s`."""
    try:
        return float(duration.removesuffix("s"))
    except ValueError:
        return None
