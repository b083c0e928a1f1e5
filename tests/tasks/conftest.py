"""The task store of most tests: migrated, served, and left without streams."""

from collections.abc import AsyncGenerator

import pytest
from tests.conftest import Migrated
from tests.tasks.plane import Plane, opened, until


@pytest.fixture
async def url(migrated: Migrated) -> str:
    """Return the URL of a database with the tables of the task store."""
    return await migrated("taskplane.tasks")


@pytest.fixture
async def plane(url: str) -> AsyncGenerator[Plane, None]:
    """Open a store in which no lease runs out during a test. In the end it holds no stream."""
    async with opened(url, lease_ttl=60.0) as plane:
        yield plane
        await until(lambda: not len(plane.service.claims) and not len(plane.service.watched))
