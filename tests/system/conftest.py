"""One plane per module for the tests that do not kill it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.system.plane import Plane, running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["one"])
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in one process on SQLite."""
    async with running(request.param, tmp_path_factory.mktemp("plane")) as started:
        yield started
