"""The HTTP port for operators: what it answers, and how it fails to open."""

import asyncio
import socket

import httpx
import pytest

from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.runtime.health import Health
from taskplane.runtime.ops import serving_ops

SETTING = "TASKPLANE_TASKS_OPS_LISTEN"


async def test_readyz_follows_the_health_of_the_process_and_back_again() -> None:
    passes = False

    async def probe() -> bool:
        return passes

    health = Health([], probe, period=0.01, patience=0.0)
    probing = asyncio.create_task(health.run())
    async with serving_ops("127.0.0.1:0", health, setting=SETTING) as url, httpx.AsyncClient(verify=False) as client:

        async def until(status: int) -> None:
            async with asyncio.timeout(30.0):
                while (await client.get(f"{url}/readyz")).status_code != status:
                    pass

        await until(503)
        passes = True
        await until(200)
        passes = False
        await until(503)
        assert (await client.get(f"{url}/healthz")).json() == {"status": "ok"}
        probing.cancel()


async def test_readyz_gives_the_reason_of_plane_errors_only() -> None:
    """C15: the code and the sentence of a PlaneError; no text of any other exception of a probe."""
    dying: Exception = Unavailable("the database is read-only at the moment", reason="DATABASE_READ_ONLY")

    async def probe() -> bool:
        raise dying

    health = Health([], probe, period=0.01, patience=0.0)
    probing = asyncio.create_task(health.run())
    async with serving_ops("127.0.0.1:0", health, setting=SETTING) as url, httpx.AsyncClient(verify=False) as client:

        async def until(wanted: dict[str, object]) -> None:
            async with asyncio.timeout(30.0):
                while (await client.get(f"{url}/readyz")).json() != wanted:
                    pass

        await until({"ready": False, "why": "DATABASE_READ_ONLY: the database is read-only at the moment"})
        dying = OSError("db.example.com is gone")
        await until({"ready": False})
        probing.cancel()


async def test_metrics_are_in_the_prometheus_text_format() -> None:
    async with (
        serving_ops("127.0.0.1:0", Health([], None), setting=SETTING) as url,
        httpx.AsyncClient(verify=False) as client,
    ):
        answer = await client.get(f"{url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE taskplane_rpc_calls_total counter" in answer.text


async def test_an_empty_address_opens_nothing() -> None:
    async with serving_ops("", Health([], None), setting=SETTING) as url:
        assert url == ""


async def test_an_address_that_cannot_be_had_names_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Unavailable, match="cannot listen") as failed:
        async with serving_ops(f"127.0.0.1:{taken.getsockname()[1]}", Health([], None), setting=SETTING):
            pass
    assert SETTING in failed.value.suggestion
    with pytest.raises(Invalid) as refused:
        async with serving_ops("9051", Health([], None), setting=SETTING):
            pass
    assert SETTING in refused.value.fields
