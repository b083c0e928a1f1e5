"""One plane per module for the tests that do not kill it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.conftest import ENGINES
from tests.support.postgres import Cluster
from tests.system.plane import Plane, running


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in one process on SQLite. Modules marked `on_both_engines` get one on PostgreSQL as well."""
    folder = tmp_path_factory.mktemp("plane")
    async with running("one", folder, server=server_of(request.param, request)) as started:
        yield started


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest) -> Cluster | None:
    """For a test that runs on SQLite files (None) and on PostgreSQL."""
    return server_of(request.param, request)


def server_of(engine: str, request: pytest.FixtureRequest) -> Cluster | None:
    """The server that an engine needs."""
    if engine == "sqlite":
        return None
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster
