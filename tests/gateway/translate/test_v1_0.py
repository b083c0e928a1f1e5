"""A2A 1.0 JSON: output is ProtoJSON, and invalid input is refused by field."""

import json
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.translate.messages import responses, tasks, unhurried
from tests.gateway.translate.reading import read_params, read_send
from tests.support.thorough import examples

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.limits import MAX_GROWTH, MAX_METADATA_BYTES
from taskplane.gateway.translate.dialect import Listing
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.struct import fill_metadata
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.runtime import json_lines
from taskplane.runtime.errors import Invalid


def protojson(found: Message) -> Any:
    """Return a message as ProtoJSON, with an explicit unspecified state, since A2A requires the field."""
    written = MessageToDict(found)
    for one in (written, *written.values()):
        if isinstance(one, dict) and "status" in one:
            one["status"] = {"state": "TASK_STATE_UNSPECIFIED", **one["status"]}
    return written


@unhurried
@given(responses())
def test_every_event_is_written_as_in_protojson(response: a2a.StreamResponse) -> None:
    """a2a B1, B3."""
    payload = getattr(response, response.WhichOneof("payload") or "task")
    if isinstance(payload, a2a.Task) and payload.id == payload.context_id:
        payload.context_id += "c"
    assert json.loads(json_lines.encode(V1_0.event(payload))) == protojson(response)


@unhurried
@given(tasks())
def test_a_task_is_written_as_in_protojson_and_read_back_unchanged(task: a2a.Task) -> None:
    """a2a B1."""
    task.context_id += "c" * (task.id == task.context_id)
    written = json.loads(json_lines.encode(V1_0.task(task)))
    assert written == protojson(task)
    assert ParseDict(written, a2a.Task()) == task


def test_a_session_task_has_an_explicit_empty_history() -> None:
    """R4, T8: this distinguishes it from a task without its history."""
    assert V1_0.task(a2a.Task(id="c", context_id="c"))["history"] == []
    assert V0_3.task(a2a.Task(id="c", context_id="c"))["history"] == []
    assert "history" not in V1_0.task(a2a.Task(id="t", context_id="c"))


@pytest.mark.parametrize(
    ("length", "expected"), [(None, ["1", "2", "3"]), (0, None), (2, ["2", "3"]), (9, ["1", "2", "3"])]
)
def test_history_length_keeps_the_newest_messages_in_order(length: int | None, expected: list[str] | None) -> None:
    task = a2a.Task(id="t", history=[a2a.Message(message_id=name) for name in "123"])
    history = V1_0.task(task, length).get("history")
    assert (None if history is None else [message["messageId"] for message in history]) == expected


def read(**message: Any) -> a2a.Message:
    whole = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **message}
    return read_send(V1_0, {"message": whole}).message


def outcome(message: Any) -> Any:
    """Return the request of a send of this message, or all its violations."""
    try:
        return read_send(V1_0, {"message": message})
    except Invalid as error:
        return error.message, error.fields


IDS: list[Any] = ["m", "", "a b", "\xe9", "\n", "\0", "i" * 255, "i" * 256, None, 7, ["m"]]
TEXTS: list[Any] = ["hi", "", "a\0b", None, 5]
OTHER_PARTS: list[Any] = [
    {},
    "hi",
    {"text": "a", "url": "b"},
    {"text": "a", "metadata": {"b": 1}},
    {"text": "a", "x": 1},
]
NO_PARTS: list[Any] = [None, {}, "hi", [{"text": "a"}] * 101]
ROLES: list[Any] = ["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED", 1, 0, None, True, {}]

ids = st.sampled_from(IDS)
some_parts = st.fixed_dictionaries({"text": st.sampled_from(TEXTS)}) | st.sampled_from(OTHER_PARTS)
plain_messages: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "messageId": ids,
        "role": st.sampled_from(ROLES),
        "parts": st.lists(some_parts, max_size=3) | st.sampled_from(NO_PARTS),
    },
    optional={"contextId": ids, "taskId": ids, "context_id": ids, "metadata": st.none(), "extensions": st.just(["e"])},
)


@settings(unhurried, max_examples=examples(600))
@given(plain_messages)
def test_the_fast_path_of_plain_texts_reads_the_same_as_the_general_one(message: dict[str, Any]) -> None:
    """A message with an unknown field takes the general path, field by field."""
    assert outcome(message) == outcome({**message, "unknown": 1})


GROWING: list[Any] = [
    [0] * 9_999,
    [None] * 9_999,
    [[]] * 9_999,
    [""] * 9_999,
    [{"": 0}] * 9_999,
    {str(number): 0 for number in range(9_999)},
    [[[[[[[[[[0] * 9]]]]]]]]] * 999,
    [0] * 20,
]


@pytest.mark.parametrize("data", GROWING)
def test_protobuf_is_never_larger_than_the_maximum_growth_of_its_json(data: Any) -> None:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": data}]}}
    assert read_send(V1_0, params).ByteSize() <= MAX_GROWTH * len(orjson.dumps(params))


def violations(params: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        read_send(V1_0, params)
    return caught.value.fields


def test_field_names_are_read_in_camel_case_and_snake_case() -> None:
    """a2a B2."""
    camel = read(contextId="c", taskId="t", referenceTaskIds=["a"], extensions=["x"], metadata={"k": [1, None]})
    snake = read(context_id="c", task_id="t", reference_task_ids=["a"], extensions=["x"], metadata={"k": [1, None]})
    assert camel == snake
    assert (camel.message_id, camel.context_id, camel.task_id) == ("m", "c", "t")
    assert MessageToDict(camel.metadata) == {"k": [1, None]}


def test_unknown_fields_are_ignored_and_null_means_absent() -> None:
    """a2a B2."""
    assert read(contextId=None, metadata=None, kind="message", whatever={"a": 1}) == read()


def test_all_missing_required_fields_are_named_together() -> None:
    """a2a B5."""
    assert violations({"message": {}}) == {
        "message.messageId": "is required",
        "message.role": "is required",
        "message.parts": "must not be empty",
    }
    assert violations({}) == {"message": "is required"}
    assert violations(None) == {"message": "is required"}
    assert violations([]) == {"params": "must be an object"}


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({}, "message.parts[0]"),
        ({"text": "a", "url": "b"}, "message.parts[0]"),
        ({"text": 5}, "message.parts[0].text"),
        ({"raw": "!"}, "message.parts[0].raw"),
        ({"text": "a\0b"}, "message.parts[0].text"),
        ({"data": {"a\0": 1}}, "message.parts[0].data"),
        ({"text": "a", "metadata": []}, "message.parts[0].metadata"),
        ({"text": "a", "metadata": {"a": "x" * 70_000}}, "message.parts[0].metadata"),
        ("text", "message.parts[0]"),
    ],
)
def test_an_invalid_part_is_refused_with_its_path(part: Any, path: str) -> None:
    """a2a B4."""
    assert list(violations({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [part]}})) == [path]


def test_each_kind_of_part_is_read() -> None:
    """a2a B4."""
    parts = read(
        parts=[
            {"text": ""},
            {"raw": "aGk=", "filename": "f", "mediaType": "text/plain"},
            {"raw": "_-8"},
            {"url": "https://example.com"},
            {"data": None},
            {"data": {"a": [1, 2.5, True, "x", {}, []]}},
        ]
    ).parts
    assert [part.WhichOneof("content") for part in parts] == ["text", "raw", "raw", "url", "data", "data"]
    assert (parts[1].raw, parts[1].filename, parts[1].media_type) == (b"hi", "f", "text/plain")
    assert parts[2].raw == b"\xff\xef"
    assert MessageToDict(parts[5].data) == {"a": [1, 2.5, True, "x", {}, []]}


@pytest.mark.parametrize("role", ["user", "ROLE_UNSPECIFIED", 0, 7, True, {}])
def test_a_role_with_another_name_is_refused(role: Any) -> None:
    assert list(violations({"message": {"messageId": "m", "role": role, "parts": [{"text": "a"}]}})) == ["message.role"]


def test_at_most_100_parts_are_accepted() -> None:
    assert len(read(parts=[{"text": "a"}] * 100).parts) == 100
    found = violations({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}] * 101}})
    assert list(found) == ["message.parts"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [1, 12, 24, 29])
def test_nested_data_up_to_the_limit_can_be_read_again(levels: int) -> None:
    message = read(parts=[{"data": nested(levels)}])
    request = a2a.SendMessageRequest(message=message)
    assert a2a.SendMessageRequest.FromString(request.SerializeToString()) == request


@pytest.mark.parametrize("levels", [30, 33, 48, 60])
def test_nested_data_beyond_the_limit_is_refused(levels: int) -> None:
    found = violations({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": nested(levels)}]}})
    assert list(found) == ["message.parts[0].data"]


def test_the_configuration_of_a_send_is_read_in_either_spelling() -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}
    plain = read_params(V1_0, "SendMessage", {"message": message})
    assert (plain.wait, plain.request) == (None, ParseDict({"message": message}, a2a.SendMessageRequest()))
    configuration = read_send(
        V1_0, {"message": message, "configuration": {"return_immediately": True, "history_length": "3"}}
    ).configuration
    assert (configuration.return_immediately, configuration.history_length) == (True, 3)
    with_push = {"message": message, "configuration": {"taskPushNotificationConfig": {"url": "https://example.com"}}}
    assert read_send(V1_0, with_push).configuration.HasField("task_push_notification_config")
    negative = {"message": message, "configuration": {"historyLength": -1}}
    assert violations(negative) == {"configuration.historyLength": "must be at least 0"}


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"page_size": "x"}, "pageSize"),
        ({"status": "completed"}, "status"),
        ({"status": "TASK_STATE_UNSPECIFIED"}, "status"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"historyLength": -1}, "historyLength"),
        ({"includeArtifacts": "yes"}, "includeArtifacts"),
    ],
)
def test_an_invalid_filter_of_a_list_is_refused_with_its_name(params: Any, path: str) -> None:
    """a2a E3, E4."""
    with pytest.raises(Invalid) as caught:
        read_params(V1_0, "ListTasks", params)
    assert list(caught.value.fields) == [path]


def test_a_list_has_all_four_members_and_artifacts_on_request_only() -> None:
    """a2a E2, E6."""
    empty = V1_0.result(Listing([], "", 50, 0))
    assert empty == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    task = a2a.Task(id="t")
    with_artifacts = V1_0.result(Listing([(task, "")], "", 50, 1, include_artifacts=True))
    assert with_artifacts["tasks"] == [{"id": "t", "artifacts": []}]
    without = V1_0.result(Listing([(task, "")], "", 50, 1))
    assert without["tasks"] == [{"id": "t"}]


def refused(**message: Any) -> Invalid:
    whole = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}], **message}
    with pytest.raises(Invalid) as caught:
        read_send(V1_0, {"message": whole})
    return caught.value


def test_an_array_over_its_limit_is_refused_without_reading_its_elements() -> None:
    assert len(read(parts=[{"text": "a"}] * 100).parts) == 100
    error = refused(parts=[{"text": "a"}] * 100 + [1])
    assert error.fields == {"message.parts": "must have at most 100 elements"}
    assert list(refused(extensions=["a"] * 101).fields) == ["message.extensions"]


def test_a_request_with_more_than_400_000_values_is_refused_unread() -> None:
    value = read(parts=[{"data": [None] * 399_999}]).parts[0].data
    assert len(value.list_value.values) == 399_999
    error = refused(parts=[{"data": [None] * 400_000}])
    assert (error.reason, list(error.fields)) == ("REQUEST_TOO_LARGE", ["message.parts[0].data"])
    error = refused(parts=[{"data": [None] * 300_000}, {"data": {"a": [None] * 99_998}}])
    assert (error.reason, list(error.fields)) == ("REQUEST_TOO_LARGE", ["message.parts[1].data"])
    assert refused(metadata={"a": [None] * 400_001}).reason == "REQUEST_TOO_LARGE"


def test_metadata_with_too_many_values_is_refused_unread() -> None:
    bad = Reading()
    fitting = Struct()
    fill_metadata(fitting, Fields({"metadata": {"a": [None] * 16_370}}, "", bad))
    assert not bad.found and MAX_METADATA_BYTES - 64 < fitting.ByteSize() <= MAX_METADATA_BYTES
    too_many: list[Any] = [{"a": [None] * 16_384}, {"a": [[]] * 100_000}, {str(key): 1 for key in range(100_000)}]
    for metadata in too_many:
        struct = Struct()
        bad = Reading()
        fill_metadata(struct, Fields({"metadata": metadata}, "", bad))
        assert bad.found == {"metadata": "must not be larger than 65536 bytes"}
        assert struct.ByteSize() < 64


def test_refused_metadata_hides_no_other_violation() -> None:
    error = refused(metadata={"a": [1] * 100_000}, role="x", parts=[{"data": [1] * 100_000}, {}])
    assert set(error.fields) == {"message.metadata", "message.role", "message.parts[1]"}
