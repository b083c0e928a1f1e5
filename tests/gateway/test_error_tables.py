"""The tables of errors: code, status, name in gRPC and reason of each error, as every binding writes them."""

from typing import Any, Final, NamedTuple

import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]

from taskplane.gateway import errors
from taskplane.gateway.settings import ErrorMap
from taskplane.runtime.errors import Invalid, NotFound, PlaneError, Refused, Unimplemented


class Row(NamedTuple):
    """An error: its code in JSON-RPC, the reason in its details, HTTP status and gRPC code in each version; `in_1_0_0`
    is empty where they are those of 1.0.1."""

    error: PlaneError
    code: int
    reason: str
    in_1_0_1: str
    in_1_0_0: str
    in_0_3: str


def refused(code: int, reason: str, in_1_0_0: str, in_0_3: str) -> Row:
    return Row(Refused("m", reason=reason), code, reason, "400 FAILED_PRECONDITION", in_1_0_0, in_0_3)


def invalid(reason: str, code: int, told: str, in_1_0_1: str, in_1_0_0: str, in_0_3: str) -> Row:
    return Row(Invalid("m", reason=reason), code, told, in_1_0_1, in_1_0_0, in_0_3)


_WRONG: Final = "400 INVALID_ARGUMENT"
_NO: Final = "400 UNIMPLEMENTED"
_TYPE: Final = "CONTENT_TYPE_NOT_SUPPORTED"

ROWS: Final = [
    Row(NotFound("m", reason="TASK_NOT_FOUND"), -32001, "TASK_NOT_FOUND", "404 NOT_FOUND", "", "404 NOT_FOUND"),
    refused(-32002, "TASK_NOT_CANCELABLE", "409 FAILED_PRECONDITION", "409 UNIMPLEMENTED"),
    refused(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", _NO, "501 UNIMPLEMENTED"),
    refused(-32004, "UNSUPPORTED_OPERATION", _NO, "501 UNIMPLEMENTED"),
    # The media type of a part, and that of a whole body, which is a matter of HTTP.
    invalid("MEDIA_TYPE_NOT_SUPPORTED", -32005, _TYPE, _WRONG, "415 INVALID_ARGUMENT", "415 UNIMPLEMENTED"),
    invalid(_TYPE, -32005, _TYPE, "415 INVALID_ARGUMENT", "", "415 UNIMPLEMENTED"),
    Row(
        PlaneError("m", reason="INVALID_AGENT_RESPONSE"),
        code=-32006,
        reason="INVALID_AGENT_RESPONSE",
        in_1_0_1="500 INTERNAL",
        in_1_0_0="502 INTERNAL",
        in_0_3="502 INTERNAL",
    ),
    refused(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "", "404 UNKNOWN"),
    refused(-32008, "EXTENSION_SUPPORT_REQUIRED", "", "400 FAILED_PRECONDITION"),
    refused(-32009, "VERSION_NOT_SUPPORTED", _NO, "400 FAILED_PRECONDITION"),
    invalid("PARSE_ERROR", -32700, "PARSE_ERROR", _WRONG, "", "400 INTERNAL"),
    invalid("INVALID_REQUEST", -32600, "INVALID_REQUEST", _WRONG, "", "400 INVALID_ARGUMENT"),
    Row(
        Unimplemented("m", reason="METHOD_NOT_FOUND"),
        code=-32601,
        reason="METHOD_NOT_FOUND",
        in_1_0_1="404 UNIMPLEMENTED",
        in_1_0_0="",
        in_0_3="404 NOT_FOUND",
    ),
    Row(
        Invalid("m", fields={"id": "is required"}),
        code=-32602,
        reason="INVALID_PARAMS",
        in_1_0_1=_WRONG,
        in_1_0_0="",
        in_0_3="422 INVALID_ARGUMENT",
    ),
    Row(PlaneError("m"), -32603, "INTERNAL", "500 INTERNAL", "", "500 INTERNAL"),
]
EACH: Final = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.error.reason)
NAMES_0_3: Final = {
    -32001: "TaskNotFoundError",
    -32002: "TaskNotCancelableError",
    -32003: "PushNotificationNotSupportedError",
    -32004: "UnsupportedOperationError",
    -32005: "ContentTypeNotSupportedError",
    -32006: "InvalidAgentResponseError",
    -32007: "AuthenticatedExtendedCardNotConfiguredError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
    -32700: "JSONParseError",
}


def details_of(status: Any) -> tuple[str, str, list[str]]:
    """Return reason and domain of the ErrorInfo of a gRPC status, and the wrong fields."""
    info, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    for detail in status.details[1:]:
        assert detail.Unpack(wrong)
    return info.reason, info.domain, [one.field for one in wrong.field_violations]


@EACH
def test_each_error_of_1_0_is_written_by_the_table_over_each_binding(row: Row) -> None:
    """a2a I1, I3, I4, I5: the domain is that of the protocol for its own errors, by which official clients know
    them."""
    error, code, reason, in_1_0_1, in_1_0_0, _ = row
    over_json_rpc = errors.error_1_0(error, "r")
    assert over_json_rpc["code"] == code
    info, *more = over_json_rpc["data"]
    assert (info["@type"], info["reason"]) == ("type.googleapis.com/google.rpc.ErrorInfo", reason)
    fields = [each["field"] for one in more for each in one["fieldViolations"]]
    assert fields == list(error.fields)
    assert all(isinstance(value, str) for value in info["metadata"].values())
    assert info["domain"] == ("a2a-protocol.org" if code > -32010 or code == -32602 else "taskplane")
    columns: tuple[tuple[ErrorMap, str], ...] = (("1.0.1", in_1_0_1), ("1.0.0", in_1_0_0 or in_1_0_1))
    for error_map, column in columns:
        over_rest = errors.error_rest(error, "r", error_map)["error"]
        assert f"{over_rest['code']} {over_rest['status']}" == column
        assert (over_rest["message"], over_rest["details"]) == (over_json_rpc["message"], over_json_rpc["data"])
        over_grpc = errors.status_grpc(error, "r", error_map)
        assert (NUMBERS[column.partition(" ")[2]], error.message) == (over_grpc.code, over_grpc.message)
        assert details_of(over_grpc) == (reason, info["domain"], fields)


@EACH
def test_each_error_of_0_3_is_written_by_its_table_over_each_binding(row: Row) -> None:
    """a2a I6, I7, I8: `error_map` does not change it."""
    error, code, column = row.error, row.code, row.in_0_3
    assert errors.error_0_3(error, "r")["code"] == code
    over_rest = errors.error_rest_0_3(error, "r")
    body = over_rest["error"]
    assert f"{body['code']} {body['status']}" == column
    assert (over_rest["code"], over_rest["message"]) == (code, body["message"]) == (code, error.message)
    name = NAMES_0_3.get(code, over_rest["type"])
    assert over_rest["type"] == name
    over_grpc = errors.status_grpc_0_3(error, "r")
    assert (over_grpc.code, over_grpc.message) == (NUMBERS[column.partition(" ")[2]], f"{name}: {error.message}")


NUMBERS: Final = {
    "UNKNOWN": 2,
    "INVALID_ARGUMENT": 3,
    "NOT_FOUND": 5,
    "FAILED_PRECONDITION": 9,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
}
