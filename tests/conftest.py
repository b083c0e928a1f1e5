"""What every suite stands on: a fresh database on each engine. A third engine is one word in ENGINES."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.support import databases
from tests.support.postgres import CannotRun, Cluster, running
from tests.support.schemas import copy_schema
from tests.support.thorough import THOROUGH

from taskplane.storage.engine import Engine, open_engine

# How long an example takes says nothing on a machine that is busy with something else.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests that run on both engines run on SQLite in `make test` and on PostgreSQL in `make test-more`.
ENGINES: list[Any] = ["sqlite", pytest.param("postgres", marks=pytest.mark.more)]
# For tests of what does not depend on the engine.
ENGINES_IF_THOROUGH = ENGINES if THOROUGH else ENGINES[:1]
Migrated = Callable[[str], Awaitable[str]]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests marked `one_engine` on SQLite only, unless THOROUGH=1."""
    if THOROUGH:
        return
    repeats = [item for item in items if item.get_closest_marker("one_engine") and _on_postgres(item)]
    config.hook.pytest_deselected(items=repeats)
    left = set(repeats)
    items[:] = [item for item in items if item not in left]


def _on_postgres(item: pytest.Item) -> bool:
    case: Any = getattr(item, "callspec", None)
    return case is not None and "postgres" in case.params.values()


@pytest.fixture(scope="session")
def cluster() -> Generator[Cluster, None, None]:
    """One PostgreSQL server per pytest process. Where it cannot run: skipped, but under CI=true an error."""
    try:
        with running() as cluster:
            yield cluster
    except CannotRun as reason:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise
        pytest.skip(str(reason))


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    """The engine under test: everything that uses it runs once on each."""
    name: str = request.param
    return name


@pytest.fixture
def dsn(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str, None, None]:
    """The URL of a fresh, empty database."""
    if engine_name == "sqlite":
        yield f"sqlite:///{tmp_path}/plane.db"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    database = cluster.create()
    yield cluster.url(database)
    cluster.drop(database)


@pytest.fixture
async def engine(dsn: str) -> AsyncGenerator[Engine, None]:
    """An open engine on a fresh, empty database."""
    async with open_engine(dsn) as engine:
        yield engine


@pytest.fixture
async def migrated(engine_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Migrated, None]:
    """`await migrated("taskplane.tasks")`: the URL of a fresh database with the schema of that package."""
    async with AsyncExitStack() as stack:

        async def on_sqlite(package: str) -> str:
            copy = tmp_path / f"{package}.db"
            await copy_schema(package, copy)
            return f"sqlite:///{copy}"

        async def on_postgres(package: str) -> str:
            cluster: Cluster = request.getfixturevalue("cluster")
            return await stack.enter_async_context(databases.copied(cluster, package))

        yield on_sqlite if engine_name == "sqlite" else on_postgres


@pytest.fixture
async def database_url(engine_name: str, request: pytest.FixtureRequest) -> AsyncGenerator[str, None]:
    """The database of a whole plane: empty on SQLite, where it makes files of its own."""
    if engine_name == "sqlite":
        yield ""
        return
    async with databases.copied(request.getfixturevalue("cluster")) as url:
        yield url
