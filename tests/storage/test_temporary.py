"""Databases that are copied from a template and deleted afterwards."""

import asyncio
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, table, text
from sqlalchemy.sql.compiler import SQLCompiler

from taskplane.runtime.errors import Unavailable
from taskplane.storage import migrate, temporary
from taskplane.storage.temporary import open_temporary, template


@pytest.mark.parametrize("package", ["taskplane.tasks", "taskplane.sessions"])
async def test_a_temporary_database_has_the_present_schema_and_is_deleted_afterwards(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P14: each call makes a new database."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with open_temporary(package) as one, open_temporary(package) as another:
        await migrate.check(one, package)
        assert one.url != another.url
        await one.write(lambda conn: conn.execute(text("CREATE TABLE mine (id INTEGER)")))
        count = text("SELECT count(*) FROM sqlite_schema WHERE name = 'mine'")
        assert await another.read(lambda conn: conn.execute(count).scalar_one()) == 0
    assert not os.listdir(tmp_path)
    with pytest.raises(Unavailable):
        await one.write(lambda conn: conn.execute(text("SELECT 1")))


def test_threads_that_need_a_template_at_once_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: tests may have an event loop in each of several threads."""
    monkeypatch.setattr(temporary, "_templates", {})
    with ThreadPoolExecutor(4) as threads:
        making = [threads.submit(lambda: asyncio.run(template("taskplane.sessions"))) for _ in range(4)]
    first, *others = [each.result() for each in making]
    assert all(each is first for each in others)


async def test_a_statement_is_compiled_once_for_all_temporary_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """P14: a test of an agent opens some of its own, and compiles nothing anew."""
    compiled: list[str] = []
    make = SQLCompiler.__init__

    def noted(self: Any, dialect: Any, statement: Any, *args: Any, **options: Any) -> None:
        compiled.append(str(statement))
        make(self, dialect, statement, *args, **options)

    async def count() -> None:
        async with open_temporary("taskplane.tasks") as engine:
            statement = select(func.count()).select_from(table("alembic_version_tasks"))
            assert await engine.read(lambda conn: conn.execute(statement).scalar_one()) == 1
            assert await engine.write(lambda conn: conn.execute(statement).scalar_one()) == 1

    await count()
    monkeypatch.setattr(SQLCompiler, "__init__", noted)
    await count()
    assert not [each for each in compiled if "alembic_version" in each]
