"""Errors on the wire: the table of A2A errors and the bodies of each binding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.rpc import status_pb2  # type: ignore[import-untyped]

from taskplane.gateway.settings import ErrorMap
from taskplane.runtime import status
from taskplane.runtime.errors import NotFound, PlaneError, Unimplemented

A2A_DOMAIN: Final = "a2a-protocol.org"
OWN_DOMAIN: Final = "taskplane"
_TYPE: Final = "type.googleapis.com/google.rpc."


@dataclass(frozen=True, slots=True)
class A2AError:
    """An error of the protocol (A2A 1.0 section 5.4; JSON-RPC 2.0 section 5.1). `reason` is the reason of its
    ErrorInfo; empty for most errors that JSON-RPC itself defines. That of wrong params is the one by which official
    clients know them.

    `in_1_0_1`: HTTP status and gRPC code in A2A 1.0.1; None: those of the PlaneError. `in_1_0_0`: the same in A2A
    1.0.0; None: as in 1.0.1.
    """

    name: str
    code: int
    reason: str = ""
    in_1_0_1: tuple[int, str] | None = None
    in_1_0_0: tuple[int, str] | None = None

    def mapped(self, error_map: ErrorMap) -> tuple[int, str] | None:
        """Return HTTP status and gRPC code in one version of A2A 1.0."""
        return (self.in_1_0_0 if error_map == "1.0.0" else None) or self.in_1_0_1


_WRONG: Final = (400, "INVALID_ARGUMENT")
_REFUSED: Final = (400, "FAILED_PRECONDITION")
_UNIMPLEMENTED: Final = (400, "UNIMPLEMENTED")

INTERNAL: Final = A2AError("InternalError", -32603)
INVALID_PARAMS: Final = A2AError("InvalidParamsError", -32602, "INVALID_PARAMS", _WRONG)
TASK_NOT_FOUND: Final = A2AError("TaskNotFoundError", -32001, "TASK_NOT_FOUND", (404, "NOT_FOUND"))
# Codes of this server, from the range that JSON-RPC leaves to servers; their last digits are those of the HTTP status.
PERMISSION_DENIED: Final = A2AError("PermissionDeniedError", -32043)
RESOURCE_EXHAUSTED: Final = A2AError("ResourceExhaustedError", -32029)
UNSUPPORTED: Final = A2AError("UnsupportedOperationError", -32004, "UNSUPPORTED_OPERATION", _REFUSED, _UNIMPLEMENTED)
_CONTENT_TYPE: Final = A2AError(
    "ContentTypeNotSupportedError", -32005, "CONTENT_TYPE_NOT_SUPPORTED", _WRONG, (415, "INVALID_ARGUMENT")
)

_NO_METHOD: Final = A2AError("MethodNotFoundError", -32601, in_1_0_1=(404, "UNIMPLEMENTED"))

# By the reason of a PlaneError; other reasons are mapped by its code.
_BY_REASON: Final[dict[str, A2AError]] = {
    "PARSE_ERROR": A2AError("JSONParseError", -32700, in_1_0_1=_WRONG),
    "INVALID_REQUEST": A2AError("InvalidRequestError", -32600, in_1_0_1=_WRONG),
    "METHOD_NOT_FOUND": _NO_METHOD,
    "METHOD_NOT_ALLOWED": _NO_METHOD,
    "NO_SUCH_ROUTE": _NO_METHOD,
    "TASK_NOT_CANCELABLE": A2AError(
        "TaskNotCancelableError", -32002, "TASK_NOT_CANCELABLE", _REFUSED, (409, "FAILED_PRECONDITION")
    ),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": A2AError(
        "PushNotificationNotSupportedError", -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", _REFUSED, _UNIMPLEMENTED
    ),
    "CONTENT_TYPE_NOT_SUPPORTED": _CONTENT_TYPE,
    "CONTENT_ENCODING_NOT_SUPPORTED": _CONTENT_TYPE,
    # The media type of a part, not of a body.
    "MEDIA_TYPE_NOT_SUPPORTED": _CONTENT_TYPE,
    "INVALID_AGENT_RESPONSE": A2AError(
        "InvalidAgentResponseError", -32006, "INVALID_AGENT_RESPONSE", (500, "INTERNAL"), (502, "INTERNAL")
    ),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": A2AError(
        "ExtendedAgentCardNotConfiguredError", -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", _REFUSED
    ),
    "EXTENSION_SUPPORT_REQUIRED": A2AError(
        "ExtensionSupportRequiredError", -32008, "EXTENSION_SUPPORT_REQUIRED", _REFUSED
    ),
    "VERSION_NOT_SUPPORTED": A2AError(
        "VersionNotSupportedError", -32009, "VERSION_NOT_SUPPORTED", _REFUSED, _UNIMPLEMENTED
    ),
    "KEY_REUSED": INVALID_PARAMS,
    "MESSAGE_TOO_LARGE": INVALID_PARAMS,
    # The missing object is a turn, not a task.
    "INVOCATION_NOT_FOUND": INVALID_PARAMS,
}
_BY_CODE: Final[dict[str, A2AError]] = {
    "INVALID_ARGUMENT": INVALID_PARAMS,
    "ALREADY_EXISTS": INVALID_PARAMS,
    "OUT_OF_RANGE": INVALID_PARAMS,
    # A version or generation that does not match, or a conflict with another writer.
    "ABORTED": INVALID_PARAMS,
    "NOT_FOUND": TASK_NOT_FOUND,
    "FAILED_PRECONDITION": UNSUPPORTED,
    "PERMISSION_DENIED": PERMISSION_DENIED,
    "RESOURCE_EXHAUSTED": RESOURCE_EXHAUSTED,
}
# HTTP status of the routes under /api, by reason and then by code (the mapping of google.rpc.Code).
_STATUS_BY_REASON: Final[dict[str, int]] = {
    "NO_CREDENTIALS": 401,
    "BAD_CREDENTIALS": 401,
    "AMBIGUOUS_CREDENTIALS": 401,
    "AMBIGUOUS_USER": 401,
    "METHOD_NOT_ALLOWED": 405,
    "BODY_TIMEOUT": 408,
    "BODY_TOO_SLOW": 408,
    "BODY_TOO_LARGE": 413,
    "REQUEST_TOO_LARGE": 413,
    "MESSAGE_TOO_LARGE": 413,
    "CONTENT_TYPE_NOT_SUPPORTED": 415,
    "CONTENT_ENCODING_NOT_SUPPORTED": 415,
}
_STATUS_BY_CODE: Final[dict[str, int]] = {
    "INVALID_ARGUMENT": 400,
    "OUT_OF_RANGE": 400,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
# HTTP status and name in gRPC of the errors in A2A 0.3, which has no mapping of its own; that of its official library.
_IN_0_3: Final[dict[str, tuple[int, str]]] = {
    "TaskNotFoundError": (404, "NOT_FOUND"),
    "TaskNotCancelableError": (409, "UNIMPLEMENTED"),
    "PushNotificationNotSupportedError": (501, "UNIMPLEMENTED"),
    "UnsupportedOperationError": (501, "UNIMPLEMENTED"),
    "ContentTypeNotSupportedError": (415, "UNIMPLEMENTED"),
    "InvalidAgentResponseError": (502, "INTERNAL"),
    "AuthenticatedExtendedCardNotConfiguredError": (404, "UNKNOWN"),
    "InvalidParamsError": (422, "INVALID_ARGUMENT"),
    "InvalidRequestError": (400, "INVALID_ARGUMENT"),
    "JSONParseError": (400, "INTERNAL"),
    "MethodNotFoundError": (404, "NOT_FOUND"),
}
# Errors with another name in 0.3.
_NAMES_IN_0_3: Final = {"ExtendedAgentCardNotConfiguredError": "AuthenticatedExtendedCardNotConfiguredError"}
# Statuses of HTTP itself: they say more than those of the protocol.
_OF_HTTP: Final = frozenset({401, 403, 405, 408, 409, 413, 429, 503, 504})
# An expected version or generation that has passed never comes back.
_PASSED: Final = frozenset({"VERSION_MISMATCH", "GENERATION_MISMATCH"})
_RETRYABLE: Final = frozenset({"ABORTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"})


class MethodNotAllowed(PlaneError):
    """A path that exists for other methods. `rest`: the version of the REST binding that it belongs to, if any."""

    code = "UNIMPLEMENTED"
    default_reason = "METHOD_NOT_ALLOWED"

    def __init__(self, allowed: Sequence[str], *, rest: str = "") -> None:
        super().__init__(f"this path supports {', '.join(allowed)} only")
        self.allowed = ", ".join(allowed)
        self.rest = rest


class NoSuchRoute(NotFound):
    """A path where nothing is. `rest`: the version of the REST binding whose paths begin like it, if any."""

    default_reason = "NO_SUCH_ROUTE"

    def __init__(self, *, rest: str = "") -> None:
        super().__init__("this path does not exist")
        self.rest = rest


def a2a_error(error: PlaneError) -> A2AError:
    """Return the A2A error for `error`."""
    return _BY_REASON.get(error.reason) or _BY_CODE.get(error.code, INTERNAL)


def http_status(error: PlaneError) -> int:
    """Return the HTTP status for `error` under /api."""
    return _STATUS_BY_REASON.get(error.reason) or _STATUS_BY_CODE.get(error.code, 500)


def error_1_0(error: PlaneError, request_id: str) -> dict[str, Any]:
    """Return the `error` member of a 1.0 JSON-RPC response. `data` is a list of google.rpc details, an ErrorInfo first
    (A2A 1.0 section 9.5); its metadata has the plane's own reason where the protocol has one reason for several."""
    known = a2a_error(error)
    reason, domain, metadata = _error_info(error, request_id)
    info = {"@type": _TYPE + "ErrorInfo", "reason": reason, "domain": domain, "metadata": metadata}
    data: list[dict[str, Any]] = [info]
    if error.fields:
        violations = [{"field": path, "description": what} for path, what in error.fields.items()]
        data.append({"@type": _TYPE + "BadRequest", "fieldViolations": violations})
    if error.retry_after is not None:
        data.append({"@type": _TYPE + "RetryInfo", "retryDelay": f"{error.retry_after:g}s"})
    return {"code": known.code, "message": error.message, "data": data}


def _error_info(error: PlaneError, request_id: str) -> tuple[str, str, dict[str, str]]:
    """Return reason, domain and metadata of the ErrorInfo of an error."""
    known = a2a_error(error)
    metadata = {**error.metadata, "requestId": request_id}
    if error.suggestion:
        metadata["suggestion"] = error.suggestion
    if known.reason not in ("", error.reason):
        metadata["reason"] = error.reason
    return known.reason or error.reason, A2A_DOMAIN if known.reason else OWN_DOMAIN, metadata


def without_agent(error: PlaneError) -> PlaneError:
    """Return the error of a call; that there is no such agent is told as a method that does not exist, since A2A knows
    no other error for it."""
    if error.reason != "AGENT_NOT_FOUND":
        return error
    return Unimplemented(error.message, reason="METHOD_NOT_FOUND", suggestion=error.suggestion)


def rest_status(error: PlaneError, error_map: ErrorMap = "1.0.1") -> tuple[int, str]:
    """Return the HTTP status for `error` in the REST binding of A2A 1.0 (section 5.4), and its name in gRPC."""
    known = a2a_error(error)
    status = http_status(error)
    if known is INVALID_PARAMS:
        return (
            status if status in (408, 409, 413) else 400
        ), "ABORTED" if error.code == "ABORTED" else "INVALID_ARGUMENT"
    # The type of a whole body, and the method of a path, are matters of HTTP.
    if status == 415:
        return 415, "INVALID_ARGUMENT"
    if status == 405:
        return 405, "UNIMPLEMENTED"
    return known.mapped(error_map) or ((500, "INTERNAL") if status == 500 else (status, error.code))


def error_rest(error: PlaneError, request_id: str, error_map: ErrorMap = "1.0.1") -> dict[str, Any]:
    """Return the body of an error in the REST binding of A2A 1.0 (section 11.6, AIP-193); the details are those of
    `error_1_0`."""
    status, name = rest_status(error, error_map)
    shown = error_1_0(error, request_id)
    return {"error": {"code": status, "status": name, "message": shown["message"], "details": shown["data"]}}


def status_grpc(error: PlaneError, request_id: str, error_map: ErrorMap = "1.0.1") -> status_pb2.Status:
    """Return the status of an error in the gRPC binding of A2A 1.0 (section 10.6); the details are those of
    `error_1_0`."""
    _, code = rest_status(error, error_map)
    return status.to_status(error, status.Info(code, *_error_info(error, request_id)))


def error_0_3(error: PlaneError, request_id: str) -> dict[str, Any]:
    """Return the `error` member of a 0.3 JSON-RPC response; its `data` is free-form."""
    return {"code": a2a_error(error).code, "message": error.message, "data": _details(error, request_id)}


def name_0_3(error: PlaneError) -> str:
    """Return the name of the A2A error for `error` in 0.3, whose clients find errors by it over REST and gRPC."""
    name = a2a_error(error).name
    return _NAMES_IN_0_3.get(name, name)


def rest_status_0_3(error: PlaneError) -> tuple[int, str]:
    """Return the HTTP status for `error` in the REST binding of A2A 0.3, and its name in gRPC."""
    status, name = rest_status(error)
    if status in _OF_HTTP:
        return status, name
    return _IN_0_3.get(name_0_3(error), (status, name))


def error_rest_0_3(error: PlaneError, request_id: str) -> dict[str, Any]:
    """Return the body of an error in the REST binding of A2A 0.3: the members that its clients look for, which differ,
    beside the body of 1.0."""
    status, name = rest_status_0_3(error)
    body = error_rest(error, request_id)["error"]
    return {
        "type": name_0_3(error),
        "code": a2a_error(error).code,
        "message": error.message,
        "error": {**body, "code": status, "status": name},
    }


def status_grpc_0_3(error: PlaneError, request_id: str) -> status_pb2.Status:
    """Return the status of an error in the gRPC binding of A2A 0.3. Its message begins with the name of the error, by
    which official clients know it; the details are those of 1.0."""
    _, code = rest_status_0_3(error)
    found = status.to_status(error, status.Info(code, *_error_info(error, request_id)))
    found.message = f"{name_0_3(error)}: {found.message}"
    return found


def error_api(error: PlaneError, request_id: str) -> dict[str, Any]:
    """Return the body of an error under /api."""
    return {"error": error.message, "code": error.reason, **_details(error, request_id)}


def _details(error: PlaneError, request_id: str) -> dict[str, Any]:
    details: dict[str, Any] = {
        "reason": error.reason,
        "retryable": error.code in _RETRYABLE and error.reason not in _PASSED,
        "requestId": request_id,
    }
    if error.suggestion:
        details["suggestion"] = error.suggestion
    if error.fields:
        details["fields"] = error.fields
    if error.metadata:
        details["metadata"] = error.metadata
    if error.retry_after is not None:
        details["retryAfter"] = error.retry_after
    return details
