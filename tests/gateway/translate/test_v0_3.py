"""A2A 0.3 JSON: the models of the official library can read it, and it has the same content as 1.0."""

from typing import Any

import pytest
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as official
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.translate.losses import TO_0_3_IN_JSON, lose
from tests.gateway.translate.messages import artifact_updates, messages, status_updates, tasks, unhurried, values
from tests.gateway.translate.reading import read_params, read_send

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import CURSOR
from taskplane.gateway.translate.dialect import Payload, Wait
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.parts import read_0_3, to_0_3
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.v0_3 import STATES, V0_3
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.runtime import json_lines
from taskplane.runtime.errors import Invalid

READERS: list[tuple[str, Any, Any]] = [
    ("Task", tasks(), conversions.to_core_task),
    ("Message", messages(), conversions.to_core_message),
    ("TaskStatusUpdateEvent", status_updates(), conversions.to_core_task_status_update_event),
    ("TaskArtifactUpdateEvent", artifact_updates(), conversions.to_core_task_artifact_update_event),
]


@pytest.mark.parametrize(("name", "made", "to_core"), READERS, ids=[name for name, *_ in READERS])
@unhurried
@given(data=st.data())
def test_the_official_library_reads_each_element_without_what_0_3_cannot_say(
    name: str, made: st.SearchStrategy[Payload], to_core: Any, data: st.DataObject
) -> None:
    """T1, a2a B9, B10, B11, B14, K4: in 0.3 there is always a `kind`; its conversion to 1.0 is the message as it was,
    without the losses that are listed."""
    found = data.draw(made)
    written = V0_3.event(found)
    model = getattr(official, name).model_validate_json(json_lines.encode(written))
    assert model.kind == written["kind"]
    again = type(found).FromString(to_core(model).SerializeToString())
    # The library keeps empty metadata in some places.
    assert lose(again, TO_0_3_IN_JSON) == lose(found, TO_0_3_IN_JSON)


@pytest.mark.parametrize(
    ("state", "final"),
    [
        ("submitted", False),
        ("working", False),
        ("auth-required", False),
        ("input-required", True),
        ("completed", True),
        ("failed", True),
        ("canceled", True),
        ("rejected", True),
    ],
)
def test_final_is_true_for_ended_tasks_and_input_required(state: str, final: bool) -> None:
    """a2a B10, C21."""
    number = next(number for number, name in STATES.items() if name == state)
    update = a2a.TaskStatusUpdateEvent()
    update.status.state = a2a.TaskState.ValueType(number)
    assert V0_3.event(update)["final"] is final
    assert V0_3.event(update)["status"]["state"] == state


@pytest.mark.parametrize("metadata", [{}, {"of": "agent"}])
def test_a_cursor_stands_in_the_metadata_of_every_event_of_a_task(metadata: dict[str, Any]) -> None:
    payloads: list[a2a.Task | a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent] = [
        a2a.Task(id="t", context_id="c"),
        a2a.TaskStatusUpdateEvent(task_id="t"),
        a2a.TaskArtifactUpdateEvent(task_id="t"),
    ]
    for payload in payloads:
        payload.metadata.update(metadata)
        for written in (V0_3.event(payload, "abc-7"), *V1_0.event(payload, "abc-7").values()):
            assert written["metadata"] == {**metadata, CURSOR: "abc-7"}
        assert dict(payload.metadata) == metadata


@unhurried
@given(values)
def test_any_data_is_unchanged_by_writing_and_reading(value: Any) -> None:
    """a2a B14: values without a form in 0.3 are wrapped and marked on output, and unwrapped on input."""
    bad = Reading()
    message = a2a.Message()
    given_part = {"kind": "data", "data": {"value": value}, "metadata": {"data_part_compat": True}}
    read_0_3(Fields(given_part, "part", bad), message.parts)
    bad.check()
    written = to_0_3(message.parts[0])
    assert isinstance(written["data"], dict)
    again = a2a.Message()
    read_0_3(Fields(written, "part", bad), again.parts)
    assert again.parts[0].data == message.parts[0].data
    assert not again.parts[0].HasField("metadata")


def read(*parts: Any, **message: Any) -> a2a.Message:
    whole = {"messageId": "m", "role": "user", "parts": list(parts) or [{"kind": "text", "text": "hi"}], **message}
    return read_send(V0_3, {"message": whole}).message


def violations(*parts: Any, **message: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        read(*parts, **message)
    return list(caught.value.fields)


def test_each_kind_of_part_is_read() -> None:
    """a2a B14."""
    parts = read(
        {"kind": "text", "text": "hi", "metadata": {"a": 1}},
        {"kind": "file", "file": {"name": "n", "mimeType": "text/csv", "bytes": "aGk="}},
        {"kind": "file", "file": {"uri": "https://example.com", "mime_type": "text/html"}},
        {"kind": "data", "data": {"value": 1}},
    ).parts
    assert [part.WhichOneof("content") for part in parts] == ["text", "raw", "url", "data"]
    assert (parts[1].filename, parts[1].media_type, parts[1].raw) == ("n", "text/csv", b"hi")
    assert parts[2].media_type == "text/html"
    assert to_0_3(parts[3]) == {"kind": "data", "data": {"value": 1}}


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "text", "text": "a"}, "message.parts[0].kind"),
        ({"kind": "video", "text": "a"}, "message.parts[0].kind"),
        ({"text": "a"}, "message.parts[0].kind"),
        ({"kind": "text"}, "message.parts[0].text"),
        ({"kind": "data", "data": [1]}, "message.parts[0].data"),
        ({"kind": "data"}, "message.parts[0].data"),
        ({"kind": "file", "file": {}}, "message.parts[0].file"),
        ({"kind": "file", "file": {"bytes": "aGk=", "uri": "x"}}, "message.parts[0].file"),
        ({"kind": "file", "file": {"bytes": "*"}}, "message.parts[0].file.bytes"),
    ],
)
def test_an_invalid_part_is_refused_with_its_path(part: Any, path: str) -> None:
    """a2a B13."""
    assert violations(part) == [path]


def test_unknown_fields_are_ignored_and_an_unknown_role_is_refused() -> None:
    """a2a B13."""
    assert read(role="agent", extra=1).role == a2a.ROLE_AGENT
    assert violations(role="assistant") == ["message.role"]
    assert violations(parts=[]) == ["message.parts"]


@pytest.mark.parametrize(
    ("configuration", "wait"),
    [({}, Wait.GRACE), (None, Wait.GRACE), ({"blocking": True}, Wait.AT_REST), ({"blocking": False}, Wait.EXISTS)],
)
def test_blocking_decides_how_long_a_send_waits(configuration: Any, wait: Wait) -> None:
    """a2a B12, C2, C3."""
    params = {
        "message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "a"}]},
        "configuration": configuration,
    }
    assert read_params(V0_3, "SendMessage", params).wait is wait
