"""Limits and required fields, checked on protobuf for every binding."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a import checks
from taskplane.gateway.a2a.operations import OPERATIONS
from taskplane.gateway.bindings.params import read
from taskplane.gateway.limits import MAX_METADATA_BYTES
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.runtime.errors import Invalid
from taskplane.runtime.validation import WrongFields

REWIND = "kagent_rewind_before_invocation_id"
VERSION = "taskplane.dev/expected_version"


def message(**fields: Any) -> a2a.SendMessageRequest:
    """Return a send of a message with these fields, by their names in ProtoJSON."""
    whole = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **fields}
    return ParseDict({"message": whole}, a2a.SendMessageRequest())


def wrong(check: Callable[[Any, WrongFields], None], request: Any) -> dict[str, str]:
    bad = WrongFields()
    check(request, bad)
    return bad.found


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (message(), {}),
        (message(contextId="é", taskId="t" * 255), {}),
        (a2a.SendMessageRequest(), {"message": "is required"}),
        (message(messageId=""), {"message.messageId": "is required"}),
        (message(messageId="m" * 256), {"message.messageId": "must have at most 255 characters"}),
        (message(messageId="a\0"), {"message.messageId": "must not contain control characters"}),
        (message(contextId="a\n"), {"message.contextId": "must not contain control characters"}),
        (message(taskId="t" * 256), {"message.taskId": "must have at most 255 characters"}),
        (message(role=0), {"message.role": "is required"}),
        (message(role=7), {"message.role": "must be ROLE_USER or ROLE_AGENT"}),
        (message(parts=[]), {"message.parts": "must not be empty"}),
        (message(parts=[{"text": "a"}] * 101), {"message.parts": "must have at most 100 elements"}),
        (message(parts=[{"text": "a"}, {}]), {"message.parts[1]": "must have exactly one of text, raw, url and data"}),
        (message(extensions=["e"] * 101), {"message.extensions": "must have at most 100 elements"}),
        (message(referenceTaskIds=["t"] * 101), {"message.referenceTaskIds": "must have at most 100 elements"}),
        (message(metadata={VERSION: 2}), {}),
        (message(metadata={VERSION: "2"}), {}),
        (message(metadata={VERSION: None}), {}),
        (message(metadata={VERSION: 1.5}), {f"message.metadata.{VERSION}": "must be a positive whole number"}),
        (message(metadata={"a": "x" * 70_000}), {"message.metadata": "must not be larger than 65536 bytes"}),
        (message(messageId="", parts=[], metadata={REWIND: "i"}), {}),
        (message(metadata={REWIND: 7}), {f"message.metadata.{REWIND}": "must be a string"}),
        (message(messageId="", metadata={REWIND: ""}), {"message.messageId": "is required"}),
    ],
)
def test_an_invalid_send_is_refused_with_each_wrong_field(request_: Any, found: dict[str, str]) -> None:
    """a2a B4, B5."""
    assert wrong(checks.send, request_) == found


def test_configuration_and_metadata_of_a_send_are_checked() -> None:
    request = message()
    request.configuration.history_length = -1
    request.configuration.accepted_output_modes.extend(["a"] * 101)
    request.metadata["a"] = "x" * MAX_METADATA_BYTES
    assert list(wrong(checks.send, request)) == [
        "configuration.historyLength",
        "configuration.acceptedOutputModes",
        "metadata",
    ]


@pytest.mark.parametrize(
    ("check", "request_", "paths"),
    [
        (checks.get, a2a.GetTaskRequest(id="t", history_length=0), []),
        (checks.get, a2a.GetTaskRequest(history_length=-1), ["id", "historyLength"]),
        (checks.cancel, a2a.CancelTaskRequest(id="a\n"), ["id"]),
        (checks.subscribe, a2a.SubscribeToTaskRequest(), ["id"]),
        (checks.listing, a2a.ListTasksRequest(), []),
        (checks.listing, a2a.ListTasksRequest(page_size=100, context_id="c"), []),
        (checks.listing, a2a.ListTasksRequest(page_size=0, page_token="t" * 5000), ["pageToken", "pageSize"]),
        (checks.listing, a2a.ListTasksRequest(page_size=101, context_id="\n"), ["contextId", "pageSize"]),
    ],
)
def test_other_invalid_requests_are_refused_with_each_wrong_field(check: Any, request_: Any, paths: list[str]) -> None:
    """a2a B5, E3."""
    assert list(wrong(check, request_)) == paths


@pytest.mark.parametrize(
    ("dialect", "sent", "paths"),
    [
        (V1_0, {"message": 7}, ["message"]),
        (V1_0, {"message": {"messageId": 7, "role": "x", "parts": [7]}}, ["messageId", "role", "parts[0]"]),
        (V1_0, {"message": {"role": "x", "parts": {}}}, ["role", "parts", "messageId"]),
        (V1_0, {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": 7}]}}, ["parts[0].text"]),
        (V0_3, {"message": {"messageId": "m", "role": "user", "parts": [{"text": "a"}]}}, ["parts[0].kind"]),
        (
            V1_0,
            {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [7, {"text": "a"}, {}]}},
            ["parts[0]", "parts[2]"],
        ),
        (
            V0_3,
            {"message": {"messageId": "m", "role": "user", "parts": [7, {"kind": "text", "text": "a"}, {"text": "a"}]}},
            ["parts[0]", "parts[2].kind"],
        ),
    ],
)
def test_an_unreadable_field_is_reported_once(dialect: Any, sent: Any, paths: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        read(OPERATIONS["SendMessage"], dialect, sent, exact=False)
    assert [path.removeprefix("message.") for path in caught.value.fields] == paths
