"""A2A 0.3 over REST: what is written is the ProtoJSON of its protobuf alone, what is read has any spelling."""

import json
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as official
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.gateway.translate.instances import instances
from tests.gateway.translate.messages import responses, unhurried
from tests.gateway.translate.reading import read_params, read_send

from taskplane.api.a2a.v0_3 import a2a_pb2 as old
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.dialect import Answer, Wait
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.v0_3_rest import V0_3_REST
from taskplane.gateway.translate.wire_0_3.codec import event, to_1_0
from taskplane.runtime import json_lines
from taskplane.runtime.errors import Invalid


@unhurried
@given(responses())
def test_every_event_is_the_protojson_of_what_grpc_sends(response: a2a.StreamResponse) -> None:
    """a2a B15, B18: the official client refuses a body with a member that its messages do not have."""
    payload = getattr(response, response.WhichOneof("payload") or "task")
    written = json.loads(json_lines.encode(V0_3_REST.event(payload)))
    assert ParseDict(written, old.StreamResponse()) == event(payload)
    assert ParseDict(written, official.StreamResponse()).ByteSize() == event(payload).ByteSize()


def without_empty(request: a2a.SendMessageRequest) -> a2a.SendMessageRequest:
    """JSON has no metadata that is empty and present; the webhook of a send is refused, so it is not read."""
    owners: list[Any] = [request, request.message, *request.message.parts]
    for one in owners:
        if not one.metadata.fields:
            one.ClearField("metadata")
    if request.configuration.HasField("task_push_notification_config"):
        request.configuration.task_push_notification_config.Clear()
        request.configuration.task_push_notification_config.SetInParent()
    return request


@unhurried
@given(instances(old.SendMessageRequest), st.booleans())
def test_a_send_is_read_as_over_grpc_by_the_names_of_json_and_of_the_protobuf(
    request: old.SendMessageRequest, proto_names: bool
) -> None:
    """a2a B16."""
    kinds = [(part.WhichOneof("part"), part.file.WhichOneof("file")) for part in request.request.content]
    assume(all(kind and (kind != "file" or file) for kind, file in kinds))
    sent = MessageToDict(request, preserving_proto_field_name=proto_names)
    bad = Reading()
    found = V0_3_REST.requests.readers["SendMessage"](Fields(sent, "", bad))
    assert bad.found == {}
    assert isinstance(found.request, a2a.SendMessageRequest)
    expected = to_1_0(request)
    assert isinstance(expected, a2a.SendMessageRequest)
    assert without_empty(found.request) == without_empty(expected)


def read(*parts: Any, **message: Any) -> a2a.Message:
    whole = {"messageId": "m", "role": "user", "content": list(parts) or [{"text": "hi"}], **message}
    return read_send(V0_3_REST, {"message": whole}).message


@pytest.mark.parametrize(
    "sent",
    [
        {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hi"}]}},
        {"request": {"message_id": "m", "role": "user", "parts": [{"text": "hi"}]}},
        {"request": {"messageId": "m", "role": "user", "content": [{"text": "hi"}], "parts": None}, "message": None},
        {"message": {"messageId": "m", "role": 1, "parts": [{"kind": "text", "text": "hi"}], "kind": "message"}},
    ],
)
def test_a_message_is_read_in_each_spelling(sent: Any) -> None:
    """a2a B16."""
    expected = a2a.Message(message_id="m", role=a2a.ROLE_USER)
    expected.parts.add().text = "hi"
    assert read_send(V0_3_REST, sent).message == expected


def test_a_file_and_data_are_read_in_each_spelling() -> None:
    """a2a B16."""
    files = read(
        {"file": {"fileWithBytes": "aGk=", "mimeType": "text/csv", "name": "n"}},
        {"file": {"file_with_bytes": "aGk=", "mime_type": "text/csv", "name": "n"}},
        {"kind": "file", "file": {"bytes": "aGk=", "mimeType": "text/csv", "name": "n"}},
        {"file": {"fileWithUri": "https://example.com"}},
        {"file": {"file_with_uri": "https://example.com"}},
        {"kind": "file", "file": {"uri": "https://example.com"}},
    ).parts
    assert [part.raw for part in files[:3]] == [b"hi"] * 3
    assert {(part.filename, part.media_type) for part in files[:3]} == {("n", "text/csv")}
    assert [part.url for part in files[3:]] == ["https://example.com"] * 3
    data = read({"data": {"data": {"a": 1}}}, {"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}).parts
    assert [MessageToDict(part.data) for part in data] == [{"a": 1}] * 3
    assert read({"data": {}}).parts[0].data.WhichOneof("kind") == "struct_value"


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({}, "message.content[0]"),
        ({"text": "a", "data": {"data": {}}}, "message.content[0]"),
        ({"text": 7}, "message.content[0].text"),
        ({"data": {"data": [1]}}, "message.content[0].data.data"),
        ({"file": {}}, "message.content[0].file"),
        ({"file": {"fileWithBytes": "*"}}, "message.content[0].file.fileWithBytes"),
        ({"kind": "video", "text": "a"}, "message.content[0].kind"),
    ],
)
def test_a_wrong_part_is_named_by_its_path(part: Any, path: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(part)
    assert list(caught.value.fields) == [path]


@pytest.mark.parametrize(
    ("configuration", "wait"),
    [(None, Wait.GRACE), ({}, Wait.GRACE), ({"blocking": False}, Wait.GRACE), ({"blocking": True}, Wait.AT_REST)],
)
def test_only_a_send_that_blocks_waits_for_its_end(configuration: Any, wait: Wait) -> None:
    params = {"message": {"messageId": "m", "role": "user", "content": [{"text": "a"}]}, "configuration": configuration}
    assert read_params(V0_3_REST, "SendMessage", params).wait is wait


def test_no_history_length_and_0_are_the_same() -> None:
    """a2a C7, J11."""
    message = {"messageId": "m", "role": "user", "content": [{"text": "a"}]}
    for length, found in ((0, None), ("0", None), (2, 2)):
        sent = read_send(V0_3_REST, {"message": message, "configuration": {"history_length": length}}).configuration
        assert (sent.history_length if sent.HasField("history_length") else None) == found
        request = read_params(V0_3_REST, "GetTask", {"id": "t", "historyLength": length}).request
        assert isinstance(request, a2a.GetTaskRequest)
        assert (request.history_length if request.HasField("history_length") else None) == found
    with pytest.raises(Invalid):
        read_params(V0_3_REST, "GetTask", {"id": "t", "historyLength": -1})


@pytest.mark.parametrize("name", ["pushNotification", "push_notification", "pushNotificationConfig"])
def test_a_webhook_has_three_names(name: str) -> None:
    """a2a B16, B17."""
    message = {"messageId": "m", "role": "user", "content": [{"text": "a"}]}
    sent = read_send(V0_3_REST, {"message": message, "configuration": {name: {"url": "u", "authentication": {}}}})
    assert sent.configuration.HasField("task_push_notification_config")


def test_an_answer_has_a_wrapper_unless_the_call_was_about_a_task() -> None:
    """a2a B15."""
    task = a2a.Task(id="t", context_id="c")
    task.status.state = a2a.TASK_STATE_CANCELED
    shown = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_CANCELLED"}}
    assert V0_3_REST.result(Answer(task)) == {"task": shown}
    assert V0_3_REST.result(Answer(task, bare=True)) == shown
    message = a2a.Message(message_id="m", role=a2a.ROLE_AGENT, reference_task_ids=["t"])
    message.parts.add().text = "hi"
    said = {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "hi"}]}
    assert V0_3_REST.result(Answer(message)) == {"message": said}
    # It is required in 0.3, so it is there even if it is false.
    assert V0_3_REST.event(a2a.TaskStatusUpdateEvent())["statusUpdate"]["final"] is False
