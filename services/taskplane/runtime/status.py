"""The conversion of our errors to gRPC statuses and back (google.rpc.Status, AIP-193).

A status has `google.rpc.ErrorInfo` (domain "taskplane", reason in capitals, suggestion in its metadata), `BadRequest`
for wrong fields of the request, and `RetryInfo` if a retry helps. It is sent in the trailer `grpc-status-details-bin`.
Texts are cut so that all trailers stay below the 8 KiB that gRPC clients accept: a client replaces a larger status by
RESOURCE_EXHAUSTED.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from taskplane.runtime import errors
from taskplane.runtime.errors import PlaneError

DOMAIN: Final = "taskplane"
DETAILS_KEY: Final = "grpc-status-details-bin"
SUGGESTION_KEY: Final = "suggestion"

# Bytes in UTF-8. `grpc-message` encodes a byte as up to three, so the message takes up to 3 KiB of the trailers.
_MAX_MESSAGE: Final = 1_024
_MAX_TEXT: Final = 256
_MAX_ENTRIES: Final = 8
# Maximum bytes of a status. Its base64 form takes up to 4.5 KiB of the trailers.
_MAX_STATUS: Final = 3_400

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
_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}
_CLASSES: Final = {grpc.StatusCode[cls.code]: cls for cls in _KINDS} | {grpc.StatusCode.CANCELLED: errors.Unavailable}

# Texts for the caller, by code. They replace the texts of gRPC, which may contain host names.
_TRANSPORT_TEXTS: Final = {
    grpc.StatusCode.UNAVAILABLE: "a service is unreachable at the moment",
    grpc.StatusCode.CANCELLED: "the call ended before its answer",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the call had no answer within its deadline",
    grpc.StatusCode.INTERNAL: "internal error",
    grpc.StatusCode.UNKNOWN: "internal error",
    grpc.StatusCode.DATA_LOSS: "internal error",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "a service is overloaded at the moment",
}
# Pattern of gRPC's error text for a message that is too large. A retry cannot help.
_TOO_LARGE: Final = re.compile(r"(?:CLIENT|SERVER): (?:Sent|Received) message larger than max \((\d+) vs\. (\d+)\)")


class Info(NamedTuple):
    """The name of the status code of an error, and its ErrorInfo."""

    code: str
    reason: str
    domain: str
    metadata: Mapping[str, str]


def info_of(error: PlaneError) -> Info:
    """Return the code and the ErrorInfo of an error between our services."""
    metadata = dict(list(error.metadata.items())[:_MAX_ENTRIES])
    if error.suggestion:
        metadata[SUGGESTION_KEY] = error.suggestion
    return Info(error.code, error.reason, DOMAIN, metadata)


def code_of(status: status_pb2.Status) -> grpc.StatusCode:
    """Return the gRPC status code of a status."""
    return _BY_NUMBER[status.code]


def to_status(error: PlaneError, info: Info | None = None) -> status_pb2.Status:
    """Return the status of an error: code, text, ErrorInfo, and BadRequest and RetryInfo if the error has them. `info`:
    in place of that of `info_of`.

    Each text is cut to a fixed size. If the status is still too large, all texts but the message are cut further.
    """
    info = info or info_of(error)
    limit = _MAX_TEXT
    status = _status(error, info, limit)
    while status.ByteSize() > _MAX_STATUS and limit > 1:
        limit //= 2
        status = _status(error, info, limit)
    return status


def _status(error: PlaneError, shown: Info, limit: int) -> status_pb2.Status:
    code: tuple[int, str] = grpc.StatusCode[shown.code].value
    status = status_pb2.Status(code=code[0], message=_cut(error.message, _MAX_MESSAGE))
    info = error_details_pb2.ErrorInfo(reason=shown.reason, domain=shown.domain)
    for key, value in shown.metadata.items():
        info.metadata[key] = _cut(value, limit)
    status.details.add().Pack(info)
    if error.fields:
        wrong = error_details_pb2.BadRequest()
        for field, description in list(error.fields.items())[:_MAX_ENTRIES]:
            wrong.field_violations.add(field=_cut(field, limit), description=_cut(description, limit))
        status.details.add().Pack(wrong)
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(max(0, int(error.retry_after * 1e9)))
        status.details.add().Pack(retry)
    return status


def trailers(status: status_pb2.Status) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata with a status."""
    return ((DETAILS_KEY, status.SerializeToString()),)


def from_rpc_error(error: grpc.aio.AioRpcError) -> PlaneError:
    """Return our error for a failed call. Corrupt details are ignored.

    Without our ErrorInfo, the code of the status decides about the class: CANCELLED becomes UNAVAILABLE, UNKNOWN
    becomes INTERNAL, and any other code stays. The texts of the codes in `_TRANSPORT_TEXTS` are replaced. The text of
    gRPC for a too large message becomes Invalid `MESSAGE_TOO_LARGE`.
    """
    code = error.code()
    cls = _CLASSES.get(code, errors.Internal)
    status = _attached(error)
    known: dict[str, Any] = {}
    # If the code of the call differs from the code in the details, the transport ended the call, for example by a
    # deadline. Then the details do not describe this error.
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
    try:
        if detail.Unpack(info) and info.domain == DOMAIN:
            metadata = dict(info.metadata)
            known["suggestion"] = metadata.pop(SUGGESTION_KEY, "")
            known["reason"], known["metadata"] = info.reason, metadata
        elif detail.Unpack(wrong):
            known["fields"] = {violation.field: violation.description for violation in wrong.field_violations}
        elif detail.Unpack(retry):
            known["retry_after"] = retry.retry_delay.ToNanoseconds() / 1e9
    except DecodeError:
        return


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
    """Cut a text to `limit` bytes in UTF-8, at least 3, with an ellipsis at its end."""
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[: max(limit - 3, 0)].decode(errors="ignore") + "\u2026"
