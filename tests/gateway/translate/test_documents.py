"""Whole tasks as external runtimes write them."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.documents import read_task, state_of
from taskplane.runtime.errors import Invalid


@pytest.mark.parametrize(
    ("names", "state"),
    [
        (["pending", "submitted", "SUBMITTED", "TASK_STATE_SUBMITTED"], a2a.TASK_STATE_SUBMITTED),
        (["unknown", "Unspecified", "TASK_STATE_UNSPECIFIED"], a2a.TASK_STATE_UNSPECIFIED),
        (["working", "running", "Running"], a2a.TASK_STATE_WORKING),
        (["input-required", "input_required", "TASK_STATE_INPUT_REQUIRED"], a2a.TASK_STATE_INPUT_REQUIRED),
        (["auth-required"], a2a.TASK_STATE_AUTH_REQUIRED),
        (["completed", "success", "COMPLETED"], a2a.TASK_STATE_COMPLETED),
        (["failed", "error"], a2a.TASK_STATE_FAILED),
        (["rejected"], a2a.TASK_STATE_REJECTED),
        (["canceled", "cancelled", "TASK_STATE_CANCELED"], a2a.TASK_STATE_CANCELED),
    ],
)
def test_states_are_read_in_every_spelling(names: list[str], state: int) -> None:
    """M2: in any case, in the spellings of 0.3 and 1.0, and as plain words."""
    assert {state_of(name) for name in names} == {state}


def test_a_task_dumped_by_a_pydantic_model_is_read() -> None:
    """It has snake-case names, nulls and a time without a zone, as kagent's runtimes post it."""
    task = read_task(
        {
            "id": "t",
            "context_id": "c",
            "kind": "task",
            "artifacts": None,
            "metadata": {"kagent_app_name": "app"},
            "status": {"state": "completed", "timestamp": "2026-01-02T03:04:05.678901", "message": None},
            "history": [
                {
                    "kind": "message",
                    "message_id": "m1",
                    "context_id": "c",
                    "task_id": None,
                    "role": "user",
                    "parts": [{"kind": "text", "text": "hi", "metadata": None}],
                    "metadata": None,
                    "reference_task_ids": None,
                }
            ],
        }
    )
    assert MessageToDict(task) == {
        "id": "t",
        "contextId": "c",
        "status": {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-02T03:04:05.678901Z"},
        "history": [{"messageId": "m1", "contextId": "c", "role": "ROLE_USER", "parts": [{"text": "hi"}]}],
        "metadata": {"kagent_app_name": "app"},
    }


def test_parts_of_both_versions_are_read() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a"}, {"kind": "data", "data": {"b": 1}}]}
    task = read_task({"contextId": "c", "status": {"state": "working", "message": message}})
    assert [part.WhichOneof("content") for part in task.status.message.parts] == ["text", "data"]


@pytest.mark.parametrize("mark", ["kagent_adk_partial", "adk_partial"])
def test_partial_messages_are_removed_from_the_history(mark: str) -> None:
    """T5: before a task is stored."""
    message = {"role": "agent", "parts": [{"kind": "text", "text": "a"}]}
    history = [{**message, "messageId": "1", "metadata": {mark: True}}, {**message, "messageId": "2"}]
    task = read_task({"contextId": "c", "status": {"state": "working"}, "history": history})
    assert [entry.message_id for entry in task.history] == ["2"]


WRONG: list[tuple[Any, str]] = [
    ({"status": {"state": "working"}}, "contextId"),
    ({"contextId": "c"}, "status"),
    ({"contextId": "c", "status": {}}, "status.state"),
    ({"contextId": "c", "status": {"state": "odd"}}, "status.state"),
    ({"contextId": "c", "status": {"state": "working", "timestamp": "now"}}, "status.timestamp"),
    ({"contextId": "c", "status": {"state": "working"}, "history": [{"role": "x"}]}, "history[0].role"),
    ({"contextId": "c", "status": {"state": "working"}, "artifacts": [{}]}, "artifacts[0].artifactId"),
    ([], ""),
]


@pytest.mark.parametrize(("body", "path"), WRONG)
def test_an_invalid_document_is_refused_with_the_path_of_the_field(body: Any, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_task(body)
    assert list(caught.value.fields) == [path]
