"""What the dialects say, said to real databases."""

import time
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select, text
from sqlalchemy.exc import IntegrityError

from taskplane.storage.dialects import Timing, dialect_of
from taskplane.storage.engine import Engine

METADATA = MetaData()
BOX = Table("box", METADATA, Column("id", Integer, primary_key=True), Column("lid", Text), Column("size", Integer))


@pytest.fixture
async def boxes(engine: Engine) -> Engine:
    await engine.write(lambda conn: METADATA.create_all(conn))
    await engine.write(lambda conn: conn.execute(insert(BOX), [{"id": n, "lid": "open", "size": n} for n in (1, 2)]))
    return engine


async def trigger(
    engine: Engine, when: Timing, condition: str, columns: list[str] | None = None, message: str = "no: it's 100% shut"
) -> None:
    def create(conn: Connection) -> None:
        for statement in engine.dialect.create_trigger("box_guard", "box", when, columns, condition, message):
            conn.exec_driver_sql(statement)

    await engine.write(create)


async def run(engine: Engine, statement: str) -> None:
    await engine.write(lambda conn: conn.execute(text(statement)))


async def test_a_guard_refuses_with_its_message_where_its_condition_holds_and_nowhere_else(boxes: Engine) -> None:
    await trigger(boxes, "BEFORE UPDATE", "OLD.lid = 'shut'")
    await run(boxes, "UPDATE box SET lid = 'shut' WHERE id = 1")
    with pytest.raises(IntegrityError, match="no: it's 100% shut"):
        await run(boxes, "UPDATE box SET size = 9 WHERE id = 1")
    await run(boxes, "UPDATE box SET size = 9 WHERE id = 2")


async def test_a_trigger_with_a_null_condition_does_not_refuse(boxes: Engine) -> None:
    await trigger(boxes, "BEFORE UPDATE", "NEW.lid = 'shut'")
    await run(boxes, "UPDATE box SET lid = NULL")


async def test_a_guard_on_columns_fires_where_one_of_them_is_named(boxes: Engine) -> None:
    await trigger(boxes, "BEFORE UPDATE", "NEW.size < 100", columns=["size"])
    await run(boxes, "UPDATE box SET lid = 'shut'")
    with pytest.raises(IntegrityError):
        await run(boxes, "UPDATE box SET lid = 'shut', size = size")


async def test_a_trigger_may_read_other_rows_and_sees_rows_of_its_own_statement(boxes: Engine) -> None:
    follows = "NEW.id > 1 AND NOT EXISTS (SELECT 1 FROM box WHERE id = NEW.id - 1)"
    await trigger(boxes, "BEFORE INSERT", follows)
    await run(boxes, "INSERT INTO box (id) VALUES (3), (4), (5)")
    with pytest.raises(IntegrityError):
        await run(boxes, "INSERT INTO box (id) VALUES (6), (8)")
    ids = await boxes.read(lambda conn: conn.execute(select(BOX.c.id).order_by(BOX.c.id)).scalars().all())
    assert ids == [1, 2, 3, 4, 5]


async def test_a_guard_holds_deletes_back(boxes: Engine) -> None:
    await trigger(boxes, "BEFORE DELETE", "OLD.id = 1")
    await run(boxes, "DELETE FROM box WHERE id = 2")
    with pytest.raises(IntegrityError):
        await run(boxes, "DELETE FROM box")


async def test_a_dropped_guard_refuses_nothing(boxes: Engine) -> None:
    await trigger(boxes, "BEFORE DELETE", "1 = 1")
    assert await boxes.read(boxes.dialect.triggers) == [("box_guard", "box")]

    def drop(conn: Connection) -> None:
        for statement in boxes.dialect.drop_trigger("box_guard", "box"):
            conn.exec_driver_sql(statement)

    await boxes.write(drop)
    assert await boxes.read(boxes.dialect.triggers) == []
    await run(boxes, "DELETE FROM box")


def test_only_updates_have_columns() -> None:
    from taskplane.storage.dialects import SQLITE

    with pytest.raises(ValueError, match="takes no columns"):
        SQLITE.create_trigger("g", "t", "BEFORE INSERT", ["a"], "1 = 1", "no")


async def test_distinct_counts_null_as_a_value(boxes: Engine) -> None:
    def ask(conn: Connection, left: str, right: str) -> Any:
        return conn.execute(text(f"SELECT CASE WHEN {boxes.dialect.distinct(left, right)} THEN 1 ELSE 0 END")).scalar()

    pairs = [("NULL", "NULL"), ("1", "NULL"), ("1", "1"), ("1", "2")]
    assert [await boxes.read(ask, left, right) for left, right in pairs] == [0, 1, 0, 1]


async def test_insert_ignore_leaves_out_existing_rows_and_returns_inserted_ones(boxes: Engine) -> None:
    def add(conn: Connection) -> list[int]:
        statement = boxes.dialect.insert_ignore(BOX).returning(BOX.c.id)
        return sorted(conn.execute(statement, [{"id": n, "lid": "new", "size": 0} for n in (1, 3, 4)]).scalars())

    assert await boxes.write(add) == [3, 4]
    lids = await boxes.read(lambda conn: conn.execute(select(BOX.c.lid).order_by(BOX.c.id)).scalars().all())
    assert lids == ["open", "open", "new", "new"]


async def test_rows_locked_elsewhere_are_skipped_or_waited_for(boxes: Engine) -> None:
    """On PostgreSQL two transactions meet; on SQLite there is never a second one, and nothing is left out."""
    ids = select(BOX.c.id).order_by(BOX.c.id)

    def skipping(conn: Connection) -> list[int]:
        return list(conn.execute(boxes.dialect.skip_locked(ids)).scalars())

    async def meanwhile() -> list[int]:
        return await boxes.write(skipping)

    def holding(conn: Connection) -> list[int]:
        conn.execute(boxes.dialect.lock(ids.where(BOX.c.id == 1))).all()
        if boxes.dialect.name == "sqlite":
            return skipping(conn)
        from sqlalchemy.util import await_only

        return await_only(meanwhile())

    assert await boxes.write(holding) == ([1, 2] if boxes.dialect.name == "sqlite" else [2])
    assert await boxes.write(skipping) == [1, 2]


async def test_the_lease_clock_runs_in_microseconds_since_1970_and_never_back(engine: Engine) -> None:
    first = await engine.write(engine.dialect.now)
    second = await engine.read(engine.dialect.now)
    assert first <= second
    assert abs(first - time.time() * 1e6) < 60e6


async def test_a_migration_finds_the_dialect_of_its_connection(engine: Engine) -> None:
    assert await engine.write(dialect_of) is engine.dialect
