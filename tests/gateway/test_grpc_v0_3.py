"""A2A 0.3 over gRPC: names of resources, versions, statuses; the official client in its 0.3 mode reads it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from a2a.client import Client
from a2a.client.client import ClientCallContext
from a2a.compat.v0_3 import a2a_v0_3_pb2 as sdk
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub
from a2a.types import a2a_pb2 as core
from a2a.utils import errors as official
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.gateway.plane import Plane, fresh
from tests.gateway.test_grpc import refused
from tests.support.official_python import official_python

from taskplane.api import growing_text
from taskplane.api.message_metadata import CURSOR
from taskplane.gateway.errors import status_grpc_0_3
from taskplane.gateway.limits import MAX_PARTS, TOO_MANY_PARTS
from taskplane.runtime.errors import Exhausted, Internal, Invalid, NotFound, PermissionDenied, PlaneError, Refused
from taskplane.runtime.validation import NO_NUL

pytestmark = pytest.mark.asyncio(loop_scope="module")


def stub(plane: Plane) -> Any:
    return A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]


def saying(text: str, *, blocking: bool = True, **fields: Any) -> Any:
    message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, content=[sdk.Part(text=text)], **fields)
    return sdk.SendMessageRequest(request=message, configuration=sdk.SendMessageConfiguration(blocking=blocking))


async def status_of(call: Any) -> tuple[str, str]:
    """Return the code of a call that fails, and the name of the error."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, str(caught.value.details()).partition(":")[0]


async def test_tasks_are_named_by_resource_names(plane: Plane) -> None:
    """a2a A9."""
    task = (await stub(plane).SendMessage(saying("ask"))).task
    got = await stub(plane).GetTask(sdk.GetTaskRequest(name=f"tasks/{task.id}", history_length=1))
    assert (got.id, len(got.history)) == (task.id, 1)
    for name in (task.id, f"task/{task.id}", ""):
        assert await status_of(stub(plane).GetTask(sdk.GetTaskRequest(name=name))) == (
            "INVALID_ARGUMENT",
            "InvalidParamsError",
        )
    canceled = await stub(plane).CancelTask(sdk.CancelTaskRequest(name=f"tasks/{task.id}"))
    assert canceled.status.state == sdk.TASK_STATE_CANCELLED


async def test_only_a_send_that_blocks_waits_for_its_end(plane: Plane) -> None:
    """a2a C2, C3."""
    assert (await stub(plane).SendMessage(saying("hello"))).task.status.state == sdk.TASK_STATE_COMPLETED
    begun = (await stub(plane).SendMessage(saying("slow 200", blocking=False))).task
    assert begun.status.state == sdk.TASK_STATE_WORKING
    await stub(plane).CancelTask(sdk.CancelTaskRequest(name=f"tasks/{begun.id}"))


async def test_a_stream_has_one_task_without_history_and_its_last_status_is_final(plane: Plane) -> None:
    """a2a C20, C21, C24."""
    events = [event async for event in stub(plane).SendStreamingMessage(saying("chunks 3 2"))]
    assert [event.WhichOneof("payload") for event in events] == (
        ["task", "status_update", *["artifact_update"] * 3, "status_update"]
    )
    assert len(events[0].task.history) == 0
    assert [event.status_update.final for event in (events[1], events[-1])] == [False, True]


async def test_each_error_has_the_code_of_0_3_and_its_name_before_the_message(plane: Plane) -> None:
    """a2a I6, I8."""
    done = (await stub(plane).SendMessage(saying("hello"))).task
    push = sdk.CreateTaskPushNotificationConfigRequest(parent=f"tasks/{done.id}")
    assert [
        await status_of(stub(plane).GetTask(sdk.GetTaskRequest(name="tasks/none"))),
        await status_of(stub(plane).CancelTask(sdk.CancelTaskRequest(name=f"tasks/{done.id}"))),
        await status_of(stub(plane).SendMessage(sdk.SendMessageRequest())),
        await status_of(stub(plane).SendMessage(saying("more", task_id=done.id))),
        await status_of(stub(plane).CreateTaskPushNotificationConfig(push)),
        await status_of(stub(plane).GetAgentCard(sdk.GetAgentCardRequest())),
        await status_of(anext(aiter(stub(plane).TaskSubscription(sdk.TaskSubscriptionRequest(name="tasks/none"))))),
    ] == [
        ("NOT_FOUND", "TaskNotFoundError"),
        ("UNIMPLEMENTED", "TaskNotCancelableError"),
        ("INVALID_ARGUMENT", "InvalidParamsError"),
        ("UNIMPLEMENTED", "UnsupportedOperationError"),
        ("UNIMPLEMENTED", "PushNotificationNotSupportedError"),
        ("UNKNOWN", "AuthenticatedExtendedCardNotConfiguredError"),
        ("NOT_FOUND", "TaskNotFoundError"),
    ]


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (Invalid("m"), grpc.StatusCode.INVALID_ARGUMENT, "InvalidParamsError"),
        (NotFound("m", reason="TASK_NOT_FOUND"), grpc.StatusCode.NOT_FOUND, "TaskNotFoundError"),
        (Refused("m", reason="VERSION_NOT_SUPPORTED"), grpc.StatusCode.FAILED_PRECONDITION, "VersionNotSupportedError"),
        (PlaneError("m", reason="INVALID_AGENT_RESPONSE"), grpc.StatusCode.INTERNAL, "InvalidAgentResponseError"),
        (Internal("m"), grpc.StatusCode.INTERNAL, "InternalError"),
        (Exhausted("m", reason="SEND_RATE"), grpc.StatusCode.RESOURCE_EXHAUSTED, "ResourceExhaustedError"),
        (PermissionDenied("m"), grpc.StatusCode.PERMISSION_DENIED, "PermissionDeniedError"),
    ],
)
async def test_other_errors_have_a_code_and_a_name_too(error: PlaneError, code: grpc.StatusCode, name: str) -> None:
    status = status_grpc_0_3(error, "r")
    assert (status.code, status.message) == (code.value[0], f"{name}: m")


@pytest.mark.parametrize(("version", "served"), [("0.3", True), ("0.3.0", True), ("1.0", True), ("1.1", False)])
async def test_the_service_says_0_3_whichever_version_a_client_names(plane: Plane, version: str, served: bool) -> None:
    """a2a A10, H2, H3, K3."""
    call = stub(plane).SendMessage(saying("message hi"), metadata=(("a2a-version", version),))
    if served:
        assert (await call).msg.content[0].text == "hi"
    else:
        assert await status_of(call) == ("FAILED_PRECONDITION", "VersionNotSupportedError")


async def test_extensions_come_back_in_the_metadata_of_0_3(plane: Plane) -> None:
    """a2a H5."""
    call = stub(plane).SendMessage(saying("message hi"), metadata=(("x-a2a-extensions", growing_text.EXTENSION),))
    await call
    assert ("x-a2a-extensions", growing_text.EXTENSION) in tuple(await call.trailing_metadata())


async def test_reflection_describes_the_service_as_the_official_library_does(plane: Plane) -> None:
    """a2a J3, J4, J8."""

    def described() -> Any:
        with grpc.insecure_channel(plane.public.address) as channel:
            return ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol("a2a.v1.A2AService")

    file = await asyncio.to_thread(described)
    assert {one.name: (one.input_type, one.output_type, one.server_streaming) for one in file.service[0].method} == {
        one.name: (f".{one.input_type.full_name}", f".{one.output_type.full_name}", one.server_streaming)
        for one in sdk.DESCRIPTOR.services_by_name["A2AService"].methods
    }


@asynccontextmanager
async def calling(plane: Plane, *, streaming: bool = True) -> AsyncGenerator[Client, None]:
    """A client in its 0.3 mode, made of the card."""
    async with official_python(plane.gateway.url, "GRPC", "0.3", streaming=streaming) as (client, _):
        yield client


def asking(text: str, **fields: Any) -> core.SendMessageRequest:
    message = core.Message(message_id=fresh(), role=core.ROLE_USER, parts=[core.Part(text=text)], **fields)
    return core.SendMessageRequest(message=message)


async def test_the_official_client_sends_streams_resumes_and_cancels(plane: Plane) -> None:
    """a2a A9, K7, K15."""
    async with calling(plane) as client, calling(plane, streaming=False) as waiting:
        (answer,) = [event async for event in waiting.send_message(asking("hello"))]
        assert answer.task.status.state == core.TASK_STATE_COMPLETED
        (message,) = [event async for event in client.send_message(asking("message hi"))]
        assert message.message.parts[0].text == "hi"
        events = [event async for event in client.send_message(asking("chunks 5 2"))]
        held = [getattr(event, str(event.WhichOneof("payload"))) for event in events]
        subscription = core.SubscribeToTaskRequest(id=held[0].id)
        for index, one in enumerate(held):
            context = ClientCallContext(service_parameters={"Last-Event-ID": one.metadata[CURSOR]})
            assert [event async for event in client.subscribe(subscription, context=context)] == events[index + 1 :]
        (asked,) = [event async for event in waiting.send_message(asking("ask"))]
        canceled = await client.cancel_task(core.CancelTaskRequest(id=asked.task.id))
        assert canceled.status.state == core.TASK_STATE_CANCELED
        assert (await client.get_task(core.GetTaskRequest(id=asked.task.id))).status == canceled.status


async def test_the_official_client_knows_each_error_by_its_name(plane: Plane) -> None:
    """a2a I8."""
    async with calling(plane) as client, calling(plane, streaming=False) as waiting:
        (done,) = [event async for event in waiting.send_message(asking("hello"))]
        with pytest.raises(official.TaskNotFoundError):
            await client.get_task(core.GetTaskRequest(id="none"))
        with pytest.raises(official.TaskNotCancelableError):
            await client.cancel_task(core.CancelTaskRequest(id=done.task.id))
        with pytest.raises(official.UnsupportedOperationError):
            await anext(client.subscribe(core.SubscribeToTaskRequest(id=done.task.id)))
        with pytest.raises(official.InvalidParamsError):
            await client.get_task(core.GetTaskRequest(id="t", history_length=-1))


def named(text: str) -> Any:
    return sdk.GetTaskPushNotificationConfigRequest(name=text)


def wrong_send(*parts: Any, **configuration: Any) -> Any:
    message = sdk.Message(message_id="m", role=sdk.ROLE_USER, content=parts)
    return sdk.SendMessageRequest(request=message, configuration=sdk.SendMessageConfiguration(**configuration))


_NAME = "must be a name such as tasks/{task}"
_PUSH = sdk.PushNotificationConfig(
    url="\0", token="\0", authentication=sdk.AuthenticationInfo(schemes=["\0"], credentials="\0")
)
_PUSH_PATHS = ("url", "token", "authentication.schemes[0]", "authentication.credentials")


@pytest.mark.parametrize(
    ("method", "request_", "fields"),
    [
        ("GetTask", sdk.GetTaskRequest(name="/tasks/x"), {"name": _NAME}),
        ("GetTask", sdk.GetTaskRequest(name="tasks/x", history_length=-1), {"historyLength": "must be at least 0"}),
        ("CancelTask", sdk.CancelTaskRequest(name="x"), {"name": _NAME}),
        ("CancelTask", sdk.CancelTaskRequest(name="tasks/\0"), {"name": NO_NUL}),
        ("SendMessage", sdk.SendMessageRequest(), {"message": "is required"}),
        ("SendMessage", wrong_send(), {"message.content": "must not be empty"}),
        ("SendMessage", wrong_send(sdk.Part()), {"message.content[0]": "must have exactly one of text, file and data"}),
        ("SendMessage", wrong_send(*[sdk.Part()] * (MAX_PARTS + 1)), {"message.content": TOO_MANY_PARTS}),
        (
            "SendMessage",
            wrong_send(
                sdk.Part(text="\0"),
                sdk.Part(file=sdk.FilePart(file_with_uri="\0", name="\0", mime_type="\0")),
                sdk.Part(data=sdk.DataPart(data={"a": "\0"})),
            ),
            {
                "message.content[0].text": NO_NUL,
                "message.content[1].file.fileWithUri": NO_NUL,
                "message.content[1].file.name": NO_NUL,
                "message.content[1].file.mimeType": NO_NUL,
                "message.content[2].data.data": NO_NUL,
            },
        ),
        (
            "SendMessage",
            wrong_send(sdk.Part(text="a"), push_notification=_PUSH),
            {f"configuration.pushNotification.{path}": NO_NUL for path in _PUSH_PATHS},
        ),
        (
            "CreateTaskPushNotificationConfig",
            sdk.CreateTaskPushNotificationConfigRequest(
                parent="tasks/\0",
                config_id="\0",
                config=sdk.TaskPushNotificationConfig(push_notification_config=_PUSH),
            ),
            {
                **dict.fromkeys(("parent", "configId"), NO_NUL),
                **{f"config.pushNotificationConfig.{path}": NO_NUL for path in _PUSH_PATHS},
            },
        ),
        ("GetTaskPushNotificationConfig", named("tasks/t/pushNotificationConfigs/\0"), {"name": NO_NUL}),
        (
            "ListTaskPushNotificationConfig",
            sdk.ListTaskPushNotificationConfigRequest(parent="tasks/\0"),
            {"parent": NO_NUL},
        ),
    ],
)
async def test_a_wrong_field_has_its_json_path_in_the_request_of_0_3(
    plane: Plane, method: str, request_: Any, fields: dict[str, str]
) -> None:
    """a2a I6."""
    _, error = await refused(getattr(stub(plane), method)(request_))
    assert error.fields == fields
