"""One plane per module for the tests that do not kill it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.support.postgres import Cluster
from tests.system.plane import Plane, running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in one process on SQLite. Modules marked `on_both_engines` get one on PostgreSQL as well."""
    folder = tmp_path_factory.mktemp("plane")
    if request.param == "sqlite":
        async with running("one", folder) as started:
            yield started
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    database = cluster.create()
    async with running("one", folder, None, "--database-url", cluster.url(database)) as started:
        yield started
    cluster.drop(database)
