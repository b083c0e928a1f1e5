"""Failures between a client and a server, with texts that a person can act on."""

from collections.abc import Mapping
from typing import Any, Final, cast


class Failure(Exception):
    """A call that failed. `code` is stable, for programs; the texts are for people."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        suggestion: str = "",
        retry_after: float | None = None,
        rewound: bool = False,
    ) -> None:
        """Create a failure. `retry_after` is in seconds; None: the server did not say. `rewound`: the rewind that the
        call asked for was done nevertheless, so the messages that it cut must not be shown again."""
        super().__init__(message)
        self.message = message
        self.code = code
        self.suggestion = suggestion
        self.retry_after = retry_after
        self.rewound = rewound


class Unreachable(Failure):
    """No response: nobody listens, the connection broke, or the server reports that it is unavailable. Worth a
    retry."""


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
    """A task that is terminal and takes neither messages nor cancels."""


class Declined(Failure):
    """A request that the server, or the model of the conversation, refuses."""


_NO_KEY: Final = "Set your API key:  export TASKPLANE_TOKEN=<id>.<secret>"
_ENDED: Final = frozenset({-32002, -32004})


def failure_of_rpc(error: Mapping[str, Any]) -> Failure:
    """Return the failure for a JSON-RPC error object (A2A 1.0, section 5.4; JSON-RPC 2.0, section 5.1)."""
    number = error.get("code")
    details = error.get("data")
    info = _detail(details, "ErrorInfo")
    delay = str(_detail(details, "RetryInfo").get("retryDelay", ""))
    code = str(info.get("reason") or f"RPC{number}")
    metadata = _mapping(info.get("metadata"))
    suggestion = str(metadata.get("suggestion") or "")
    message = str(error.get("message") or "the server gave no reason")
    kind: type[Failure] = Declined
    if number == -32001:
        kind = Missing
    elif number in _ENDED:
        kind = Ended
    elif delay:
        kind = Unreachable
    rewound = metadata.get("rewound") == "true"
    return kind(message, code=code, suggestion=suggestion, retry_after=_seconds(delay), rewound=rewound)


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
    code = fields.get("code") if isinstance(error, str) else info.get("reason") or inner.get("status")
    kind: type[Failure] = Declined
    suggestion = str(_mapping(info.get("metadata")).get("suggestion") or fields.get("suggestion") or "")
    if status in (401, 403):
        kind = Unauthorized
        # The server names the header, which the command writes by itself.
        suggestion = _NO_KEY if status == 401 else suggestion
    elif status == 404:
        kind = Missing
    elif status in (429, 502, 503, 504):
        kind = Unreachable
    return kind(
        str(message or f"the server answered HTTP {status}"),
        code=str(code or f"HTTP{status}"),
        suggestion=suggestion,
        retry_after=retry_after,
    )


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
