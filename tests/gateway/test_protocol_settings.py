"""The settings `error_map`, `strict_version` and `validate_input_modes`, over each binding."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from tests.executor.scripted import Scripted
from tests.gateway.bindings import LISTING, Binding, Client
from tests.gateway.plane import JSON_TYPE, Behind, Json, Plane, fresh, open_behind, open_front, said, said_0_3

from taskplane.agents.agent import AgentCard, AskInput, Change, Complete, Turn
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.bindings import rest
from taskplane.gateway.settings import ErrorMap
from taskplane.gateway.web.translation_thread import TranslationThread
from taskplane.runtime.errors import Refused

Column = tuple[int, str]

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ended(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("done")


async def asked(turn: Turn) -> AsyncIterator[Change]:
    if turn.attempt == 1 and not turn.history:
        yield AskInput("which one?")
    else:
        yield Complete("done")


def agent(run: Any = ended, **card: Any) -> Scripted:
    """Return an agent with this card, which ends each task at once unless `run` does otherwise."""
    made = Scripted(run)
    made.card = AgentCard(name="scripted", version="1", **card)
    return made


PICTURES: Final = agent(
    default_input_modes=["text/plain", "image/*"],
    skills=[{"id": "s", "name": "s", "description": "s", "tags": ["s"], "input_modes": ["Audio/WAV; rate=8000"]}],
)
"""An agent of texts and pictures with a skill for sounds."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Behind, None]:
    """Open the services for agents with several input modes, with none, and with all."""
    agents = (
        ("pictures", PICTURES),
        ("plain", agent()),
        ("any", agent(default_input_modes=["*/*"])),
        ("text", agent(default_input_modes=["text"])),
        ("file", agent(default_input_modes=["file", "data"])),
        ("image", agent(default_input_modes=["image"])),
        ("asking", agent(asked, default_input_modes=["text/plain", "application/json"])),
    )
    async with open_behind(tmp_path_factory.mktemp("plane"), *agents) as behind:
        yield behind


@pytest.mark.parametrize(
    ("error_map", "not_cancelable", "refusal", "old_version"),
    [
        ("1.0.1", (400, "FAILED_PRECONDITION"), (400, "FAILED_PRECONDITION"), (400, "FAILED_PRECONDITION")),
        ("1.0.0", (409, "FAILED_PRECONDITION"), (400, "UNIMPLEMENTED"), (400, "UNIMPLEMENTED")),
    ],
)
async def test_errors_over_rest_follow_the_error_map_and_those_of_0_3_do_not(
    behind: Behind, error_map: ErrorMap, not_cancelable: Column, refusal: Column, old_version: Column
) -> None:
    """a2a I1, I6."""
    async with open_front(behind, error_map=error_map) as plane:
        task = await plane.send("hello")
        cancel, subscribe = f"/tasks/{task['id']}:cancel", f"/tasks/{task['id']}:subscribe"
        assert await told(plane, "POST", cancel) == not_cancelable
        assert await told(plane, "POST", subscribe) == refusal
        assert await told(plane, "GET", "/tasks/none/pushNotificationConfigs") == refusal
        assert await told(plane, "GET", "/tasks", headers={"a2a-version": "1.1"}) == old_version
        assert await told(plane, "GET", "/tasks/none") == (404, "NOT_FOUND")
        plain = {"content": b"{}", "headers": {"content-type": "text/plain"}}
        assert await told(plane, "POST", "/message:send", **plain) == (415, "INVALID_ARGUMENT")
        assert await told(plane, "PUT", "/message:send") == (405, "UNIMPLEMENTED")
        assert await told(plane, "POST", f"/v1{cancel}") == (409, "UNIMPLEMENTED")
        assert await told(plane, "POST", f"/v1{subscribe}") == (501, "UNIMPLEMENTED")
        # JSON-RPC has one code for each error, whatever the map.
        assert (await plane.error("CancelTask", {"id": task["id"]}))["code"] == -32002


@pytest.mark.parametrize(
    ("error_map", "refusal"),
    [("1.0.1", grpc.StatusCode.FAILED_PRECONDITION), ("1.0.0", grpc.StatusCode.UNIMPLEMENTED)],
)
async def test_errors_over_grpc_follow_the_error_map_and_those_of_0_3_do_not(
    behind: Behind, error_map: ErrorMap, refusal: grpc.StatusCode
) -> None:
    """a2a I1, I6."""
    async with open_front(behind, error_map=error_map) as plane:
        stub: Any = A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
        old: Any = a2a_v0_3_pb2_grpc.A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
        task = await plane.send("hello")
        other = (("a2a-version", "1.1"),)
        codes = [
            await code_of(stub.CancelTask(sdk.CancelTaskRequest(id=task["id"]))),
            await code_of(stub.SubscribeToTask(sdk.SubscribeToTaskRequest(id=task["id"])).read()),
            await code_of(stub.GetTaskPushNotificationConfig(sdk.GetTaskPushNotificationConfigRequest(task_id="t"))),
            await code_of(stub.GetTask(sdk.GetTaskRequest(id=task["id"]), metadata=other)),
            await code_of(stub.GetTask(sdk.GetTaskRequest(id="none"))),
            await code_of(old.GetTask(a2a_v0_3_pb2.GetTaskRequest(name=f"tasks/{task['id']}"), metadata=other)),
        ]
    always = grpc.StatusCode.FAILED_PRECONDITION
    assert codes == [always, refusal, refusal, refusal, grpc.StatusCode.NOT_FOUND, always]


async def code_of(call: Any) -> grpc.StatusCode:
    """Return the code of a call that fails."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    code: grpc.StatusCode = caught.value.code()
    return code


async def told(plane: Plane, method: str, path: str, **sent: Any) -> Column:
    """Return the status of a REST error and its name in gRPC."""
    reply = await plane.http.request(method, path, **sent)
    error = reply.json()["error"]
    assert error["code"] == reply.status_code
    return reply.status_code, error["status"]


async def test_an_error_in_a_stream_follows_the_error_map() -> None:
    async def broken() -> AsyncGenerator[list[Item], None]:
        yield []
        raise Refused("m", reason="TASK_NOT_CANCELABLE")

    cases: tuple[tuple[ErrorMap, int], ...] = (("1.0.1", 400), ("1.0.0", 409))
    for error_map, status in cases:
        flow = PayloadStream(broken(), growing_text=False)
        *_, last = [chunk async for chunk in rest.FORMS[error_map].events(TranslationThread(), flow)]
        error = json.loads(last.decode().partition("data: ")[2])["error"]
        assert error["code"] == status


async def test_a_strict_gateway_refuses_requests_of_1_0_without_a_version(behind: Behind, binding: Binding) -> None:
    """a2a H3."""
    message = {"message": said("hello")}
    async with open_front(behind, strict_version=True) as plane:
        client = Client(plane, binding)
        if binding.version == "0.3":
            task = (await client.result("SendMessage", message))["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            return
        for headers in ({}, {"A2A_Version": ""}):
            for operation, params in (("SendMessage", message), ("GetTask", {"id": "none"}), ("ListTasks", {})):
                found = await client.error(operation, params, **headers)
                assert (found.code, found.reason) == (-32009, "VERSION_NOT_SUPPORTED")
                assert found.suggestion == "use A2A-Version 1.0"
        # The version is checked before the params.
        assert (await client.error("SendMessage", {})).code == -32009
        for version in ("1.0", "1.0.1"):
            task = (await client.result("SendMessage", {"message": said("hello")}, A2A_Version=version))["task"]
            assert (await client.result("GetTask", {"id": task["id"]}, A2A_Version=version))["id"] == task["id"]


async def test_a_version_in_the_query_is_enough_for_a_strict_gateway(behind: Behind) -> None:
    """a2a H1, H3."""
    async with open_front(behind, strict_version=True) as plane:
        assert (await plane.http.get("/tasks?A2A-Version=1.0")).is_success
        assert (await plane.http.get("/tasks")).status_code == 400
        assert (await plane.rpc("ListTasks", {}, path="/?A2A-Version=1.0"))["result"]["pageSize"]


async def test_a_lax_gateway_takes_the_version_from_the_method_or_the_path(behind: Behind, binding: Binding) -> None:
    """a2a H3, K7."""
    async with open_front(behind) as plane:
        task = (await Client(plane, binding).result("SendMessage", {"message": said("hello")}))["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"


RAW: Final = {"raw": "AA=="}
PARTS: Final[list[tuple[str, Json, str]]] = [
    ("pictures", {"text": "x"}, ""),
    ("pictures", {"text": "x", "mediaType": "text/plain; charset=utf-8"}, ""),
    ("pictures", {"text": "x", "mediaType": "text/csv"}, "text/csv"),
    ("pictures", {"data": {"n": 1}}, "application/json"),
    ("pictures", {"data": {"n": 1}, "mediaType": "image/svg+xml"}, ""),
    ("pictures", {**RAW, "mediaType": "Image/PNG"}, ""),
    ("pictures", {**RAW, "mediaType": "audio/wav"}, ""),
    ("pictures", {**RAW, "mediaType": "audio/ogg"}, "audio/ogg"),
    ("pictures", {**RAW, "mediaType": "images/png"}, "images/png"),
    ("pictures", RAW, ""),
    ("pictures", {"url": "https://example.com/a"}, ""),
    ("pictures", {"url": "https://example.com/a", "mediaType": "video/mp4"}, "video/mp4"),
    ("plain", {"text": "x"}, ""),
    ("plain", {"data": {"n": 1}}, "application/json"),
    ("any", {"data": {"n": 1}}, ""),
    ("any", {**RAW, "mediaType": "video/mp4"}, ""),
    # Modes without a slash, as early versions had them.
    ("text", {"text": "x"}, ""),
    ("text", {"text": "x", "mediaType": "application/x-tex"}, ""),
    ("text", {**RAW, "mediaType": "text/csv"}, ""),
    ("text", {"data": {"n": 1}}, "application/json"),
    ("text", {**RAW, "mediaType": "image/png"}, "image/png"),
    ("file", {**RAW, "mediaType": "image/png"}, ""),
    ("file", {"url": "https://example.com/a", "mediaType": "video/mp4"}, ""),
    ("file", {"data": {"n": 1}}, ""),
    ("file", {"text": "x"}, "text/plain"),
    ("image", {**RAW, "mediaType": "image/png"}, ""),
    ("image", {"text": "x"}, "text/plain"),
]


async def test_a_part_outside_the_input_modes_is_refused(behind: Behind) -> None:
    """a2a H13."""
    async with open_front(behind, validate_input_modes=True) as plane:
        for name, part, media_type in PARTS:
            reply = await plane.http.post(f"/agents/{name}/message:send", json={"message": said("x", parts=[part])})
            if not media_type:
                assert reply.is_success, (name, part)
                continue
            error = reply.json()["error"]
            info, wrong = error["details"]
            assert (reply.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
            assert (info["reason"], info["domain"]) == ("CONTENT_TYPE_NOT_SUPPORTED", "a2a-protocol.org")
            violation = {
                "field": "message.parts[0]",
                "description": f"is {media_type}, which the agent does not accept",
            }
            assert wrong["fieldViolations"] == [violation]


@pytest.mark.parametrize("listing", LISTING, ids=lambda binding: binding.name)
async def test_a_refused_message_names_the_modes_and_is_not_stored(behind: Behind, listing: Binding) -> None:
    """a2a H13."""
    async with open_front(behind, validate_input_modes=True, error_map="1.0.0") as plane:
        client = Client(plane, listing)
        context = fresh()
        parts = [{"text": "x"}, {"text": "y", "mediaType": "text/csv"}]
        sent = {"message": said("x", contextId=context, parts=parts)}
        for operation in ("SendMessage", "SendStreamingMessage"):
            found = await client.error(operation, sent)
            assert (found.code, found.reason) == (-32005, "MEDIA_TYPE_NOT_SUPPORTED")
            assert list(found.fields) == ["message.parts[1]"]
            assert found.suggestion == "the agent accepts audio/wav, image/*, text/plain"
        assert (await client.result("ListTasks", {"contextId": context})).get("tasks", []) == []


async def test_a_message_to_a_task_is_checked_by_the_modes_of_the_agent_of_the_task(behind: Behind) -> None:
    """a2a H13: whatever agent the path names."""
    async with open_front(behind, validate_input_modes=True) as plane:
        client = Client(plane, LISTING[0])
        sent = await plane.http.post("/agents/asking/message:send", json={"message": said("x")})
        task = sent.json()["task"]["id"]
        picture, data = {**RAW, "mediaType": "image/png"}, {"data": {"n": 1}}
        for operation in ("SendMessage", "SendStreamingMessage"):
            found = await client.error(operation, {"message": said("x", taskId=task, parts=[picture])})
            assert (found.reason, found.suggestion) == (
                "MEDIA_TYPE_NOT_SUPPORTED",
                "the agent accepts application/json, text/plain",
            )
        assert (await client.error("SendMessage", {"message": said("x", parts=[data])})).code == -32005
        answered = await client.send("x", message={"taskId": task, "parts": [data]})
        assert (answered["id"], answered["status"]["state"]) == (task, "TASK_STATE_COMPLETED")


async def test_a_file_of_0_3_outside_the_input_modes_is_refused(behind: Behind) -> None:
    async with open_front(behind, validate_input_modes=True) as plane:
        for mime_type, code in (("image/png", 0), ("video/mp4", -32005)):
            file = {"kind": "file", "file": {"bytes": "AA==", "mimeType": mime_type}}
            body = await plane.rpc("message/send", {"message": said_0_3("x", parts=[file])})
            assert body.get("error", {}).get("code", 0) == code
            content = [{"file": {"fileWithUri": "https://example.com/a", "mimeType": mime_type}}]
            message = {"messageId": fresh(), "role": "ROLE_USER", "content": content}
            reply = await plane.http.post("/v1/message:send", json={"message": message})
            assert reply.status_code == (415 if code else 200)


async def test_the_media_types_are_checked_after_the_params_and_before_the_task(behind: Behind) -> None:
    async with open_front(behind, validate_input_modes=True, error_map="1.0.0") as plane:
        bad: Json = said("x", parts=[{"data": 1}], taskId="none")
        for message, status in (({**bad, "messageId": ""}, 400), (bad, 415), ({**bad, "parts": [{"text": "x"}]}, 404)):
            reply = await plane.http.post("/message:send", content=json.dumps({"message": message}), headers=JSON_TYPE)
            assert reply.status_code == status


async def test_the_media_types_are_not_checked_by_default(behind: Behind) -> None:
    """a2a H13."""
    async with open_front(behind) as plane:
        for name, part, _ in PARTS:
            reply = await plane.http.post(f"/agents/{name}/message:send", json={"message": said("x", parts=[part])})
            assert reply.is_success, (name, part)
