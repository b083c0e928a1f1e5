"""Health, readiness and metrics, and the shutdown of a gateway."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import httpx
import pytest
from tests.gateway.plane import Plane, events, open_behind, open_front, request, said
from tests.support.ports import free_port

from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.gateway.probes import probes
from taskplane.gateway.server import Gateway, open_gateway
from taskplane.gateway.settings import GatewaySettings
from taskplane.runtime.channel import InProcessChannel, client, connect
from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.runtime.principal import Principal
from taskplane.runtime.server import serving
from taskplane.runtime.services import Services

IDENTITY = Principal("", "", "gateway", service=True)


async def test_a_working_plane_is_live_and_ready_and_has_metrics(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        assert (await plane.http.get("/healthz")).json() == {"status": "ok"}
        ready = await plane.http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["services"] == {"tasks": True, "sessions": True, "executor": True}
        assert ready.json()["degraded"] is False
        await plane.send("hello")
        metrics = (await plane.http.get("/metrics")).text
        assert 'taskplane_http_requests_total{operation="SendMessage",outcome="ok"}' in metrics
        assert "taskplane_rpc_calls_total" in metrics


async def test_services_are_probed_by_the_health_protocol() -> None:
    healthy = True

    async def probe() -> bool:
        return healthy

    async with (
        serving(Services(policy={}), "127.0.0.1:0", ready=probe, patience=0.0) as service,
        connect(service.address) as channel,
        connect("127.0.0.1:1") as nowhere,
        asyncio.timeout(10),
    ):
        asked = probes({name: client(one, identity=IDENTITY) for name, one in (("up", channel), ("down", nowhere))})
        while not await asked["up"]():
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable):
            await asked["down"]()
        healthy = False
        while await asked["up"]():
            await asyncio.sleep(0.01)


async def test_readiness_has_the_reason_of_a_service_that_is_not_ready(tmp_path: Path) -> None:
    """C15: calls go to healthy services only, so the reason is requested over another channel."""

    async def probe() -> bool:
        raise Unavailable("the database is read-only at the moment", reason="DATABASE_READ_ONLY")

    services = InProcessChannel(Services(policy={}))
    async with (
        serving(Services(policy={}), "127.0.0.1:0", ready=probe, period=0.01, patience=0.0) as service,
        connect(service.address, tasks_pb2.DESCRIPTOR) as tasks,
        connect(service.address) as direct,
        open_gateway(
            GatewaySettings(port=0, drain_delay=0.0),
            tasks=tasks,
            sessions=services,
            executor=services,
            direct={"tasks": direct},
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url, verify=False) as http,
        asyncio.timeout(30),
    ):
        why = {"tasks": "DATABASE_READ_ONLY: the database is read-only at the moment"}
        while (answer := await http.get("/readyz")).json().get("why", {}).get("tasks") != why["tasks"]:
            assert answer.status_code == 503


async def test_a_gateway_with_a_missing_service_is_live_and_not_ready() -> None:
    """C15: calls get UNAVAILABLE, or 503 with a retry time; the process continues."""
    services = InProcessChannel(Services(policy={}))
    async with (
        connect("127.0.0.1:1") as nowhere,
        open_gateway(
            GatewaySettings(port=0, drain_delay=0.0), tasks=nowhere, sessions=services, executor=services
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        assert (await http.get("/healthz")).status_code == 200
        reply = await http.get("/readyz")
        assert reply.status_code == 503
        assert reply.json()["services"]["tasks"] is False
        failed = await http.post("/", json=request("GetTask", {"id": "x"}), timeout=20)
        assert failed.json()["error"]["code"] == -32603
        assert failed.json()["error"]["data"][0]["reason"] == "UNAVAILABLE"
        for path in ("/api/tasks/x", "/tasks/x"):
            plain = await http.get(path, timeout=20)
            assert (plain.status_code, plain.headers["retry-after"]) == (503, "1")


async def test_a_gateway_without_executors_is_ready_degraded_and_serves_reads(tmp_path: Path) -> None:
    """T4: a balancer keeps sending the reads and the saves of runtimes."""
    async with (
        open_behind(tmp_path) as behind,
        serving(behind.stores.services, "127.0.0.1:0", grace=0.0) as listening,
        connect(listening.address) as stores,
        connect("127.0.0.1:1") as nowhere,
        open_gateway(
            GatewaySettings(port=0, drain_delay=0.0), tasks=stores, sessions=stores, executor=nowhere
        ) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=20, verify=False) as http,
        asyncio.timeout(30),
    ):
        while (reply := await http.get("/readyz")).status_code != 200:
            pass
        found = reply.json()
        assert (found["ready"], found["degraded"], found["draining"]) == (True, True, False)
        assert found["services"] == {"tasks": True, "sessions": True, "executor": False}
        assert (await http.get("/api/sessions")).status_code == 200


async def test_a_drain_first_ends_readiness_and_then_streams_between_events(tmp_path: Path) -> None:
    """C14: 503, then `retry:` at an event boundary; runs continue."""
    async with open_behind(tmp_path) as behind:
        leave = asyncio.Event()
        began = asyncio.Event()
        planes: list[Plane] = []

        async def run() -> None:
            async with open_front(behind, drain_delay=0.5) as plane:
                planes.append(plane)
                began.set()
                await leave.wait()

        running = asyncio.create_task(run())
        async with asyncio.timeout(15):
            await began.wait()
            url = planes[0].gateway.url
            async with httpx.AsyncClient(base_url=url, timeout=15) as http:
                body = request("SendStreamingMessage", {"message": said("slow 200")})
                async with http.stream("POST", "/", json=body) as reply:
                    lines = reply.aiter_lines()
                    first = await anext(lines)
                    assert first.startswith("id: ")
                    leave.set()
                    while (await http.get("/readyz")).status_code != 503:
                        await asyncio.sleep(0.01)
                    assert (await http.get("/readyz")).json()["draining"] is True
                    rest = [line async for line in lines]
                assert rest[-1].startswith("retry: ")
                assert rest[-2] == ""
            await running
            with pytest.raises(httpx.ConnectError):
                await httpx.AsyncClient().get(url)
        # The task continues without watchers, and the next gateway shows it.
        async with open_front(behind) as plane:
            listed = (await plane.result("ListTasks", {}))["tasks"]
            assert listed[0]["status"]["state"] == "TASK_STATE_WORKING"
            cursor = first.removeprefix("id: ")
            async with asyncio.timeout(10):
                headers = {"Last-Event-ID": cursor}
                body = request("SubscribeToTask", {"id": listed[0]["id"]})
                async with plane.http.stream("POST", "/", json=body, headers=headers) as reply:
                    assert (await anext(events(reply))).id == cursor.replace("-1", "-2")
            await plane.result("CancelTask", {"id": listed[0]["id"]})


async def test_a_waiting_send_gets_shutting_down_and_its_task_continues(tmp_path: Path) -> None:
    """C14: a call that cannot be answered in time gets an error."""
    async with open_behind(tmp_path) as behind:
        async with httpx.AsyncClient(timeout=20) as http:
            async with open_front(behind) as plane:
                body = request("SendMessage", {"message": said("slow 200")})
                sending = asyncio.create_task(http.post(plane.gateway.url, json=body))
                while not (listed := (await plane.result("ListTasks", {}))["tasks"]):
                    pass
            error = (await sending).json()["error"]
        assert (error["code"], error["data"][0]["reason"]) == (-32603, "SHUTTING_DOWN")
        async with open_front(behind) as plane:
            canceled = await plane.result("CancelTask", {"id": listed[0]["id"]})
            assert canceled["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_send_during_the_shutdown_does_not_delay_it(tmp_path: Path) -> None:
    """C14: on an open connection, until the server has closed it. None of these sends waits for its task."""
    async with open_behind(tmp_path) as behind, httpx.AsyncClient(timeout=20) as http:
        reasons: list[str] = []
        gone = False

        async def sending(url: str) -> None:
            nonlocal gone
            while not gone:
                try:
                    reply = await http.post(url, json=request("SendMessage", {"message": said("slow 200")}))
                except httpx.TransportError:
                    gone = True
                else:
                    reasons.append(reply.json()["error"]["data"][0]["reason"])

        async with asyncio.TaskGroup() as group:
            async with open_front(behind, shutdown_timeout=60) as plane:
                for _ in range(4):
                    group.create_task(sending(plane.gateway.url))
                while len((await plane.result("ListTasks", {}))["tasks"]) < 4:
                    pass
                began = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - began < 15.0
            gone = True
        assert set(reasons) == {"SHUTTING_DOWN"}


async def test_streams_survive_a_restart_of_the_task_store_without_loss(tmp_path: Path) -> None:
    """P12."""
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(open_behind(tmp_path))
        store = AsyncExitStack()
        first = await store.enter_async_context(serving(behind.stores.services, f"127.0.0.1:{free_port()}", grace=0.0))
        tasks = await stack.enter_async_context(connect(first.address))
        others = InProcessChannel(behind.stores.services)
        runs = InProcessChannel(behind.services)
        settings = GatewaySettings(port=0, drain_delay=0.0)
        gateway = await stack.enter_async_context(open_gateway(settings, tasks=tasks, sessions=others, executor=runs))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=gateway.url, timeout=20))
        plane = Plane(gateway, http, behind)
        async with asyncio.timeout(20), plane.stream("SendStreamingMessage", {"message": said("slow 8")}) as found:
            seen = [await anext(found) for _ in range(3)]
            await store.aclose()
            await stack.enter_async_context(serving(behind.stores.services, first.address, grace=0.0))
            seen += [event async for event in found]
        generations = [int(event.id.rpartition("-")[2]) for event in seen]
        assert generations == list(range(1, len(seen) + 1))
        assert seen[-1].result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_port_in_use_is_refused_with_its_number(tmp_path: Path) -> None:
    services = InProcessChannel(Services(policy={}))

    def opening(port: int) -> AbstractAsyncContextManager[Gateway]:
        settings = GatewaySettings(port=port, drain_delay=0.0)
        return open_gateway(settings, tasks=services, sessions=services, executor=services)

    async with opening(0) as gateway:
        with pytest.raises(Unavailable) as caught:
            async with opening(gateway.port):
                pass
    assert caught.value.reason == "CANNOT_LISTEN"
    assert str(gateway.port) in caught.value.message


def test_invalid_settings_are_refused_by_field() -> None:
    with pytest.raises(Invalid) as caught:
        GatewaySettings(keep_alive=0, port=-1)
    assert set(caught.value.fields) == {"keep_alive", "port"}
    assert "hush" not in repr(GatewaySettings(internal_secret="hush", proxy_secret="hush"))
