"""The stores and an executor for the executor's tests."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.executor.plane import Plane, Stores, open_plane, open_stores


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores, None]:
    """Both stores on fresh SQLite files."""
    async with open_stores(tmp_path) as stores:
        yield stores


@pytest.fixture
async def plane(stores: Stores) -> AsyncGenerator[Plane, None]:
    """An executor of the demo agent."""
    async with open_plane(stores) as plane:
        yield plane
