"""A gateway, an executor and the stores over sockets: the calls of a send, and connections that are closed."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
from prometheus_client import REGISTRY
from tests.executor.plane import open_stores, until
from tests.gateway.plane import Behind, Plane, said

from taskplane.agents.demo import Demo
from taskplane.agents.loading import Agents
from taskplane.api.executor.v1 import executor_pb2
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.executor import servicer
from taskplane.executor.composition import open_executor
from taskplane.executor.settings import ExecutorSettings
from taskplane.gateway.server import open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.channel import connect
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

STORES = (tasks_pb2.DESCRIPTOR, sessions_pb2.DESCRIPTOR)


class CallCounter(grpc.aio.ServerInterceptor):
    """A gRPC interceptor that counts calls by the name of the method."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        if not handler_call_details.method.startswith("/grpc."):
            self.calls[handler_call_details.method.rpartition(".")[2]] += 1
        return await continuation(handler_call_details)


@asynccontextmanager
async def open_sockets(directory: Path, counter: CallCounter, **ages: Any) -> AsyncGenerator[Plane]:
    """Open a plane with services that communicate over sockets. `ages`: limits of the connections to the stores."""
    services = Services(policy=servicer.POLICY)
    settings = ExecutorSettings(renew_every=0.3, drain_timeout=0.5, cancel_grace=1.0, strict_agents=True)
    async with (
        open_stores(directory) as stores,
        serving(stores.services, "127.0.0.1:0", interceptors=[counter], grace=0.2, **ages) as store_server,
        connect(store_server.address, *STORES) as to_stores,
        open_executor(
            settings, services, to_stores, to_stores, secrets.token_hex(8), agents=Agents({"demo": Demo()})
        ) as executor,
        serving(services, "127.0.0.1:0", interceptors=[counter], grace=0.2) as executor_server,
        connect(store_server.address, *STORES) as stores_of_gateway,
        connect(executor_server.address, executor_pb2.DESCRIPTOR) as to_executor,
        open_gateway(
            GatewaySettings(port=0, drain_delay=0.0, shutdown_timeout=2, card_age=600.0),
            tasks=stores_of_gateway,
            sessions=stores_of_gateway,
            executor=to_executor,
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60.0, verify=False) as http,
    ):
        async with asyncio.timeout(30):
            while not all((await http.get("/readyz")).json()["services"].values()):
                await asyncio.sleep(0.01)
        yield Plane(gateway, http, Behind(stores, executor, services))


def answered() -> Counter[str]:
    """Return the calls that were answered with OK, by the metric of each method."""
    (family,) = [each for each in REGISTRY.collect() if each.name == "taskplane_rpc_calls"]
    counted = [each for each in family.samples if each.name.endswith("_total") and each.labels["code"] == "OK"]
    return Counter({each.labels["method"].rpartition(".")[2]: int(each.value) for each in counted})


async def test_each_call_of_a_send_is_counted_under_its_method_name(tmp_path: Path) -> None:
    """Both a gRPC interceptor and the metric of each method count the seven calls of a blocking send."""
    counter = CallCounter()
    async with open_sockets(tmp_path, counter) as plane:
        await plane.send("hello")
        # The last call of the sweep at the start of an executor.
        await until(lambda: "TaskStore/ListUnfinishedImports" in counter.calls)
        before, metric = counter.calls.copy(), answered()
        for _ in range(3):
            task = await plane.send("hello")
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        expected = {
            "AgentExecutor/Submit": 3,
            "SessionHistory/AppendEntries": 6,
            "TaskStore/CreateTask": 3,
            "TaskStore/AppendEvents": 6,
            "TaskStore/WatchTask": 3,
        }
        assert {name: (counter.calls - before)[name] for name in expected} == expected
        assert set(counter.calls - before) - set(expected) <= {"TaskQueue/Renew"}
    assert {name: (answered() - metric)[name] for name in expected} == expected


async def test_streams_survive_closed_connections_without_loss_or_repetition(tmp_path: Path) -> None:
    """P12: connections to the stores are closed every second, during a stream, a blocking send and a Claim."""
    counter = CallCounter()
    async with open_sockets(tmp_path, counter, connection_age=0.5, connection_grace=0.5) as plane:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            blocking = group.create_task(plane.send("slow 16"))
            async with plane.stream("SendStreamingMessage", {"message": said("slow 16")}) as events:
                seen = [event async for event in events]
        generations = [int(event.id.rpartition("-")[2]) for event in seen]
        assert generations == list(range(1, len(seen) + 1))
        task_id = seen[0].result["task"]["id"]
        assert seen[-1].result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert blocking.result()["status"]["state"] == "TASK_STATE_COMPLETED"
        record = (await plane.result("GetTask", {"id": task_id}))["status"]["state"]
        assert record == "TASK_STATE_COMPLETED"
        assert counter.calls["TaskStore/WatchTask"] > 4
        assert counter.calls["TaskQueue/Claim"] > 2
