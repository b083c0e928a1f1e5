"""The schema: what the versions make is what `tables.py` and `triggers.py` say, on every engine, up and down."""

import json

import pytest
from google.protobuf.json_format import MessageToDict
from sqlalchemy import Connection, text
from tests.conformance.session_log import ADA, message, opened, user
from tests.conftest import Migrated

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.session import Entry, Scope, Session
from taskplane.sessions.tables import entry, metadata, session
from taskplane.sessions.triggers import FIXED, GROWING, triggers
from taskplane.storage.dialects import SQLITE, dialect_of
from taskplane.storage.engine import open_engine, run_alone
from taskplane.storage.fields import Rule, marked
from taskplane.storage.migrate import check, downgrade, upgrade
from taskplane.storage.triggers import install

ROOM = "taskplane.sessions"

_SQLITE = (
    "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND name NOT LIKE 'sqlite_%alembic%'"
)
_POSTGRES = (
    "SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable || ordinal_position"
    " FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'alembic%'"
    " UNION ALL SELECT 'constraint', conname, conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace AND conname NOT LIKE 'alembic%'"
    " UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes"
    " WHERE schemaname = 'public' AND indexname NOT LIKE 'alembic%'"
    " UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal"
    " UNION ALL SELECT 'function', proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
)


def schema(conn: Connection) -> list[tuple[str, ...]]:
    query = _POSTGRES if conn.dialect.name == "postgresql" else _SQLITE
    # SQLite keeps the text of a table as it was written, and columns that came later on one line.
    return sorted(tuple(" ".join(str(value).split()) for value in row) for row in conn.execute(text(query)))


def make_fresh(conn: Connection) -> None:
    metadata.create_all(conn, checkfirst=False)
    install(conn, triggers(dialect_of(conn)))


async def test_migrating_from_zero_equals_the_fresh_schema(dsn: str, migrated: Migrated) -> None:
    await run_alone(dsn, make_fresh)
    async with open_engine(dsn) as fresh, open_engine(await migrated(ROOM)) as upgraded:
        expected = await fresh.read(schema)
        assert await upgraded.read(schema) == expected
        assert len(expected) > 12
        await check(upgraded, ROOM)


async def test_rewinds_of_an_older_schema_are_still_to_be_carried_out(dsn: str) -> None:
    """R4."""
    await upgrade(dsn, ROOM, "0001")
    entries = [("s", 1, 1, ""), ("s", 2, 4, "a"), ("s", 3, 1, ""), ("t", 1, 3, ""), ("u", 1, 2, "")]

    def write(conn: Connection) -> None:
        for context, seq, kind, target in entries:
            if seq == 1:
                size = max(each[1] for each in entries if each[0] == context)
                new = {"context": context, "seq": size, "version": size + 1, "shown": context != "t"}
                conn.execute(
                    text("INSERT INTO session VALUES ('', 'o', :context, :seq, :version, '', '', '', :shown, 1, 1)"),
                    new,
                )
            new = {"context": context, "seq": seq, "id": f"{context}{seq}", "kind": kind, "target": target}
            conn.execute(
                text(
                    "INSERT INTO entry VALUES ('', 'o', :context, :seq, :id, :kind, 'a', '', '', 0, '', NULL, :target,"
                    " false, false, '', NULL, 1)"
                ),
                new,
            )

    def steered(conn: Connection) -> list[tuple[object, ...]]:
        return [
            tuple(row)
            for row in conn.execute(text("SELECT context_id, steered_seq, applied_seq FROM session ORDER BY 1"))
        ]

    async with open_engine(dsn) as engine:
        await engine.write(write)
    await upgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        assert await engine.read(steered) == [("s", 2, 0), ("t", 0, 0), ("u", 0, 0)]


async def test_the_migration_computes_the_state_of_older_events(dsn: str) -> None:
    """R12: a shared key gets its newest value; values that cannot be stored are left out."""
    await upgrade(dsn, ROOM, "0002")
    deltas = [
        ("s", 1, 10, {"x": 1, "user:u": 1, "app:a": 1}),
        ("s", 2, 40, {"x": 2, "user:v": 2, "app:a": 4}),
        ("t", 1, 20, {"y": 3, "user:u": 2, "app:a": 2}),
        ("t", 2, 30, {"user:v": None}),
        ("u", 1, 50, "no object"),
    ]

    def write(conn: Connection) -> None:
        for context, seq, at, delta in deltas:
            values = {"context": context, "seq": seq, "id": f"{context}{seq}", "at": at}
            if seq == 1:
                size = max(each[1] for each in deltas if each[0] == context)
                new = text(
                    "INSERT INTO session VALUES ('', 'o', :context, :size, :version, 'g', '', '', false, 1, 1, 0, 0)"
                )
                conn.execute(new, {"context": context, "size": size, "version": size + 1})
            data = json.dumps({"invocation_id": "A", "actions": {"state_delta": delta}})
            conn.execute(
                text(
                    "INSERT INTO entry VALUES ('', 'o', :context, :seq, :id, 3, 'A', '', '', 0, '', NULL, '',"
                    " false, false, '', :payload, :at)"
                ),
                {**values, "payload": pb.Entry(data=data).SerializeToString()},
            )

    async with open_engine(dsn) as engine:
        await engine.write(write)
    await upgrade(dsn, ROOM)
    async with opened(dsn) as sessions:
        scope = Scope("", "o", "user:o")
        found = {name: MessageToDict((await sessions.log.state(scope, name))[1]) for name in "stu"}
    wider = {"user:u": 2, "user:v": 2, "app:a": 4}
    assert found == {"s": {"x": 2, **wider}, "t": {"y": 3, **wider}, "u": wider}


async def test_entries_of_an_older_schema_are_read_but_not_found_by_their_message(dsn: str) -> None:
    """T11: entries are never rewritten; a fork of them is made anew."""
    await upgrade(dsn, ROOM, "0008")
    said = pb.Entry(message=message("one", "m")).SerializeToString()

    def write(conn: Connection) -> None:
        conn.execute(
            text(
                "INSERT INTO session (tenant, owner, context_id, seq, version, agent, title, source, has_session_task,"
                " created_at, updated_at) VALUES ('', 'ada', 's', 1, 2, '', '', '', false, 1, 1)"
            )
        )
        conn.execute(
            text(
                "INSERT INTO entry VALUES ('', 'ada', 's', 1, 'A', 1, 'A', '', '', 0, '', NULL, '', false, true, '',"
                " :payload, 1)"
            ),
            {"payload": said},
        )

    async with open_engine(dsn) as engine:
        await engine.write(write)
    await upgrade(dsn, ROOM)
    async with opened(dsn) as sessions:
        assert await sessions.said("s") == ["one"]
        await sessions.append("s", user("B"))
        assert await sessions.entries("s", message_id="m") == []
        assert [entry.id for entry in await sessions.entries("s", message_id="B?")] == ["B"]
        await sessions.log.fork(commands.Fork(scope=ADA, context_id="s", new_context_id="t"))
        assert len(await sessions.entries("t", message_id="m")) == 1


async def test_down_and_up_again(dsn: str) -> None:
    await upgrade(dsn, ROOM)
    await downgrade(dsn, ROOM)
    async with open_engine(dsn) as engine:
        assert await engine.read(schema) == []
    await upgrade(dsn, ROOM)


@pytest.mark.parametrize(("noun", "table"), [(Session, session), (Entry, entry)])
def test_the_columns_of_a_table_are_the_fields_of_its_noun_in_order(noun: type[Session | Entry], table: object) -> None:
    columns = [column.name for column in table.columns]  # type: ignore[attr-defined]
    assert list(noun._fields) == columns


def test_every_column_of_a_session_falls_under_exactly_one_rule() -> None:
    rules = [*FIXED, *GROWING, *marked(Session, Rule.FREE)]
    assert sorted(rules) == sorted(column.name for column in session.columns)


def test_every_growing_column_of_a_session_is_compared_by_its_trigger() -> None:
    (trigger,) = (each for each in triggers(SQLITE) if each.name == "session_never_goes_back")
    assert [name for name in sorted(GROWING) if f"OLD.{name}" not in trigger.condition] == []
