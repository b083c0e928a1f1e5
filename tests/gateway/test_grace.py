"""The answer to a send of A2A 0.3 that does not say whether it blocks, while no process runs its task."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as sdk
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub
from tests.gateway.plane import Plane, fresh, open_all, said_0_3

from taskplane.agents.agent import AgentCard
from taskplane.agents.elsewhere import Elsewhere
from taskplane.gateway.settings import GatewaySettings

GRACE: Final = 0.3


async def over_json_rpc(plane: Plane) -> str:
    state: str = (await plane.send_0_3("hello"))["status"]["state"]
    return state


async def over_rest(plane: Plane) -> str:
    message = {**said_0_3("hello"), "role": "ROLE_USER"}
    state: str = (await plane.http.post("/v1/message:send", json={"message": message})).json()["task"]["status"][
        "state"
    ]
    return state


async def over_grpc(plane: Plane) -> str:
    stub: Any = A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
    message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, content=[sdk.Part(text="hello")])
    answer = await stub.SendMessage(sdk.SendMessageRequest(request=message), timeout=20.0)
    state: str = sdk.TaskState.Name(answer.task.status.state)
    return state


@pytest.mark.parametrize("send", [over_json_rpc, over_rest, over_grpc], ids=lambda send: send.__name__)
async def test_a_send_that_does_not_say_is_answered_after_the_grace_though_its_task_waits(
    send: Callable[[Plane], Awaitable[str]], tmp_path: Path
) -> None:
    """a2a C3: a flag that is false cannot be told from one that is missing over REST and gRPC."""
    assert GatewaySettings().v03_send_grace_ms == 250
    far = ("far", Elsewhere(AgentCard(name="far", version="1")))
    clock = asyncio.get_running_loop().time
    async with open_all(tmp_path, far, v03_send_grace_ms=int(GRACE * 1000)) as plane, asyncio.timeout(20):
        began = clock()
        assert (await send(plane)).removeprefix("TASK_STATE_").lower() == "submitted"
        assert clock() - began >= GRACE
