"""Proxies of the environment are used for other hosts only."""

import pytest
from tests.gateway.plane import Plane
from tests.support.cutting import CuttingProxy

from taskplane.client import Client, Failure, FullTask, NotConnected

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_server_on_loopback_is_called_without_the_proxy(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for host in ("127.0.0.1", "localhost"):
        async with Client(f"http://{host}:{plane.gateway.port}") as client:
            assert isinstance(await client.send("hello"), FullTask)


async def test_a_server_elsewhere_is_called_through_the_proxy(
    proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway behind the proxy refuses the host."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    async with Client("http://plane.example") as client:
        with pytest.raises(Failure) as refused:
            await client.send("hello")
    assert not isinstance(refused.value, NotConnected)
