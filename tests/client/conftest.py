"""A whole plane with real sockets for the tests of the client."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.executor.scripted import Stepped
from tests.gateway.plane import Plane, open_all
from tests.support.cutting import CuttingProxy, cutting

from taskplane.agents.demo import Demo


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """A gateway before the demo agent and one that the test steps."""
    directory = tmp_path_factory.mktemp("plane")
    async with open_all(directory, ("demo", Demo()), ("stepped", Stepped()), default_agent="demo") as plane:
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def proxy(plane: Plane) -> AsyncGenerator[CuttingProxy]:
    """A proxy before the gateway."""
    async with cutting("127.0.0.1", plane.gateway.port) as between:
        yield between
