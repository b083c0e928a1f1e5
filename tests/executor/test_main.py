"""The executor as a process: over sockets, from settings, until it is stopped."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from tests.executor.plane import ANN, Stores, said

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.__main__ import serve
from taskplane.executor.settings import PREFIX, ExecutorSettings
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import Invalid
from taskplane.runtime.server import serving
from taskplane.runtime.settings import load
from taskplane.worker.settings import WorkerSettings


async def test_a_separate_executor_serves_over_sockets_and_drains(stores: Stores, tmp_path: Path) -> None:
    listen = f"unix:{tmp_path}/executor"
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(stores.services, f"unix:{tmp_path}/stores", grace=1.0))
        settings = ExecutorSettings(
            tasks=server.address, sessions=server.address, listen=listen, ops_listen="", renew_every=0.3
        )
        stop = asyncio.Event()
        running = asyncio.create_task(serve(settings, stop))
        channel = client(await stack.enter_async_context(connect(listen)), identity=ANN)
        executor = AgentExecutorStub(channel)
        agents = await executor.ListAgents(pb.ListAgentsRequest(), wait_for_ready=True)
        assert [agent.name for agent in agents.agents] == ["demo"]
        assert (await executor.GetAgentCard(pb.GetAgentCardRequest())).card.name == "demo"
        request = pb.SubmitRequest(request=a2a.SendMessageRequest(message=said("slow 2")))
        reference = (await executor.Submit(request)).task
        stop.set()
        await running
        record = (await stores.tasks().GetTask(tasks.GetTaskRequest(task_id=reference.task_id))).record
        assert record.state == a2a.TASK_STATE_COMPLETED


async def test_an_executor_is_ready_after_it_reached_its_stores(stores: Stores, tmp_path: Path) -> None:
    listen, target = f"unix:{tmp_path}/executor", f"unix:{tmp_path}/stores"
    async with AsyncExitStack() as stack:
        stop = asyncio.Event()
        settings = ExecutorSettings(tasks=target, sessions=target, listen=listen, ops_listen="", renew_every=0.3)
        running = asyncio.create_task(serve(settings, stop))
        health = cast("Any", HealthStub(await stack.enter_async_context(connect(listen))))
        question = HealthCheckRequest()
        answer = await health.Check(question, wait_for_ready=True)
        assert answer.status == HealthCheckResponse.NOT_SERVING
        await stack.enter_async_context(serving(stores.services, target, grace=1.0))
        async with asyncio.timeout(60):
            async for answer in health.Watch(question):
                if answer.status == HealthCheckResponse.SERVING:
                    break
        stop.set()
        await running


def test_settings_come_from_the_environment_and_are_checked() -> None:
    environ = {"TASKPLANE_EXECUTOR_AGENTS": "demo, other=demo", "TASKPLANE_EXECUTOR_CAPACITY": "7"}
    settings = load(ExecutorSettings, PREFIX, environ)
    assert settings.agents == ("demo", "other=demo") and settings.capacity == 7
    assert settings.run_limit == WorkerSettings().run_limit == 24 * 3600
    with pytest.raises(Invalid) as wrong:
        ExecutorSettings(renew_every=0, capacity=-1)
    assert set(wrong.value.fields) == {"renew_every", "capacity"}
