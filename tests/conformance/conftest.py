"""The stores under test, each on a fresh database of every engine."""

from collections.abc import AsyncGenerator

import pytest
from tests.conformance.task_log import Plane, opened
from tests.conftest import Migrated


@pytest.fixture
async def plane(migrated: Migrated) -> AsyncGenerator[Plane, None]:
    """An open task log."""
    async with opened(await migrated("taskplane.tasks")) as plane:
        yield plane
