"""The schema: it says what the domain says, a migration makes it, and every column falls under one rule."""

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, Table, insert, inspect, select
from tests.conformance.task_log import checkpoint, chunk, opened
from tests.support.postgres import Cluster

from taskplane.storage.dialects import dialect_of
from taskplane.storage.engine import open_engine, run_alone
from taskplane.storage.migrate import check, downgrade, upgrade
from taskplane.storage.triggers import install, remove
from taskplane.tasks.domain.kinds import CHECKPOINT, STATUS_TEXT
from taskplane.tasks.domain.task import COMPLETED, SUBMITTED, WORKING, Event, Row, Scope
from taskplane.tasks.sql.infos import session_infos
from taskplane.tasks.sql.writing import ITEM
from taskplane.tasks.tables import event, metadata, task
from taskplane.tasks.triggers import CACHE, FIXED, FREE, GROWING
from taskplane.tasks.triggers import triggers as room_triggers

ROOM = "taskplane.tasks"


def test_the_columns_are_the_fields_of_the_nouns_in_their_order() -> None:
    """Rows become nouns by position."""
    assert [column.name for column in task.columns] == [*Row._fields, "snapshot"]
    assert [column.name for column in event.columns] == list(Event._fields)


def test_every_column_of_a_task_falls_under_exactly_one_rule() -> None:
    """I6, I7: a field without a rule, or with two, is found here."""
    columns = [*FIXED, *GROWING, *FREE, *CACHE]
    assert sorted(columns) == sorted(column.name for column in task.columns)


def test_an_append_changes_no_column_that_an_index_names() -> None:
    """So no index is written for it."""
    named: set[str] = set()
    for index in task.indexes:
        named |= {column.name for column in index.columns}
        condition = str(index.dialect_options["sqlite"]["where"])
        named |= {name for name in Row._fields if name in condition.replace("=", " ").replace("<", " ").split()}
    assert named.isdisjoint(ITEM) and named & GROWING


def schema(conn: Connection) -> dict[str, Any]:
    """All that makes a schema, in a form that can be compared."""
    found = inspect(conn)
    dialect = dialect_of(conn)
    tables = [name for name in found.get_table_names() if not name.startswith("alembic")]
    if dialect.name == "sqlite":
        made = conn.exec_driver_sql(
            "SELECT type, name, replace(replace(replace(sql, char(10), ''), char(9), ''), ' ', '') FROM sqlite_master"
            " WHERE name NOT LIKE '%alembic%' ORDER BY 1, 2"
        )
        return {"made": made.all()}
    triggers = conn.exec_driver_sql("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1")
    functions = conn.exec_driver_sql(
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY 1"
    )
    constraints = conn.exec_driver_sql(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = current_schema()::regnamespace AND conname NOT LIKE 'alembic%%' ORDER BY 1"
    )
    indexes = conn.exec_driver_sql("SELECT indexdef FROM pg_indexes WHERE indexname NOT LIKE 'alembic%%' ORDER BY 1")
    options = conn.exec_driver_sql(
        "SELECT relname, reloptions FROM pg_class WHERE relname IN ('task', 'event', 'lease', 'executor') ORDER BY 1"
    )
    return {
        # A later version can add a column at the end only.
        "columns": {name: sorted(str(each) for each in found.get_columns(name)) for name in tables},
        "made": [each.all() for each in (triggers, functions, constraints, indexes, options)],
    }


def make_from_model(conn: Connection) -> None:
    metadata.create_all(conn)
    install(conn, room_triggers(dialect_of(conn)))


async def test_migrating_from_nothing_gives_the_schema_of_the_model(
    dsn: str, engine_name: str, request: pytest.FixtureRequest
) -> None:
    """Tables, columns, constraints, indexes, triggers and storage options, on either engine."""
    if engine_name == "sqlite":
        other = dsn + ".model"
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        database = cluster.create()
        request.addfinalizer(lambda: cluster.drop(database))
        other = cluster.url(database)
    await upgrade(dsn, ROOM)
    await run_alone(other, make_from_model)
    assert await run_alone(dsn, schema) == await run_alone(other, schema)
    assert await run_alone(dsn, differences) == []


def differences(conn: Connection) -> list[Any]:
    """Return the changes that Alembic would make, except to its own table."""
    return [
        each
        for each in compare_metadata(MigrationContext.configure(conn), metadata)
        if not (each[0] == "remove_table" and each[1].name.startswith("alembic"))
    ]


async def test_migrating_back_leaves_nothing_and_forth_again_works(dsn: str) -> None:
    """Down and up, on either engine; the triggers come and go with the tables."""
    await upgrade(dsn, ROOM)
    await downgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        assert await engine.read(made) == (["alembic_version_tasks"], [])
    await upgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        await check(engine, ROOM)
        tables, triggers = await engine.read(made)
        assert tables == ["alembic_version_tasks", "event", "executor", "lease", "store_meta", "task", "task_import"]
        assert triggers == sorted((trigger.name, trigger.table) for trigger in room_triggers(engine.dialect))


def made(conn: Connection) -> tuple[list[str], list[tuple[str, str]]]:
    return sorted(inspect(conn).get_table_names()), dialect_of(conn).triggers(conn)


def test_every_constraint_has_a_name() -> None:
    """An error can be told from another by it, on both engines."""
    for table in metadata.sorted_tables:
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                assert constraint.name, constraint.sqltext


async def test_a_downgrade_is_refused_while_a_rewind_hides_a_document(dsn: str) -> None:
    """The earlier version could never show it again. A shown document loses its turn and is kept."""
    await upgrade(dsn, ROOM, "0001")
    await run_alone(dsn, insert_as_of_0001)
    await upgrade(dsn, ROOM)
    hide = "UPDATE task SET superseded = (1 = 1)"
    make = "UPDATE task SET origin = 'document', terminal_generation = NULL, fence = 0, invocation_id = 'i1'"
    await run_alone(dsn, lambda conn: unguarded(conn, make, hide))
    with pytest.raises(ValueError, match="cut by a rewind"):
        await downgrade(dsn, ROOM, "0004")
    await run_alone(dsn, lambda conn: unguarded(conn, "UPDATE task SET superseded = (1 = 0)"))
    await downgrade(dsn, ROOM, "0004")
    async with open_engine(dsn) as engine:
        assert await engine.read(turns) == [("document", None)]


async def test_events_that_the_version_before_does_not_know_are_not_migrated_back(dsn: str) -> None:
    """C2: it would take a status text or a checkpoint for something else."""
    await upgrade(dsn, ROOM, "0001")
    await run_alone(dsn, insert_as_of_0001)
    await upgrade(dsn, ROOM)
    for kind in (STATUS_TEXT, CHECKPOINT):
        await run_alone(dsn, lambda conn: unguarded(conn, f"UPDATE event SET kind = {kind} WHERE generation = 2"))  # noqa: B023
        with pytest.raises(ValueError, match="status texts or checkpoints"):
            await downgrade(dsn, ROOM, "0010")


async def test_pieces_of_artifacts_are_readable_by_the_version_before(dsn: str) -> None:
    """P7: it knows no compressed ones. Everything else stays, and the way up again is open."""
    await upgrade(dsn, ROOM)
    async with opened(dsn) as plane:
        row = await plane.create()
        await plane.grow(row, 40, 20_000)
        await plane.append(row, chunk("small", append=True), checkpoint(b"\0" + bytes(40_000)))
        events = [event.payload for event in await plane.all_events(row)]
        assert (await plane.engine.read(payloads) == events) is (plane.engine.dialect.name != "sqlite")
    await downgrade(dsn, ROOM, "0012")
    async with open_engine(dsn) as engine:
        assert await engine.read(payloads) == events
    await upgrade(dsn, ROOM)
    async with opened(dsn) as plane:
        assert [event.payload for event in await plane.all_events(row)] == events
        await plane.check(row)


def payloads(conn: Connection) -> list[bytes]:
    return [bytes(payload) for (payload,) in conn.execute(select(event.c.payload).order_by(event.c.generation))]


def turns(conn: Connection) -> list[tuple[str, str | None]]:
    return [(origin, turn) for origin, turn in conn.execute(select(task.c.origin, task.c.invocation_id))]


def unguarded(conn: Connection, *statements: str) -> None:
    remove(conn, room_triggers(dialect_of(conn)))
    for statement in statements:
        conn.exec_driver_sql(statement)


def insert_as_of_0001(conn: Connection) -> None:
    """A task as the first version kept it: made, worked on and completed."""
    values: dict[str, Any] = dict.fromkeys(present(conn, task))
    values |= dict.fromkeys(("uid", "tenant", "owner", "agent", "salt"), "x")
    values |= {"id": "old", "context_id": "c", "origin": "managed", "state": COMPLETED, "message_id": "m"}
    numbers = [name for name in values if name.endswith(("_generation", "_bytes")) and name != "partial_generation"]
    values |= dict.fromkeys(numbers, 3)
    values |= {"generation": 3, "fence": 1, "attempt": 1, "started": True, "on_orphan": 1, "max_attempts": 3}
    values |= {"created_at": 10, "updated_at": 90, "status_at": 90, "snapshot": b"the task"}
    conn.execute(insert(task).values(**values))
    for generation, state in enumerate((SUBMITTED, WORKING, COMPLETED), 1):
        given: dict[str, Any] = dict.fromkeys(present(conn, event)) | {"task_uid": "x", "generation": generation}
        given |= {"fence": 1, "attempt": 1, "kind": 3, "state": state, "actor": "a", "speaks": False}
        given |= {"payload": b"", "created_at": generation * 10}
        conn.execute(insert(event).values(**given))


def present(conn: Connection, table: Table) -> list[str]:
    """Return the columns that a table of an earlier version has already."""
    stored = {column["name"] for column in inspect(conn).get_columns(table.name)}
    return [column.name for column in table.columns if column.name in stored]


def all_tasks(conn: Connection) -> list[Any]:
    return [dict(row) for row in conn.execute(select(task)).mappings()]


async def test_tasks_of_the_first_version_are_kept_and_shown(dsn: str) -> None:
    """Up, with what was there: nothing is superseded, and of its changes the first and the newest are known."""
    await upgrade(dsn, ROOM, "0001")
    await run_alone(dsn, insert_as_of_0001)
    await upgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        (row,) = await engine.read(all_tasks)
        assert (row["superseded"], row["superseded_seq"], row["snapshot"]) == (False, 0, b"the task")
        (info,) = await engine.read(session_infos, Scope("x", "x", ""), "c")
        assert [tuple(change) for change in info.changes] == [(SUBMITTED, 10, 1), (COMPLETED, 90, 3)]
    await downgrade(dsn, ROOM, "0001")
    await upgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        assert await engine.read(all_tasks) == [row]
