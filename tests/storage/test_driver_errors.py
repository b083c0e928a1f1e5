"""What clients see when a database fails: one sentence, whatever the driver said; the log has what it said."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from tests.support.ports import refusing_port
from tests.support.postgres import Cluster

from taskplane.runtime.errors import Unavailable
from taskplane.storage import driver_errors
from taskplane.storage.engine import Engine, open_engine

_SENTENCE = "the database is unreachable or unable to work at the moment"


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that an earlier test logged is logged again."""
    monkeypatch.setattr(driver_errors, "_logged", {})


async def refused(failing: Callable[[], Awaitable[object]], caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of a call that fails with the one sentence and nothing beside it."""
    with caplog.at_level(logging.WARNING), pytest.raises(Unavailable) as caught:
        await failing()
    error = caught.value
    assert (error.message, error.reason) == (_SENTENCE, "DATABASE_DOWN")
    assert (error.suggestion, error.fields, error.metadata) == ("", {}, {})
    said = [record.getMessage() for record in caplog.records if record.name == driver_errors.__name__]
    assert len(said) == 1, said
    return said[0]


async def opened(url: str) -> None:
    async with open_engine(url):
        pass


async def test_a_server_that_is_not_there_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    """C15."""
    with refusing_port() as port:
        url = f"postgresql://postgres@127.0.0.1:{port}/x"
        assert str(port) in await refused(lambda: opened(url), caplog)


async def test_the_text_of_a_connection_error_is_not_passed_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """C15: the text may have hosts and users."""
    url = cluster.url("no_such_database")
    assert "no_such_database" in await refused(lambda: opened(url), caplog)


async def test_the_text_of_a_statement_error_is_not_passed_on(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """C15: the text may have values of rows."""

    def slow(conn: Connection) -> None:
        conn.execute(text("SET LOCAL statement_timeout = '50ms'"))
        conn.execute(text("SELECT pg_sleep(30)"))

    database = cluster.create()
    async with open_engine(cluster.url(database)) as engine:
        assert "statement timeout" in await refused(lambda: engine.write(slow), caplog)
    cluster.drop(database)


@asynccontextmanager
async def full(file: Path) -> AsyncGenerator[Engine, None]:
    """A SQLite database that may not grow any more."""

    def fill(conn: Connection) -> None:
        conn.execute(text("CREATE TABLE note (body TEXT)"))
        pages = conn.execute(text("PRAGMA page_count")).scalar_one()
        conn.execute(text(f"PRAGMA max_page_count = {pages}"))

    async with open_engine(f"sqlite:///{file}") as engine:
        await engine.write(fill)
        yield engine


def grow(conn: Connection) -> None:
    conn.execute(text("INSERT INTO note VALUES (:body)"), {"body": "x" * 1_000_000})


async def test_the_text_of_a_sqlite_error_is_not_passed_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """C15: the text may have paths of files."""
    async with full(tmp_path / "plane.db") as engine:
        assert "disk is full" in await refused(lambda: engine.write(grow), caplog)


async def test_a_file_that_is_gone_is_not_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "plane.db"
    async with open_engine(f"sqlite:///{file}") as engine:
        file.rename(tmp_path / "elsewhere.db")
        assert str(file) in await refused(engine.probe, caplog)


async def test_an_outage_is_logged_once_in_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Every call fails meanwhile, and they all say the same."""
    async with full(tmp_path / "plane.db") as engine:
        await refused(lambda: engine.write(grow), caplog)
        await refused(lambda: engine.write(grow), caplog)
