"""A whole plane for the gateway's tests: one per module, since starting one is most of a test's time."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.gateway.plane import Plane, open_all


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Plane, None]:
    """A gateway before the demo agent. Tests that share it use contexts of their own."""
    async with open_all(tmp_path_factory.mktemp("plane")) as plane:
        yield plane
