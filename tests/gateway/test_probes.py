"""Health, readiness and metrics, and a gateway that ends."""

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


async def test_a_plane_that_works_is_live_and_ready_and_is_measured(tmp_path: Path) -> None:
    async with open_behind(tmp_path) as behind, open_front(behind) as plane:
        assert (await plane.http.get("/healthz")).json() == {"status": "ok"}
        ready = await plane.http.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["services"] == {"tasks": True, "sessions": True, "executor": True}
        await plane.send("hello")
        metrics = (await plane.http.get("/metrics")).text
        assert 'taskplane_http_requests_total{operation="SendMessage",outcome="ok"}' in metrics
        assert "taskplane_rpc_calls_total" in metrics


async def test_services_are_asked_by_the_health_protocol_and_one_that_fails_is_named() -> None:
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


async def test_a_service_that_is_not_ready_says_why(tmp_path: Path) -> None:
    """C15: over a channel that gives calls to healthy services only, so that it is asked on another one."""

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


async def test_a_gateway_with_a_service_missing_is_live_and_not_ready() -> None:
    """C15: UNAVAILABLE, or 503 with a time to wait; the process lives on."""
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


async def test_a_gateway_that_ends_is_not_ready_first_and_then_ends_its_streams_between_events(tmp_path: Path) -> None:
    """C14: 503, then `retry:` at an event boundary; runs go on."""
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
        # The task goes on without its watchers, for the next gateway to show.
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


async def test_a_send_that_still_waits_when_the_gateway_ends_is_told_that_its_task_goes_on(tmp_path: Path) -> None:
    """C14: a call that cannot be answered in time is told so."""
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


async def test_a_send_that_comes_when_the_gateway_ends_does_not_hold_it_up(tmp_path: Path) -> None:
    """C14: on a connection that is open already, until the server has noticed; none of them waits for its task."""
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


async def test_streams_outlive_a_restart_of_the_task_store_and_lose_nothing(tmp_path: Path) -> None:
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


async def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
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


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(Invalid) as caught:
        GatewaySettings(keep_alive=0, port=-1)
    assert set(caught.value.fields) == {"keep_alive", "port"}
    assert "hush" not in repr(GatewaySettings(internal_secret="hush", proxy_secret="hush"))
