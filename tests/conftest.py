"""What every suite stands on: a fresh database on each engine. A third engine is one word in ENGINES."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.support.postgres import CannotRun, Cluster, running
from tests.support.schemas import copy_schema

from taskplane.storage.engine import Engine, open_engine
from taskplane.storage.migrate import upgrade

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

ENGINES = ["sqlite", "postgres"]
Migrated = Callable[[str], Awaitable[str]]


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


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """PostgreSQL databases with the schema of a package, by package: migrated once, then copied."""
    return {}


@pytest.fixture
async def migrated(
    engine_name: str, request: pytest.FixtureRequest, tmp_path: Path, templates: dict[str, str]
) -> AsyncGenerator[Migrated, None]:
    """`await migrated("taskplane.tasks")`: the URL of a fresh database with the schema of that package."""
    async with AsyncExitStack() as stack:

        async def on_sqlite(package: str) -> str:
            copy = tmp_path / f"{package}.db"
            await copy_schema(package, copy)
            return f"sqlite:///{copy}"

        async def on_postgres(package: str) -> str:
            cluster: Cluster = request.getfixturevalue("cluster")
            if package not in templates:
                template = cluster.create()
                await upgrade(cluster.url(template), package)
                templates[package] = template
            database = cluster.create(templates[package])
            stack.callback(cluster.drop, database)
            return cluster.url(database)

        yield on_sqlite if engine_name == "sqlite" else on_postgres
