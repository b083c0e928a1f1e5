"""What is served under /api is what the stores hold, so it is tested on each engine."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.gateway.plane import Plane, open_all
from tests.support.postgres import Cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgres"])
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Plane, None]:
    """A gateway before the demo agent. Tests that share it use contexts of their own."""
    folder = tmp_path_factory.mktemp("plane")
    if request.param == "sqlite":
        async with open_all(folder) as plane:
            yield plane
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    database = cluster.create()
    async with open_all(folder, database_url=cluster.url(database)) as plane:
        yield plane
    cluster.drop(database)
