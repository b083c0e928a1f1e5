"""Answers of servers, which may be other programs than taskplane."""

import json

import pytest

from taskplane.client.answers import parsed, read_json
from taskplane.client.failures import (
    Declined,
    Ended,
    Failure,
    Missing,
    NotUnderstood,
    Unauthorized,
    Unreachable,
    failure_of_http,
    failure_of_rpc,
)


@pytest.mark.parametrize("value", [10**400, 9007199254740993, 1.5, "\U0001f600", {"a": [None, True]}])
def test_values_are_read_without_loss(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body", [b"", b"{", b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b'"\\uDFFF x"', b"\xff", b"[" * 100_000]
)
def test_json_without_an_exact_value_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(body)


def test_the_error_for_another_program_names_the_kind_of_its_answer() -> None:
    with pytest.raises(NotUnderstood) as page:
        parsed("http://127.0.0.1:1", b"<html>")
    assert (page.value.reason, page.value.code, page.value.retryable) == ("NOT_TASKPLANE", None, False)
    assert "a web page" in page.value.message


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, Declined, False), (401, Unauthorized, False), (403, Unauthorized, False), (404, Missing, False)]
    + [(status, Unreachable, True) for status in (429, 502, 503, 504)],
)
def test_the_class_of_a_refusal_over_http_follows_from_its_status(
    status: int, kind: type[Failure], retryable: bool
) -> None:
    failure = failure_of_http(status, {"error": "no", "code": "REASON", "suggestion": "do"}, None)
    assert type(failure) is kind
    assert (failure.message, failure.reason, failure.code, failure.suggestion) == ("no", "REASON", status, "do")
    assert failure.retryable is retryable


def test_the_class_of_a_refusal_over_json_rpc_follows_from_its_number() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "WHY", "metadata": {"suggestion": "do"}}
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}
    kinds = {-32001: Missing, -32002: Ended, -32004: Ended, -32602: Declined}
    for number, kind in kinds.items():
        failure = failure_of_rpc({"code": number, "message": "no", "data": [info]})
        assert type(failure) is kind
        assert (failure.reason, failure.code, failure.suggestion) == ("WHY", number, "do")
    later = failure_of_rpc({"code": -32603, "message": "no", "data": [info, delay]})
    assert (type(later), later.retry_after, later.retryable) == (Unreachable, 1.5, True)
    assert failure_of_rpc({"code": -32000}).reason == "RPC-32000"


@pytest.mark.parametrize(("own", "kind"), [("TERMINAL", Ended), ("SUPERSEDED", Ended), ("SESSION_BUSY", Declined)])
def test_the_own_reason_of_a_refusal_decides_whether_the_task_has_ended(own: str, kind: type[Failure]) -> None:
    """A2A has one reason for all of these."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "UNSUPPORTED_OPERATION",
        "metadata": {"reason": own},
    }
    failure = failure_of_rpc({"code": -32004, "message": "no", "data": [info]})
    assert type(failure) is kind
    assert failure.reason == own
