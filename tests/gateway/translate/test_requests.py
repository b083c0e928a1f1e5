"""Requests in JSON of each version, as its official library writes them, are read as the protobuf that they were."""

from typing import Any

import pytest
from a2a.compat.v0_3 import conversions
from a2a.types import a2a_pb2 as core
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.gateway.translate.instances import instances
from tests.gateway.translate.losses import TO_0_3_IN_JSON, lose
from tests.gateway.translate.messages import unhurried

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.dialect import Wait
from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.reading import Reading
from taskplane.gateway.translate.v0_3 import V0_3
from taskplane.gateway.translate.v1_0 import V1_0, Dialect

FORMS: list[tuple[str, type[Message]]] = [
    ("SendMessage", a2a.SendMessageRequest),
    ("GetTask", a2a.GetTaskRequest),
    ("ListTasks", a2a.ListTasksRequest),
    ("CancelTask", a2a.CancelTaskRequest),
    ("SubscribeToTask", a2a.SubscribeToTaskRequest),
]


def read(dialect: Dialect, operation: str, sent: Any) -> tuple[Any, Wait | None]:
    """Return the request that is read from JSON without a violation, and when it is answered."""
    bad = Reading()
    found = dialect.requests.readers[operation](Fields(sent, "", bad))
    assert bad.found == {}
    return found


def as_read(request: Any) -> Any:
    """Return a request without what a reader of JSON leaves to others: the tenant, which is read before; what a refused
    webhook has; and metadata that is empty and present."""
    request.ClearField("tenant")
    if isinstance(request, a2a.SendMessageRequest):
        if request.configuration.HasField("task_push_notification_config"):
            request.configuration.task_push_notification_config.Clear()
            request.configuration.task_push_notification_config.SetInParent()
        owners: list[Any] = [request, request.message, *request.message.parts]
    else:
        owners = [request] if isinstance(request, a2a.CancelTaskRequest) else []
    for one in owners:
        if not one.metadata.fields:
            one.ClearField("metadata")
    return request


def complete(request: Any) -> bool:
    """Whether a request has what JSON cannot leave out: a message, with content in each part."""
    sends = isinstance(request, a2a.SendMessageRequest)
    return not sends or (
        request.HasField("message") and all(part.WhichOneof("content") for part in request.message.parts)
    )


@pytest.mark.parametrize(("operation", "form"), FORMS, ids=[name for name, _ in FORMS])
@unhurried
@given(data=st.data(), proto_names=st.booleans())
def test_a_request_of_1_0_is_read_in_either_spelling_as_it_was(
    operation: str, form: type[Message], data: st.DataObject, proto_names: bool
) -> None:
    """a2a B2, B4, B6."""
    request = data.draw(instances(form))
    assume(complete(request))
    sent = MessageToDict(request, preserving_proto_field_name=proto_names)
    found, wait = read(V1_0, operation, sent)
    assert wait is None
    assert as_read(found) == as_read(request)


@unhurried
@given(request=instances(a2a.SendMessageRequest))
def test_a_send_that_the_official_library_writes_in_0_3_is_read_as_it_was(request: a2a.SendMessageRequest) -> None:
    """a2a B9, B12, B14, C2, K13: it always says whether it blocks."""
    assume(complete(request))
    written = conversions.to_compat_send_message_request(
        core.SendMessageRequest.FromString(request.SerializeToString()), "r"
    ).params.model_dump(mode="json", by_alias=True, exclude_none=True)
    found, wait = read(V0_3, "SendMessage", written)
    blocks = Wait.EXISTS if request.configuration.return_immediately else Wait.AT_REST
    assert wait is (blocks if request.HasField("configuration") else Wait.GRACE)
    expected = lose(request, TO_0_3_IN_JSON)
    # One that does not say is one that does not block.
    expected.configuration.return_immediately = wait is not Wait.AT_REST
    assert as_read(found) == as_read(expected)


@unhurried
@given(get=instances(a2a.GetTaskRequest), cancel=instances(a2a.CancelTaskRequest))
def test_a_read_and_a_cancel_that_the_official_library_writes_in_0_3_are_read_as_they_were(
    get: a2a.GetTaskRequest, cancel: a2a.CancelTaskRequest
) -> None:
    """a2a B12, C7: a history length of 0 is not lost in JSON."""
    calls: list[tuple[str, Any, Any, Any]] = [
        ("GetTask", get, core.GetTaskRequest, conversions.to_compat_get_task_request),
        ("CancelTask", cancel, core.CancelTaskRequest, conversions.to_compat_cancel_task_request),
    ]
    for operation, request, form, written_by in calls:
        written = written_by(form.FromString(request.SerializeToString()), "r").params
        found, _ = read(V0_3, operation, written.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert as_read(found) == as_read(request)
