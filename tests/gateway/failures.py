"""The errors of A2A, read alike from the bodies and statuses of each binding."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status
from tests.gateway.plane import Json

_CODES: Final = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "VERSION_NOT_SUPPORTED": -32009,
}
_CODES_OF_GRPC: Final = {
    grpc.StatusCode.INVALID_ARGUMENT.value[0]: -32602,
    grpc.StatusCode.ABORTED.value[0]: -32602,
    grpc.StatusCode.UNIMPLEMENTED.value[0]: -32601,
    grpc.StatusCode.INTERNAL.value[0]: -32603,
}
_CODES_OF_STATUS: Final = {400: -32602, 404: -32601, 409: -32602, 413: -32602, 500: -32603, 503: -32603}


@dataclass(frozen=True)
class Failure:
    """An error. `code` is that of A2A (1.0 section 5.4) in JSON-RPC; `reason` is specific to this server."""

    code: int
    reason: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    suggestion: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])


def failure(code: int, details: list[Json]) -> Failure:
    """Return an error from its details in 1.0, which are messages of google.rpc."""
    info, *more = details
    metadata: Json = info["metadata"]
    violations = [each for one in more for each in one.get("fieldViolations", ())]
    return Failure(
        code,
        str(metadata.get("reason") or info["reason"]),
        {name: value for name, value in metadata.items() if name not in ("reason", "requestId", "suggestion")},
        metadata.get("suggestion", ""),
        {each["field"]: each["description"] for each in violations},
    )


def status_of(error: Any) -> Any:
    """Return the `google.rpc.Status` of a failed call; None without one."""
    library: Any = rpc_status
    return library.from_call(error)


def failed(error: grpc.aio.AioRpcError) -> Failure:
    """Return the error of a call."""
    found = status_of(error)
    assert found is not None, error
    assert (found.code, found.message) == (error.code().value[0], error.details())
    return failure_of(found)


def failure_of(status: Any) -> Failure:
    """Return the error of a status."""
    info, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in status.details:
        if not detail.Unpack(info):
            detail.Unpack(wrong)
    code = _CODES.get(info.reason) or _CODES_OF_GRPC.get(status.code, 0)
    details: list[Json] = [
        {"reason": info.reason, "metadata": dict(info.metadata)},
        {"fieldViolations": [{"field": one.field, "description": one.description} for one in wrong.field_violations]},
    ]
    return failure(code, details)


def code_of(error: Json) -> int:
    """Return the JSON-RPC code of a REST error, by its reason or else by its status."""
    return _CODES.get(error["details"][0]["reason"]) or _CODES_OF_STATUS[error["code"]]
