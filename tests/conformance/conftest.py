"""The stores under test, each on a fresh database of every engine."""

from collections.abc import AsyncGenerator

import pytest
from tests.conformance import session_log, task_log
from tests.conftest import Migrated


@pytest.fixture
async def plane(migrated: Migrated) -> AsyncGenerator[task_log.Plane, None]:
    """An open task log."""
    async with task_log.opened(await migrated("taskplane.tasks")) as plane:
        yield plane


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[session_log.Sessions, None]:
    """An open session log."""
    async with session_log.opened(await migrated("taskplane.sessions")) as sessions:
        yield sessions
