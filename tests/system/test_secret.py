"""With an internal secret, a caller of the gRPC ports needs the secret."""

from pathlib import Path

import grpc
import pytest
from tests.system.plane import Plane, running
from tests.system.stores import task_store
from tests.system.wire import client, send

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1 import tasks_pb2_grpc as rpc
from taskplane.runtime.errors import PermissionDenied, Unauthenticated

SECRET = "between ourselves"
# In one process the secret of one room is the secret of all.
ROOMS = {"one": ("TASKS",), "four": ("TASKS", "SESSIONS", "EXECUTOR", "GATEWAY")}


async def renew(plane: Plane, *, service: bool, secret: str) -> None:
    """Makes a call that only services may make."""
    async with task_store(plane, service=service, secret=secret.encode()) as (_, queue):
        await queue.Renew(pb.RenewRequest(process_id="anybody"))


async def test_without_a_secret_any_local_process_can_name_itself_a_service(tmp_path: Path) -> None:
    """S2, C8: calls refused to users succeed for any process that claims to be a service: nothing else is checked."""
    async with running("one", tmp_path) as plane:
        with pytest.raises(PermissionDenied):
            await renew(plane, service=False, secret="")
        await renew(plane, service=True, secret="")


@pytest.mark.parametrize("mode", ROOMS)
async def test_with_a_secret_a_principal_without_its_signature_is_refused(tmp_path: Path, mode: str) -> None:
    """S2, C8: also a call without a principal; the plane itself works."""
    settings = {f"TASKPLANE_{room}_INTERNAL_SECRET": SECRET for room in ROOMS[mode]}
    async with running(mode, tmp_path, settings) as plane:
        async with client(plane.url) as http:
            assert (await send(http, "echo hi"))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        for secret in ("", "guessed"):
            for service in (False, True):
                with pytest.raises(Unauthenticated) as refused:
                    await renew(plane, service=service, secret=secret)
                assert refused.value.reason == "BAD_SIGNATURE"
        async with grpc.aio.insecure_channel(plane.tasks_target) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as nobody:
                await rpc.TaskStoreStub(channel).ListTasks(pb.ListTasksRequest())
        assert nobody.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await renew(plane, service=True, secret=SECRET)
