"""A2A over gRPC beside the internal services, and on the port of a gateway process."""

import asyncio
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2 as sdk
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from tests.cli.command import taskplane
from tests.gateway.failures import failed
from tests.support.half_sent import HalfSent
from tests.support.ports import free_port
from tests.system.plane import STEADY, running
from tests.system.stores import task_store

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.errors import Unauthenticated

SECRET = "between ourselves"


def saying(text: str) -> Any:
    message = sdk.Message(message_id="m", role=sdk.ROLE_USER, parts=[sdk.Part(text=text)])
    return sdk.SendMessageRequest(message=message)


async def sent(address: str) -> Any:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        return (await stub.SendMessage(saying("echo hi"), metadata=(("a2a-version", "1.0"),))).task


async def test_the_shared_port_serves_everybody_a2a_and_services_the_rest(tmp_path: Path) -> None:
    """S2, C8: the public service needs no secret, and opens no way to the internal ones."""
    async with running("one", tmp_path, {**STEADY, "TASKPLANE_TASKS_INTERNAL_SECRET": SECRET}) as plane:
        task = await sent(plane.tasks_target)
        assert task.status.state == sdk.TASK_STATE_COMPLETED
        for secret in ("", "guessed"):
            with pytest.raises(Unauthenticated):
                async with task_store(plane, service=True, secret=secret.encode()) as (_, queue):
                    await queue.Renew(pb.RenewRequest(process_id="anybody"))
        async with grpc.aio.insecure_channel(plane.tasks_target) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as nobody:
                await rpc.TaskStoreStub(channel).GetTask(pb.GetTaskRequest(task_id=task.id))
        assert nobody.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_gateway_process_has_a_port_for_a2a_alone(tmp_path: Path) -> None:
    """S2: no internal service is behind it, whatever a caller claims to be."""
    port = free_port()
    settings = {f"TASKPLANE_{room}_INTERNAL_SECRET": SECRET for room in ("TASKS", "SESSIONS", "EXECUTOR", "GATEWAY")}
    async with running("four", tmp_path, {**STEADY, **settings, "TASKPLANE_GATEWAY_GRPC_PORT": str(port)}) as plane:
        task = await sent(f"127.0.0.1:{port}")
        assert task.status.state == sdk.TASK_STATE_COMPLETED
        plane.tasks_target = f"127.0.0.1:{port}"
        for secret in ("", SECRET):
            with pytest.raises(Exception, match=r"[Nn]ot found") as missing:
                async with task_store(plane, service=True, secret=secret.encode()) as (_, queue):
                    await queue.Renew(pb.RenewRequest(process_id="anybody"))
            assert getattr(missing.value, "code", "") == "UNIMPLEMENTED"


async def test_anonymous_streams_leave_room_for_keys_and_health_checks(tmp_path: Path) -> None:
    """More of them than a gateway process has places in all."""
    port = free_port()
    settings = {
        "TASKPLANE_GATEWAY_GRPC_PORT": str(port),
        "TASKPLANE_GATEWAY_MAX_GRPC_CALLS": "1",
    }
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running("four", tmp_path, {**STEADY, **settings}))
        channels: list[Any] = [
            await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own))
            for _ in range(5)
        ]
        stubs: list[Any] = [HealthStub(channel) for channel in channels]
        streams = [stub.Watch(HealthCheckRequest()) for stub in stubs[:4] for _ in range(90)]
        first = await asyncio.gather(*(stream.read() for stream in streams), return_exceptions=True)
        refused = [each for each in first if isinstance(each, grpc.aio.AioRpcError)]
        assert {failed(error).reason for error in refused} == {"TOO_MANY_CALLS"}
        assert len(refused) == 260
        assert (await stubs[4].Check(HealthCheckRequest())).status == HealthCheckResponse.SERVING
        assert (await sent(f"127.0.0.1:{port}")).status.state == sdk.TASK_STATE_COMPLETED


@pytest.mark.more
async def test_a_gateway_process_ends_in_time_whoever_reads_or_sends_nothing(tmp_path: Path) -> None:
    """C14: exit code 0, since both servers have the same deadline; one deadline after the other would be too late."""
    port = free_port()
    settings = {
        "TASKPLANE_GATEWAY_GRPC_PORT": str(port),
        "TASKPLANE_GATEWAY_DRAIN_DELAY": "0",
        "TASKPLANE_GATEWAY_SHUTDOWN_TIMEOUT": "7",
    }
    slow = [("grpc.http2.bdp_probe", 0)]
    async with (
        running("four", tmp_path, {**STEADY, **settings}) as plane,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=slow) as channel,
    ):
        stub: Any = A2AServiceStub(channel)  # type: ignore[no-untyped-call]
        unread = stub.SendStreamingMessage(saying("message " + "x" * 1_000_000))
        await unread.initial_metadata()
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "none"}}
        half = await HalfSent.begun(int(plane.url.rpartition(":")[2]), "POST", "/", body)
        began = time.monotonic()
        assert await plane.terminate("gateway") == 0
        assert 7.0 < time.monotonic() - began < 11.0
        await half.rest(send=False)


def test_a_port_that_is_taken_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        env = {"TASKPLANE_GATEWAY_PORT": "0", "TASKPLANE_GATEWAY_GRPC_PORT": str(port)}
        done = taskplane("serve", "gateway", cwd=tmp_path, env=env)
    assert done.returncode != 0
    assert f"127.0.0.1:{port}" in done.stderr and "TASKPLANE_GATEWAY_GRPC_PORT" in done.stderr
    assert "Traceback" not in done.stderr
