"""A2A over gRPC: metadata, statuses, limits, and the ends of calls."""

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf.struct_pb2 import Struct
from google.protobuf.unknown_fields import UnknownFieldSet
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.executor.scripted import Scripted
from tests.gateway.failures import Failure, failed, status_of
from tests.gateway.plane import Plane, fresh, open_all, open_behind, open_front

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1.a2a_pb2 import AgentExtension
from taskplane.api.message_metadata import CURSOR
from taskplane.gateway.bindings import grpc_streams
from taskplane.runtime.identity import PRINCIPAL_KEY, PrincipalSigner
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVICE: Final = "/lf.a2a.v1.A2AService/"
CALLS: Final = f'taskplane_rpc_calls_total{{code="NOT_FOUND",method="{SERVICE}GetTask"}}'
OPEN: Final = f'taskplane_rpc_open_streams{{method="{SERVICE}SubscribeToTask"}}'


def stub(plane: Plane) -> Any:
    return A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]


def saying(text: str, metadata: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    """A send of the official library."""
    message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, parts=[sdk.Part(text=text)], **fields)
    if metadata:
        message.metadata.update(metadata)
    return sdk.SendMessageRequest(message=message)


async def refused(call: Any) -> tuple[grpc.StatusCode, Failure]:
    """The status of a call that fails, and what its details say."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), failed(caught.value)


def raw(plane: Plane, method: str) -> Any:
    """A method that sends and takes bytes."""
    channel: Any = plane.channel
    return channel.unary_unary(SERVICE + method)


async def first(call: Any) -> Any:
    return await anext(aiter(call))


async def test_a_request_that_is_no_message_is_refused_with_details(plane: Plane) -> None:
    for method in ("SendMessage", "GetTask", "ListTasks"):
        code, error = await refused(raw(plane, method)(b"\xff\xff"))
        assert (code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")
    channel: Any = plane.channel
    stream = channel.unary_stream(SERVICE + "SendStreamingMessage")
    code, error = await refused(first(stream(b"\xff\xff")))
    assert (code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


async def test_a_message_above_the_limits_is_refused_and_the_next_one_is_served(plane: Plane) -> None:
    code, error = await refused(stub(plane).SendMessage(saying("x" * (4 * 1024 * 1024 - 40_000))))
    assert (code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_TOO_LARGE")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub(plane).SendMessage(saying("x" * (5 * 1024 * 1024)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    large = (await stub(plane).SendMessage(saying("echo " + "y" * 2_000_000))).task
    assert large.status.state == sdk.TASK_STATE_COMPLETED


async def test_unknown_fields_are_ignored_and_not_stored(plane: Plane) -> None:
    # Field 1000, a text.
    unknown = b"\xc2\x3e\x04lost"
    message = saying("hello").message.SerializeToString() + unknown
    request = b"\x12" + bytes([len(message)]) + message + unknown
    reply = sdk.SendMessageResponse.FromString(await raw(plane, "SendMessage")(request))
    stored = await stub(plane).GetTask(sdk.GetTaskRequest(id=reply.task.id))
    assert b"lost" not in stored.SerializeToString()
    assert len(UnknownFieldSet(stored.history[0])) == 0


async def test_values_that_json_cannot_have_are_refused_by_their_paths(plane: Plane) -> None:
    bad = saying("hello", {"a": [math.inf]})
    bad.message.parts.add().data.struct_value.update({"b": "\0"})
    bad.metadata.update({"c\0": 1})
    code, error = await refused(stub(plane).SendMessage(bad))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert set(error.fields) == {"message.metadata", "message.parts[1].data", "metadata"}


async def test_keys_of_this_server_in_metadata_are_not_taken_from_clients(plane: Plane) -> None:
    mine = {CURSOR: "abc-1", "taskplane.dev/time": "never", "own": 1.0}
    task = (await stub(plane).SendMessage(saying("hello", mine))).task
    assert (kept := task.history[0].metadata)["own"] == 1.0
    assert CURSOR not in kept.fields and kept["taskplane.dev/time"] != "never"


async def test_each_event_carries_its_cursor_and_the_call_takes_it_back(plane: Plane) -> None:
    """C4: over gRPC nothing stands beside an event."""
    events = [event async for event in stub(plane).SendStreamingMessage(saying("chunks 4 2"))]
    held = [getattr(event, event.WhichOneof("payload")) for event in events]
    cursors = [one.metadata[CURSOR] for one in held]
    assert [int(cursor.rpartition("-")[2]) for cursor in cursors] == list(range(1, len(events) + 1))
    request = sdk.SubscribeToTaskRequest(id=held[0].id)
    rest = stub(plane).SubscribeToTask(request, metadata=(("last-event-id", cursors[2]),))
    assert [event async for event in rest] == events[3:]


@pytest.mark.parametrize("version", ["99.0", "1.1", "0.3", "x"])
async def test_another_version_is_refused_before_the_request_is_checked(plane: Plane, version: str) -> None:
    """a2a H1, H2."""
    code, error = await refused(stub(plane).GetTask(sdk.GetTaskRequest(), metadata=(("a2a-version", version),)))
    assert (code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "VERSION_NOT_SUPPORTED")
    code, error = await refused(stub(plane).GetTask(sdk.GetTaskRequest(), metadata=(("a2a-version", "1.0.7"),)))
    assert (code, list(error.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, ["id"])


class Demanding(Demo):
    """The demo, of clients that know an extension."""

    def __init__(self) -> None:
        super().__init__()
        self.card.capabilities.extensions.append(AgentExtension(uri="urn:needed", required=True))


async def test_extensions_in_use_come_back_and_a_required_one_must_be_named(tmp_path: Path) -> None:
    """a2a H4, H5."""
    async with open_all(tmp_path, ("demanding", Demanding())) as plane:
        code, error = await refused(stub(plane).SendMessage(saying("hello")))
        assert (code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "EXTENSION_SUPPORT_REQUIRED")
        named = (("a2a-extensions", "urn:other"), ("a2a-extensions", "urn:needed"))
        call = stub(plane).SendMessage(saying("hello"), metadata=named)
        assert (await call).HasField("task")
        assert dict(await call.trailing_metadata())["a2a-extensions"] == "urn:needed"
        stream = stub(plane).SendStreamingMessage(saying("hello"), metadata=(("x-a2a-extensions", "urn:needed"),))
        assert [event async for event in stream]
        assert dict(await stream.trailing_metadata())["a2a-extensions"] == "urn:needed"


async def test_a_compressed_request_is_refused(plane: Plane) -> None:
    """It would be decompressed before its caller is known."""
    sent = stub(plane).GetTask(sdk.GetTaskRequest(id="t" * 1_000), compression=grpc.Compression.Gzip)
    code, error = await refused(sent)
    assert (code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


async def test_a_message_of_too_many_parts_is_refused_before_they_are_read(plane: Plane) -> None:
    request = saying("hello")
    request.message.parts.extend(sdk.Part() for _ in range(1_000))
    code, error = await refused(stub(plane).SendMessage(request))
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert error.fields == {"message.parts": "must have at most 100 elements"}


async def test_a_cursor_in_the_metadata_of_a_cancel_is_not_stored(plane: Plane) -> None:
    stream = stub(plane).SendStreamingMessage(saying("slow 200"))
    task_id = (await first(stream)).task.id
    request = sdk.CancelTaskRequest(id=task_id)
    request.metadata.update({CURSOR: "abc-3", "why": "enough"})
    await stub(plane).CancelTask(request)
    log = (await plane.http.get(f"/api/tasks/{task_id}/events")).text
    assert "enough" in log and "abc-3" not in log


def keys_in(folder: Path) -> str:
    lines = [("ann", ""), ("reader", 'scopes = ["read"]\n'), ("operator", 'scopes = ["operate"]\n')]
    digest = hashlib.sha256(b"s3cret").hexdigest()
    file = folder / "keys.toml"
    file.write_text("".join(f'[[keys]]\nid = "{o}"\nsha256 = "{digest}"\nowner = "{o}"\n{more}' for o, more in lines))
    return str(file)


def give_to_bob(keys: str) -> None:
    file = Path(keys)
    file.write_text(file.read_text().replace('owner = "ann"', 'owner = "bob"'))


def bearing(key: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}.s3cret"),)


async def test_keys_come_in_metadata_and_their_scopes_count(tmp_path: Path) -> None:
    """a2a H15."""
    async with open_all(tmp_path, api_keys=keys_in(tmp_path)) as plane:
        code, error = await refused(stub(plane).ListTasks(sdk.ListTasksRequest()))
        assert (code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "NO_CREDENTIALS")
        assert "Bearer" in error.suggestion
        wrong = (("x-api-key", "ann.wrong"),)
        assert (await refused(stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=wrong)))[1].reason == (
            "BAD_CREDENTIALS"
        )
        for twice in ((*bearing("ann"), *bearing("reader")), (("x-api-key", "ann.s3cret"),) * 2):
            code, error = await refused(stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=twice))
            assert (code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "AMBIGUOUS_CREDENTIALS")
        task = (await stub(plane).SendMessage(saying("hello"), metadata=bearing("ann"))).task
        assert (await refused(stub(plane).GetTask(sdk.GetTaskRequest(id=task.id), metadata=bearing("reader"))))[0] is (
            grpc.StatusCode.NOT_FOUND
        )
        code, error = await refused(stub(plane).SendMessage(saying("hello"), metadata=bearing("reader")))
        assert (code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "READ_ONLY_KEY")
        code, error = await refused(stub(plane).ListTasks(sdk.ListTasksRequest(), metadata=bearing("operator")))
        assert (code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "OPERATE_ONLY_KEY")


async def test_a_principal_that_a_client_writes_itself_is_ignored(tmp_path: Path) -> None:
    """S2: what services sign for each other is nothing between clients and the gateway."""
    forged = PrincipalSigner(b"").write(Principal("default", "ann", "ann", service=True, operator=True))
    async with open_all(tmp_path, api_keys=keys_in(tmp_path)) as plane:
        task = (await stub(plane).SendMessage(saying("hello"), metadata=bearing("ann"))).task
        beside = ((PRINCIPAL_KEY, forged),)
        code, _ = await refused(stub(plane).GetTask(sdk.GetTaskRequest(id=task.id), metadata=beside))
        assert code is grpc.StatusCode.UNAUTHENTICATED
        request = sdk.GetTaskRequest(id=task.id)
        code, _ = await refused(stub(plane).GetTask(request, metadata=(*bearing("reader"), *beside)))
        assert code is grpc.StatusCode.NOT_FOUND
        # No signature is looked at, so that a wrong one is no error either.
        assert await stub(plane).GetTask(request, metadata=(*bearing("ann"), (PRINCIPAL_KEY, "x.y")))


class Held:
    """An agent that works until it is told to end."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.agent = Scripted(self._run)

    async def _run(self, turn: Turn) -> AsyncIterator[Change]:
        await self.end.wait()
        yield Complete("Done.")


async def ended(plane: Plane, task_id: str) -> Any:
    """The task once it has ended."""
    events = [event async for event in stub(plane).SubscribeToTask(sdk.SubscribeToTaskRequest(id=task_id))]
    return events[-1].status_update.status.state


async def test_a_deadline_ends_the_call_and_not_the_task(tmp_path: Path) -> None:
    held = Held()
    async with open_all(tmp_path, ("a", held.agent)) as plane:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub(plane).SendMessage(saying("go"), timeout=0.5)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        (task,) = (await stub(plane).ListTasks(sdk.ListTasksRequest())).tasks
        assert task.status.state == sdk.TASK_STATE_WORKING
        asyncio.get_running_loop().call_later(0.1, held.end.set)
        assert await ended(plane, task.id) == sdk.TASK_STATE_COMPLETED


async def test_a_stream_that_its_client_leaves_gives_its_slot_back_and_the_task_goes_on(tmp_path: Path) -> None:
    held = Held()
    async with open_all(tmp_path, ("a", held.agent), max_streams_per_principal=1) as plane:
        stream = stub(plane).SendStreamingMessage(saying("go"))
        task = (await first(stream)).task
        again = sdk.SubscribeToTaskRequest(id=task.id)
        code, error = await refused(first(stub(plane).SubscribeToTask(again)))
        assert (code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS")
        stream.cancel()
        async with asyncio.timeout(10):
            while True:
                other = stub(plane).SubscribeToTask(again)
                try:
                    assert (await first(other)).task.status.state == sdk.TASK_STATE_WORKING
                    break
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        held.end.set()
        assert [event async for event in other][-1].status_update.status.state == sdk.TASK_STATE_COMPLETED
        await plane.at_zero(OPEN)


async def test_a_drain_ends_streams_and_waits_as_unavailable_and_health_says_so(tmp_path: Path) -> None:
    """a2a C17."""
    held = Held()
    async with open_behind(tmp_path, ("a", held.agent)) as behind:
        async with open_front(behind) as plane:
            assert await health(plane) == "SERVING"
            stream = stub(plane).SendStreamingMessage(saying("go"))
            await first(stream)
            waiting = asyncio.ensure_future(stub(plane).SendMessage(saying("go")))
            async with asyncio.timeout(10):
                while (await stub(plane).ListTasks(sdk.ListTasksRequest())).total_size < 2:
                    pass
            await plane.public.health.shut()
            assert await health(plane) == "NOT_SERVING"
            draining = asyncio.create_task(rest_of(stream))
            sending = asyncio.create_task(refused(waiting))
        code, error = await draining
        assert (code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        code, error = await sending
        assert (code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
        # Whether the agent answers, or makes a task, may not be known yet.
        assert "under the same idempotency key" in error.suggestion
        held.end.set()
        async with open_front(behind) as plane, asyncio.timeout(10):
            while any(
                task.status.state != sdk.TASK_STATE_COMPLETED
                for task in (await stub(plane).ListTasks(sdk.ListTasksRequest())).tasks
            ):
                pass


async def rest_of(stream: Any) -> tuple[grpc.StatusCode, Failure]:
    """The end of a stream, which is an error."""

    async def read() -> None:
        async for _ in stream:
            pass

    return await refused(read())


async def health(plane: Plane, service: str = "lf.a2a.v1.A2AService") -> str:
    check = plane.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    async with asyncio.timeout(10):
        while True:
            reply = await check(health_pb2.HealthCheckRequest(service=service))
            if reply.status != health_pb2.HealthCheckResponse.SERVICE_UNKNOWN:
                return health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)


async def test_a_stream_ends_when_its_key_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held, keys = Held(), keys_in(tmp_path)
    monkeypatch.setattr(grpc_streams, "_CREDENTIALS_INTERVAL", 0.01)
    monkeypatch.setattr("taskplane.gateway.auth.key_file._RELOAD_INTERVAL", 0.0)
    async with open_all(tmp_path, ("a", held.agent), api_keys=keys) as plane:
        stream = stub(plane).SendStreamingMessage(saying("go"), metadata=bearing("ann"))
        await first(stream)
        give_to_bob(keys)
        code, error = await rest_of(stream)
        assert (code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "BAD_CREDENTIALS")


async def test_a_reader_that_stops_reading_is_cut_off_and_its_slot_given_back(tmp_path: Path) -> None:
    """a2a C17."""
    async with open_all(tmp_path, write_timeout=0.3) as plane:
        stream = stub(plane).SendStreamingMessage(saying("chunks 2000 4000"))
        await first(stream)
        await plane.at_zero(OPEN.replace("SubscribeToTask", "SendStreamingMessage"))
        code, error = await rest_of(stream)
        assert (code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "WRITE_TIMEOUT")


async def test_reflection_describes_the_service_under_its_official_name(plane: Plane) -> None:
    """a2a J3, J4, J6, K3: beside the official library, which has the same names in this process."""

    def described() -> tuple[list[str], Any]:
        with grpc.insecure_channel(plane.public.address) as channel:
            database = ProtoReflectionDescriptorDatabase(channel)
            file = database.FindFileContainingSymbol("lf.a2a.v1.A2AService")
            return list(database.get_services()), file

    names, file = await asyncio.to_thread(described)
    assert set(names) == {
        "lf.a2a.v1.A2AService",
        "a2a.v1.A2AService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    official = sdk.DESCRIPTOR.services_by_name["A2AService"]
    methods = {method.name: method for method in file.service[0].method}
    assert {name: (one.input_type, one.output_type, one.server_streaming) for name, one in methods.items()} == {
        one.name: (f".{one.input_type.full_name}", f".{one.output_type.full_name}", one.server_streaming)
        for one in official.methods
    }


async def test_calls_are_counted_and_a_status_is_small_enough_for_clients(plane: Plane) -> None:
    """A status above 8 KiB would reach a client as RESOURCE_EXHAUSTED."""
    bad = saying("hello")
    bad.message.reference_task_ids.extend("x" * 300 for _ in range(101))
    del bad.message.parts[:]
    bad.message.parts.extend(sdk.Part() for _ in range(90))
    code, error = await refused(stub(plane).SendMessage(bad))
    assert (code, len(error.fields) > 5) == (grpc.StatusCode.INVALID_ARGUMENT, True)
    await refused(stub(plane).GetTask(sdk.GetTaskRequest(id="none")))
    lines = (await plane.http.get("/metrics")).text.splitlines()
    assert any(line.startswith(CALLS) for line in lines), [line for line in lines if "A2AService" in line]


async def test_an_error_that_helps_to_retry_has_the_time(tmp_path: Path) -> None:
    async with open_all(tmp_path, max_streams_per_principal=1) as plane:
        stream = stub(plane).SendStreamingMessage(saying("slow 200"))
        task = (await first(stream)).task
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await first(stub(plane).SubscribeToTask(sdk.SubscribeToTaskRequest(id=task.id)))
        retry = error_details_pb2.RetryInfo()
        assert status_of(caught.value).details[-1].Unpack(retry)
        assert retry.retry_delay.seconds == 1
        await stub(plane).CancelTask(sdk.CancelTaskRequest(id=task.id))


async def test_a_message_with_many_values_leaves_the_event_loop_to_others(plane: Plane) -> None:
    data = Struct()
    data.update({f"k{number}": 1.0 for number in range(100_000)})
    request = saying("hello")
    request.message.parts.add().data.struct_value.CopyFrom(data)
    sending = asyncio.ensure_future(stub(plane).SendMessage(request))
    served = 0
    while not sending.done():
        await refused(stub(plane).GetTask(sdk.GetTaskRequest(id="none")))
        served += 1
    assert (await sending).task.status.state == sdk.TASK_STATE_COMPLETED
    assert served > 3
