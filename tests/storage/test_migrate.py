"""Migrations: from zero, idempotent, together, back, and refused where the schema is not the one needed."""

import asyncio

import pytest
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError
from tests.conftest import Migrated
from tests.storage.orchard.triggers import triggers as orchard_triggers

from taskplane.runtime.errors import Refused
from taskplane.storage.dialects import dialect_of
from taskplane.storage.engine import open_engine, run_alone
from taskplane.storage.migrate import check, current, downgrade, upgrade
from taskplane.storage.triggers import remove

ORCHARD = "tests.storage.orchard"


def tables(conn: Connection) -> set[str]:
    return set(inspect(conn).get_table_names())


async def test_from_zero_to_head_and_again_changes_nothing(dsn: str) -> None:
    await upgrade(dsn, ORCHARD)
    await upgrade(dsn, ORCHARD)
    async with open_engine(dsn) as engine:
        assert await engine.read(tables) == {"tree", "fruit", "alembic_version_orchard"}
        assert await current(engine, ORCHARD) == "0002"
        await check(engine, ORCHARD)


async def test_processes_that_start_at_once_migrate_once(dsn: str) -> None:
    await asyncio.gather(*(upgrade(dsn, ORCHARD) for _ in range(4)))
    async with open_engine(dsn) as engine:
        await check(engine, ORCHARD)


async def test_an_older_schema_is_refused_with_the_remedy(dsn: str) -> None:
    """W14: the message names the command."""
    await upgrade(dsn, ORCHARD, "0001")
    async with open_engine(dsn) as engine:
        with pytest.raises(Refused, match="is at 0001, but this release requires 0002") as refused:
            await check(engine, ORCHARD)
    assert refused.value.reason == "SCHEMA_BEHIND"
    assert "migrate" in refused.value.suggestion


async def test_a_schema_made_by_a_newer_release_is_refused(dsn: str) -> None:
    await upgrade(dsn, ORCHARD)
    async with open_engine(dsn) as engine:
        await engine.write(lambda conn: conn.execute(text("UPDATE alembic_version_orchard SET version_num = '0009'")))
        with pytest.raises(Refused) as refused:
            await check(engine, ORCHARD)
    assert refused.value.reason == "SCHEMA_AHEAD"
    for move in (upgrade, downgrade):
        with pytest.raises(Refused, match="is at 0009, which is unknown to this release"):
            await move(dsn, ORCHARD)


async def test_an_empty_database_is_behind(dsn: str) -> None:
    """W14: its service does not start."""
    async with open_engine(dsn) as engine:
        assert await current(engine, ORCHARD) is None
        with pytest.raises(Refused, match="is at nothing"):
            await check(engine, ORCHARD)


async def test_down_to_the_bottom_leaves_nothing_of_the_room(dsn: str) -> None:
    await upgrade(dsn, ORCHARD)
    await downgrade(dsn, ORCHARD)
    async with open_engine(dsn) as engine:
        assert await engine.read(tables) == {"alembic_version_orchard"}
        assert await engine.read(engine.dialect.triggers) == []
        assert await current(engine, ORCHARD) is None


async def test_a_migrated_copy_has_the_schema_and_its_triggers(migrated: Migrated) -> None:
    async with open_engine(await migrated(ORCHARD)) as engine:
        await check(engine, ORCHARD)
        assert await engine.read(engine.dialect.triggers) == [("tree_grows", "tree")]
        await engine.write(lambda conn: conn.execute(text("INSERT INTO tree (id, height) VALUES (1, 5)")))
        with pytest.raises(IntegrityError, match="a tree: it's never smaller"):
            await engine.write(lambda conn: conn.execute(text("UPDATE tree SET height = 4")))


async def test_a_migration_leaves_exactly_the_triggers_of_this_release(dsn: str) -> None:
    """Triggers of an older release are removed, missing ones are created; during a migration there are none."""

    def guarded_otherwise(conn: Connection) -> None:
        for name in ("tree_grows", "tree_stands"):
            for statement in dialect_of(conn).create_trigger(name, "tree", "BEFORE DELETE", None, "1 = 1", "no"):
                conn.exec_driver_sql(statement)

    def triggers(conn: Connection) -> list[tuple[str, str]]:
        return dialect_of(conn).triggers(conn)

    await upgrade(dsn, ORCHARD, "0001")
    assert await run_alone(dsn, triggers) == []
    await run_alone(dsn, guarded_otherwise)
    await upgrade(dsn, ORCHARD)
    assert await run_alone(dsn, triggers) == [("tree_grows", "tree")]
    await run_alone(dsn, lambda conn: conn.execute(text("DELETE FROM tree")))
    await run_alone(dsn, lambda conn: remove(conn, orchard_triggers(dialect_of(conn))))
    await upgrade(dsn, ORCHARD)
    assert await run_alone(dsn, triggers) == [("tree_grows", "tree")]


async def test_a_migration_that_would_leave_a_dangling_row_is_undone(dsn: str) -> None:
    await upgrade(dsn, ORCHARD)

    def dangle(conn: Connection) -> None:
        conn.execute(text("INSERT INTO tree (id, height) VALUES (1, 1)"))
        conn.execute(text("INSERT INTO fruit (id, tree_id) VALUES (1, 7)"))

    with pytest.raises(Exception, match=r"refer to nothing|foreign key"):
        await run_alone(dsn, dangle)
    async with open_engine(dsn) as engine:
        assert await engine.read(lambda conn: conn.execute(text("SELECT count(*) FROM tree")).scalar_one()) == 0
