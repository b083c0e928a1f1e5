"""The one mapping between our errors and gRPC statuses, both ways (google.rpc.Status, AIP-193).

A status carries `google.rpc.ErrorInfo` (domain "taskplane", reason in capitals, suggestion in its metadata),
`BadRequest` when fields of the request were wrong, and `RetryInfo` when a retry helps. It travels in the trailer
`grpc-status-details-bin`. Texts are cut so that the trailers stay within the 8 KiB that gRPC peers accept.
"""

import re
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from taskplane.runtime import errors
from taskplane.runtime.errors import PlaneError

DOMAIN: Final = "taskplane"
DETAILS_KEY: Final = "grpc-status-details-bin"
SUGGESTION_KEY: Final = "suggestion"

_MAX_MESSAGE: Final = 1_024
_MAX_TEXT: Final = 256
_MAX_ENTRIES: Final = 8

_KINDS: Final[tuple[type[PlaneError], ...]] = (
    errors.Invalid,
    errors.NotFound,
    errors.AlreadyExists,
    errors.Refused,
    errors.Conflict,
    errors.OutOfRange,
    errors.Exhausted,
    errors.Unavailable,
    errors.DeadlineExceeded,
    errors.Unauthenticated,
    errors.PermissionDenied,
    errors.Unimplemented,
    errors.DataLoss,
    errors.Internal,
)
_CLASSES: Final = {grpc.StatusCode[cls.code]: cls for cls in _KINDS} | {grpc.StatusCode.CANCELLED: errors.Unavailable}

# A text that a transport writes into a status names hosts and internals; the caller gets these texts instead.
_TRANSPORT_TEXTS: Final = {
    grpc.StatusCode.UNAVAILABLE: "a service is unreachable at the moment",
    grpc.StatusCode.CANCELLED: "the call ended before its answer",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the call had no answer within its deadline",
    grpc.StatusCode.INTERNAL: "internal error",
    grpc.StatusCode.UNKNOWN: "internal error",
    grpc.StatusCode.DATA_LOSS: "internal error",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "a service is overloaded at the moment",
}
# How every transport of gRPC says that a message is beyond a size limit; waiting does not make it smaller.
_TOO_LARGE: Final = re.compile(r"(?:CLIENT|SERVER): (?:Sent|Received) message larger than max \((\d+) vs\. (\d+)\)")


def code_of(error: PlaneError) -> grpc.StatusCode:
    """Return the gRPC status code of an error of ours."""
    return grpc.StatusCode[error.code]


def to_status(error: PlaneError) -> status_pb2.Status:
    """Return the whole status of an error: code, text, ErrorInfo, and BadRequest and RetryInfo where it has them."""
    code: tuple[int, str] = code_of(error).value
    status = status_pb2.Status(code=code[0], message=_cut(error.message, _MAX_MESSAGE))
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN)
    for key, value in list(error.metadata.items())[:_MAX_ENTRIES]:
        info.metadata[key] = _cut(value, _MAX_TEXT)
    if error.suggestion:
        info.metadata[SUGGESTION_KEY] = _cut(error.suggestion, _MAX_TEXT)
    status.details.add().Pack(info)
    if error.fields:
        wrong = error_details_pb2.BadRequest()
        for field, description in list(error.fields.items())[:_MAX_ENTRIES]:
            wrong.field_violations.add(field=_cut(field, _MAX_TEXT), description=_cut(description, _MAX_TEXT))
        status.details.add().Pack(wrong)
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(max(0, int(error.retry_after * 1e9)))
        status.details.add().Pack(retry)
    return status


def trailers(status: status_pb2.Status) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata that carries a status."""
    return ((DETAILS_KEY, status.SerializeToString()),)


def from_rpc_error(error: grpc.aio.AioRpcError) -> PlaneError:
    """Return our error for a failed call. Never raises; of a status that is not ours only the code is kept."""
    code = error.code()
    cls = _CLASSES.get(code, errors.Internal)
    status = _attached(error)
    known: dict[str, Any] = {}
    # Details with another code are those of a handler after the transport had ended its call.
    if status is not None and status.code == code.value[0]:
        for detail in status.details:
            _read(detail, known)
    if "reason" not in known:
        large = _TOO_LARGE.search(error.details() or "") if code is grpc.StatusCode.RESOURCE_EXHAUSTED else None
        if large is not None:
            what = f"a message of {int(large[1]):,} bytes is too large; at most {int(large[2]):,} are allowed"
            return errors.Invalid(what, reason="MESSAGE_TOO_LARGE", metadata={"limit": large[2]})
        text = _TRANSPORT_TEXTS.get(code)
        return cls(text if text is not None else error.details() or code.name)
    return cls(error.details() or code.name, **known)


def _read(detail: Any, known: dict[str, Any]) -> None:
    info, wrong, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    if detail.Unpack(info) and info.domain == DOMAIN:
        metadata = dict(info.metadata)
        known["suggestion"] = metadata.pop(SUGGESTION_KEY, "")
        known["reason"], known["metadata"] = info.reason, metadata
    elif detail.Unpack(wrong):
        known["fields"] = {violation.field: violation.description for violation in wrong.field_violations}
    elif detail.Unpack(retry):
        known["retry_after"] = retry.retry_delay.ToNanoseconds() / 1e9


def _attached(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    metadata = error.trailing_metadata()
    raw = metadata.get(DETAILS_KEY) if metadata is not None else None
    if not isinstance(raw, bytes):
        return None
    try:
        return status_pb2.Status.FromString(raw)
    except DecodeError:
        return None


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"
