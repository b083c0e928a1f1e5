"""A whole plane with real sockets for the tests of the client."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.gateway.plane import Plane, open_all
from tests.support.cutting import CuttingProxy, cutting


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """A gateway before the demo agent."""
    async with open_all(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest_asyncio.fixture(loop_scope="module")
async def proxy(plane: Plane) -> AsyncGenerator[CuttingProxy]:
    """A proxy before the gateway."""
    async with cutting("127.0.0.1", plane.gateway.port) as between:
        yield between
