"""The scenarios with a remote agent: the executor of another adapter's scenarios, on the SDK's own server."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from tests.executor.adapters.agent_a2a_sdk import Scenarios
from tests.executor.adapters.scenarios import Adapter, Gate
from tests.executor.plane import Plane, Stores, open_plane
from tests.support.sdk_server import sdk_server

from taskplane.executor.adapters import adapt
from taskplane.executor.agent import Policy


@asynccontextmanager
async def opened(stores: Stores, gate: Gate, policies: Mapping[str, Policy]) -> AsyncGenerator[Plane]:
    """One server for all executors over these stores, as there is in the world."""
    async with sdk_server(Scenarios(gate)) as server:
        # The card is read without the event loop, in which the server is.
        agents = [(n, await asyncio.to_thread(adapt, server.url, n, policy)) for n, policy in policies.items()]
        async with open_plane(stores, *agents) as plane:
            yield plane
        for _, agent in agents:
            await agent.aclose()  # type: ignore[attr-defined]


ADAPTER = Adapter("remote", opened)
