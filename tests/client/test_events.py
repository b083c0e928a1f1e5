"""Classification of events in streams of both versions of the protocol."""

from typing import Any

import pytest

from taskplane.client.events import ArtifactUpdate, FullTask, Message, StatusUpdate, Tool, Unknown, classify
from taskplane.client.states import State, state_of

MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}
MESSAGE_0_3 = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING", "message": MESSAGE}}
STATUS = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
ARTIFACT: dict[str, Any] = {
    "taskId": "t",
    "contextId": "c",
    "artifact": {"artifactId": "a", "parts": []},
    "append": True,
}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"task": TASK}, FullTask),
        ({"statusUpdate": STATUS}, StatusUpdate),
        ({"artifactUpdate": ARTIFACT}, ArtifactUpdate),
        ({"message": MESSAGE}, Message),
        ({"jsonrpc": "2.0", "id": 1, "result": {"task": TASK}}, FullTask),
        ({**TASK, "kind": "task"}, FullTask),
        ({**STATUS, "kind": "status-update", "final": True}, StatusUpdate),
        ({**ARTIFACT, "kind": "artifact-update"}, ArtifactUpdate),
        (MESSAGE_0_3, Message),
        ({"jsonrpc": "2.0", "id": 1, "result": MESSAGE_0_3}, Message),
        ({"id": "t", "history": [MESSAGE]}, FullTask),
        ({"contextId": "c", "history": [MESSAGE]}, FullTask),
        ({"id": "t", "history": []}, Unknown),
        ({"id": 7, "history": [MESSAGE]}, Unknown),
        ({"history": [MESSAGE]}, Unknown),
        ({"kind": "surprise"}, Unknown),
        ({"task": "not an object"}, Unknown),
        ({}, Unknown),
        (None, Unknown),
        ([TASK], Unknown),
    ],
)
def test_t7_an_event_is_classified_by_wrapper_key_then_kind_then_fields_else_as_unknown(
    data: object, kind: type
) -> None:
    assert type(classify(data)) is kind


def test_t7_the_wrapper_key_wins_over_the_kind() -> None:
    assert isinstance(classify({"kind": "message", "task": TASK}), FullTask)


@pytest.mark.parametrize(
    ("spelling", "state"),
    [
        ("TASK_STATE_INPUT_REQUIRED", "input-required"),
        ("input-required", "input-required"),
        ("Input_Required", "input-required"),
        ("TASK_STATE_CANCELED", "canceled"),
        ("cancelled", "canceled"),
        ("TASK_STATE_CANCELLED", "canceled"),
        ("success", "completed"),
        ("running", "working"),
        ("pending", "submitted"),
        ("error", "failed"),
        ("rejected", "rejected"),
        ("TASK_STATE_UNSPECIFIED", "unknown"),
        (None, "unknown"),
    ],
)
def test_m2_states_mean_the_same_in_every_spelling(spelling: object, state: State) -> None:
    assert state_of(spelling) == state


def test_text_and_role_are_read_from_both_versions_and_from_0_3_proto_json() -> None:
    proto_json = {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}]}
    for data in ({"message": MESSAGE}, MESSAGE_0_3, {"message": proto_json}):
        message = classify(data)
        assert isinstance(message, Message)
        assert (message.text, message.role) == ("hi", "agent")


@pytest.mark.parametrize("key", ["kagent_type", "adk_type"])
def test_t1_tool_calls_and_results_are_read_from_data_parts(key: str) -> None:
    def part(kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"data": data, "metadata": {key: kind}}

    message = classify(
        {
            "message": {
                **MESSAGE,
                "parts": [
                    part("function_call", {"id": "1", "name": "add", "args": {"a": 1}}),
                    part("function_response", {"id": "1", "name": "add", "response": {"sum": 2}}),
                    {"data": {"id": "1"}},
                    {"text": "done"},
                ],
            }
        }
    )
    assert isinstance(message, Message)
    assert message.tools == [Tool(True, "1", "add", {"a": 1}), Tool(False, "1", "add", {"sum": 2})]


@pytest.mark.parametrize("key", ["kagent_adk_partial", "adk_partial"])
def test_t5_a_message_is_partial_only_if_either_key_is_true(key: str) -> None:
    for value, partial in [(True, True), (False, False), ("true", False)]:
        message = classify({"message": {**MESSAGE, "metadata": {key: value}}})
        assert isinstance(message, Message)
        assert message.partial is partial
