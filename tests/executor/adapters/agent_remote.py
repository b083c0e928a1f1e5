"""The scenarios with a remote agent: the executor of another adapter's scenarios, on the SDK's own server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.executor.adapters.agent_a2a_sdk import Scenarios
from tests.executor.adapters.scenarios import Adapter, Gate
from tests.executor.plane import Plane, Stores, open_plane
from tests.support.sdk_server import sdk_server

from taskplane.executor.adapters import adapt
from taskplane.executor.agent import Policy

# The URLs of the servers that are up, by the gate of their executor: executors of one test have one server.
_up: dict[Path, str] = {}


@asynccontextmanager
async def url_of(gate: Gate) -> AsyncGenerator[str]:
    """The URL of the one server with that gate."""
    if gate.path in _up:
        yield _up[gate.path]
        return
    async with sdk_server(Scenarios(gate)) as server:
        _up[gate.path] = server.url
        yield server.url
        del _up[gate.path]


@asynccontextmanager
async def opened(stores: Stores, gate: Gate, policies: Mapping[str, Policy]) -> AsyncGenerator[Plane]:
    """An executor of remote agents."""
    async with url_of(gate) as url:
        # The card is read without the event loop, in which the server is.
        agents = [(name, await asyncio.to_thread(adapt, url, name, policy)) for name, policy in policies.items()]
        async with open_plane(stores, *agents) as plane:
            yield plane


ADAPTER = Adapter("remote", opened)
