"""What is wrong with an answer to a request of A2A: its form, its version, its status."""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3 import types as official
from a2a.types import a2a_pb2 as sdk
from google.protobuf.json_format import ParseDict
from pydantic import BaseModel
from tests.system.fuzz_a2a import Sent, shown
from tests.system.fuzz_answers import Answer

# The HTTP server's own answer to invalid HTTP.
NO_HTTP: Final = b"Invalid HTTP request received."
_REASON: Final = re.compile(r"[A-Z][A-Z0-9_]+")
# Reasons of a failure of the server.
_FAULTS: Final = frozenset({"INTERNAL", "INTERNAL_ERROR", "UNKNOWN"})
# Statuses of a JSON-RPC answer that are those of HTTP.
_HTTP: Final = frozenset({200, 404, 408, 413, 415})
_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_NOT_IN_0_3: Final = ("UnsupportedOperationError", "PushNotificationNotSupportedError")
_MODELS: Final[dict[str, type[BaseModel]]] = {
    "task": official.Task,
    "message": official.Message,
    "status-update": official.TaskStatusUpdateEvent,
    "artifact-update": official.TaskArtifactUpdateEvent,
}
_MESSAGES: Final = {"SendMessage": "SendMessageResponse", "ListTasks": "ListTasksResponse", "stream": "StreamResponse"}


class Verdict:
    """The verdict on one answer: `wrong` is its fault, empty if it is correct; `refused`: it is an error, with this
    `reason` if its body was read."""

    def __init__(self, sent: Sent, answer: Answer) -> None:
        self.refused = answer.status >= 400
        self.wrong = self.reason = ""
        try:
            self._judge(sent, answer)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            self.wrong = self.wrong or f"{type(error).__name__}: {error!s:.300}: {answer.body!r:.300}"

    def _judge(self, sent: Sent, answer: Answer) -> None:
        case = sent.case
        if not answer.status:
            assert case.left or not case.framed, "no answer"
            return
        if answer.body == NO_HTTP:
            assert not case.framed, "valid HTTP was refused"
            return
        if answer.streams:
            events = answer.body.split(b"\n\n")[:-1]
            for index, event in enumerate(events):
                self._event(sent, event, first=index == 0)
            return
        if case.method == "HEAD" or answer.status == 204:
            return
        if answer.kind in ("application/json", "application/a2a+json"):
            self._body(sent, answer.status, shown(answer.body), answer.kind)
        else:
            # The page, the metrics and the probes are found by faults in a path.
            assert answer.status < 400 and not sent.form, "an error without a body"

    def _event(self, sent: Sent, event: bytes, *, first: bool) -> None:
        lines = [line for line in event.split(b"\n") if line and not line.startswith(b":")]
        data = [line for line in lines if line.startswith(b"data: ")]
        assert len(data) == 1, "an event of several lines"
        body = shown(data[0][6:])
        is_error = "error" in body
        if sent.form:
            named = b"event: error" in lines
            assert named == (is_error and sent.form.startswith("rest")), "an event with a wrong name"
        if is_error:
            self.refused = self.refused or first
            self._error(sent.form, 200, body)
        elif sent.form:
            _read(sent.form, "stream", body)

    def _body(self, sent: Sent, status: int, body: Any, kind: str) -> None:
        if sent.form and sent.form != "rest-1.0":
            assert kind == "application/json", "another media type"
        if not isinstance(body, dict) or "error" not in body:
            assert status < 400, "an error without its body"
            if sent.form:
                _read(sent.form, sent.operation, body)
            return
        # Under /api an answer says that there is no error.
        if body["error"]:
            self.refused = True
            self._error(sent.form, status, body)

    def _error(self, form: str, status: int, body: Any) -> None:
        error = body["error"]
        self.reason = _reason_of(body)
        if isinstance(error, str):
            # Who calls is found before a request of JSON-RPC is read.
            assert not form or status in (401, 403) or body["reason"] == "BAD_USER_ID", "an error in the form of /api"
            assert status < 500 or status == 501, f"status {status}"
            _check_reason(body["reason"])
            return
        if "jsonrpc" in body:
            assert not form or form.startswith("jsonrpc"), "an error of JSON-RPC"
            _check_rpc(form, status, body)
        elif "type" in body:
            assert not form or form == "rest-0.3", "an error of REST of 0.3"
            assert error["code"] < 500 or (error["code"], body["type"]) in [(501, name) for name in _NOT_IN_0_3]
            assert set(body) == {"type", "code", "message", "error"}
            assert body["message"] == error["message"]
            _check_rest(status, error)
        else:
            assert not form or form == "rest-1.0", "an error of REST of 1.0"
            assert error["code"] < 500
            assert set(body) == {"error"}
            _check_rest(status, error)


def _reason_of(body: Any) -> str:
    """Return the plane's own reason of an error."""
    error = body["error"]
    if isinstance(error, str):
        return str(body["reason"])
    info = error["details"][0] if "details" in error else _first(error["data"])
    return str(info.get("metadata", {}).get("reason") or info["reason"])


def _first(value: Any) -> Any:
    """Return the first element of a list, and any other value as it is."""
    return cast("Sequence[Any]", value)[0] if isinstance(value, list) else value


def _check_rest(status: int, error: Any) -> None:
    assert set(error) == {"code", "status", "message", "details"}
    assert status in (200, error["code"]), "two statuses"
    assert _REASON.fullmatch(error["status"])
    _check_details(error["details"])


def _check_rpc(form: str, status: int, body: Any) -> None:
    error = body["error"]
    assert set(body) == {"jsonrpc", "id", "error"} and set(error) == {"code", "message", "data"}
    assert status in _HTTP, f"status {status}"
    assert -32800 < error["code"] < -32000 and error["code"] != -32603, f"code {error['code']}"
    if isinstance(error["data"], list):
        _check_details(error["data"])
    else:
        # A name that no version has is one of 0.3 if it has a slash.
        assert form != "jsonrpc-1.0" or error["code"] == -32601, "an error of 0.3"
        _check_reason(error["data"]["reason"])


def _check_details(details: Any) -> None:
    info = details[0]
    assert info["@type"] == _INFO and set(info) == {"@type", "reason", "domain", "metadata"}
    assert all(isinstance(value, str) for value in info["metadata"].values())
    _check_reason(info["reason"])


def _check_reason(reason: str) -> None:
    assert _REASON.fullmatch(reason) and reason not in _FAULTS, f"the reason {reason}"


def _read(form: str, operation: str, body: Any) -> None:
    """Read a good answer as an official client does, without any unknown member."""
    if form.startswith("jsonrpc"):
        assert set(body) == {"jsonrpc", "id", "result"} and body["jsonrpc"] == "2.0"
        body = body["result"]
    if form == "jsonrpc-0.3":
        _MODELS[body["kind"]].model_validate(body)
        return
    name = _MESSAGES.get(operation, "Task")
    ParseDict(body, getattr(old if form == "rest-0.3" else sdk, name)())
