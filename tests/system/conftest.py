"""One plane per module for the tests that do not kill it."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.conftest import ENGINES
from tests.support.postgres import Cluster
from tests.system.plane import STEADY, Plane, running

# Processes that hold no database.
WITHOUT_DATABASE = {"executor", "gateway"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The deaths of processes without a database are the same on both engines: on SQLite only, but with THOROUGH=1."""
    if os.environ.get("THOROUGH"):
        return
    repeats = [item for item in items if _repeats(getattr(item, "callspec", None))]
    config.hook.pytest_deselected(items=repeats)
    items[:] = [item for item in items if item not in repeats]


def _repeats(case: Any) -> bool:
    values: dict[str, object] = case.params if case is not None else {}
    dies = values.get("name") or values.get("target")
    return dies in WITHOUT_DATABASE and "postgres" in (values.get("four"), values.get("server"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite"])
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Plane]:
    """A plane in one process on SQLite. Modules marked `on_both_engines` get one on PostgreSQL as well."""
    folder = tmp_path_factory.mktemp("plane")
    async with running("one", folder, STEADY, server=server_of(request.param, request)) as started:
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
