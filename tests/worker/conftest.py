"""One plane for all tests here; no test leaves anything that another one would see."""

from collections.abc import AsyncGenerator

import httpx
import pytest
import pytest_asyncio
from tests.system.plane import Plane
from tests.system.wire import client
from tests.worker.plane import serving_card


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane]:
    """A plane with a default agent that runs in workers only."""
    async with serving_card(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def http(plane: Plane) -> AsyncGenerator[httpx.AsyncClient]:
    """Calls to the plane."""
    async with client(plane.url) as made:
        yield made
