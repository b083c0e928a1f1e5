"""One plane per module: one for tests that do not kill it, and one for tests that kill its processes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.conftest import ENGINES
from tests.support.postgres import Cluster
from tests.support.thorough import THOROUGH
from tests.system.plane import STEADY, Plane, running

# Processes that hold no database.
WITHOUT_DATABASE = {"executor", "gateway"}
# The mode and the engine of tests that need not run in each mode on each engine.
CROSSED = {("four", "sqlite"), ("one", "postgres")}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip equal runs of a test, unless THOROUGH=1. Deaths of processes without a database run on SQLite only; other
    tests of one process and of four run in one on SQLite and in four on PostgreSQL."""
    if THOROUGH:
        return
    repeats = [item for item in items if _repeats(item)]
    config.hook.pytest_deselected(items=repeats)
    items[:] = [item for item in items if item not in repeats]


def _repeats(item: pytest.Item) -> bool:
    case: Any = getattr(item, "callspec", None)
    values: dict[str, object] = case.params if case is not None else {}
    engine, dies = values.get("four") or values.get("server"), values.get("name") or values.get("target")
    if engine == "postgres" and dies in WITHOUT_DATABASE:
        return True
    # Other tests have parameters of that name, too, of any type.
    return dies is None and any((values.get("mode"), engine) == each for each in CROSSED)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in one process on SQLite. Modules marked `on_both_engines` get one on PostgreSQL as well."""
    folder = tmp_path_factory.mktemp("plane")
    async with running("one", folder, STEADY, server=server_of(request.param, request)) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES)
async def four(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in four processes that are killed and started again."""
    server = server_of(request.param, request)
    async with running("four", tmp_path_factory.mktemp("plane"), STEADY, server=server) as started:
        yield started


@pytest.fixture(params=ENGINES)
def server(request: pytest.FixtureRequest) -> Cluster | None:
    """None for a test on SQLite files, otherwise a server of PostgreSQL."""
    return server_of(request.param, request)


def server_of(engine: str, request: pytest.FixtureRequest) -> Cluster | None:
    """The server that an engine needs."""
    if engine == "sqlite":
        return None
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster
