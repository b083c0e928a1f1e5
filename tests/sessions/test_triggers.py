"""The second wall: raw SQL can neither rewrite, reorder, forge out of place nor drop what was appended."""

from collections.abc import AsyncGenerator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from tests.conformance.session_log import ADA, Sessions, event, opened, outcome, rewind, user
from tests.conftest import Migrated

from taskplane.runtime.errors import Internal
from taskplane.sessions.domain import commands
from taskplane.sessions.sql.statements import ENTRY_FIELDS, SESSION_FIELDS

COLUMNS = ", ".join(f'"{name}"' for name in ENTRY_FIELDS)
FORGED = ", ".join(
    {"seq": ":seq", "id": ":id", "invocation_id": "'forged'", "context_id": ":context"}.get(name, f'"{name}"')
    for name in ENTRY_FIELDS
)
# A copy of entry 1 under another number, id or session.
COPY = f"INTO entry ({COLUMNS}) SELECT {FORGED} FROM entry WHERE context_id = 's' AND seq = 1"


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[Sessions, None]:
    """Session s with four entries, and session t with one."""
    async with opened(await migrated("taskplane.sessions")) as sessions:
        await sessions.append("s", user("A"), outcome("A", "hi"), user("B"), rewind("B", "r"))
        await sessions.log.mark_applied(commands.MarkApplied(scope=ADA, context_id="s", seq=4))
        await sessions.append("t", event("e", '{"actions": {"state_delta": {"a": 1}}}'))
        yield sessions


async def attack(sessions: Sessions, *statements: str, **values: object) -> None:
    def run(conn: Connection) -> None:
        for statement in statements:
            conn.execute(text(statement), values)

    await sessions.engine.write(run)


async def everything(sessions: Sessions) -> list[tuple[object, ...]]:
    def rows(conn: Connection) -> list[tuple[object, ...]]:
        found = [tuple(row) for row in conn.execute(text("SELECT * FROM entry ORDER BY context_id, seq"))]
        found += [tuple(row) for row in conn.execute(text("SELECT * FROM event_delta"))]
        return found + [tuple(row) for row in conn.execute(text("SELECT * FROM session ORDER BY context_id"))]

    return await sessions.engine.read(rows)


REFUSED = {
    "an entry is rewritten": ("UPDATE entry SET payload = NULL WHERE seq = 2", "never rewritten"),
    "an entry is renamed": ("UPDATE entry SET id = 'x' WHERE seq = 1", "never rewritten"),
    "an entry is moved": ("UPDATE entry SET seq = 9 WHERE context_id = 's' AND seq = 4", "never rewritten"),
    "an entry is set to what it is": ("UPDATE entry SET seq = seq", "never rewritten"),
    "an entry is deleted": ("DELETE FROM entry WHERE context_id = 's' AND seq = 2", "no entry of a session"),
    "the newest entry is deleted": ("DELETE FROM entry WHERE context_id = 's' AND seq = 4", "no entry of a session"),
    "all entries are deleted": ("DELETE FROM entry", "no entry of a session"),
    "a number shrinks": ("UPDATE session SET seq = 3 WHERE context_id = 's'", "never shrink"),
    "a number is forgotten": ("UPDATE session SET seq = NULL WHERE context_id = 's'", "never shrink"),
    "a version goes back": ("UPDATE session SET version = version - 1", "never shrink"),
    "a rewind is forgotten": ("UPDATE session SET has_session_task = false WHERE context_id = 's'", "never shrink"),
    "a rewind is carried out no more": ("UPDATE session SET applied_seq = 3 WHERE context_id = 's'", "never shrink"),
    "a rewind steers no more": (
        "UPDATE session SET steered_seq = 0, applied_seq = 0 WHERE context_id = 's'",
        "never shrink",
    ),
    "more is carried out than was asked": ("UPDATE session SET applied_seq = 1 WHERE context_id = 't'", None),
    "what steers lies beyond the entries": ("UPDATE session SET steered_seq = 2 WHERE context_id = 't'", None),
    "a change of the state is rewritten": ("UPDATE event_delta SET own = NULL", "never rewritten"),
    "a change of the state is moved": ("UPDATE event_delta SET place = place + 1", "never rewritten"),
    "a change of the state is deleted": ("DELETE FROM event_delta", "no event of a session"),
    "a change of the state is made up": (
        "INSERT INTO event_delta SELECT tenant, owner, context_id, 9, 9, own FROM event_delta",
        "one of its events",
    ),
    "a message changes the state": (
        "INSERT INTO event_delta SELECT tenant, owner, 's', 1, 1, own FROM event_delta",
        "one of its events",
    ),
    "a session is made a fork of another": ("UPDATE session SET forked_from = 'x' WHERE context_id = 't'", "identity"),
    "a number runs ahead of the entries": (
        "UPDATE session SET seq = 5, version = version + 1 WHERE context_id = 's'",
        None,
    ),
    "a number rises without the version": ("UPDATE session SET seq = 5 WHERE context_id = 's'", None),
    "a session changes its owner": ("UPDATE session SET owner = 'bob' WHERE context_id = 't'", "identity"),
    "a session changes its id": ("UPDATE session SET context_id = 'u' WHERE context_id = 't'", "identity"),
    "a session was made at another time": ("UPDATE session SET created_at = 1", "identity"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_raw_sql_cannot_change_appended_entries(sessions: Sessions, case: str) -> None:
    statement, message = REFUSED[case]
    before = await everything(sessions)
    with pytest.raises(IntegrityError, match=message):
        await attack(sessions, statement)
    assert await everything(sessions) == before


INSERTS = {
    "beyond the newest": ("s", 5, "new"),
    "far beyond": ("s", 99, "new"),
    "number zero": ("s", 0, "new"),
    "in place of an entry": ("s", 2, "new"),
    "with the id of an entry": ("t", 2, "A"),
    "in a session that does not exist": ("u", 1, "new"),
}


@pytest.mark.parametrize("case", INSERTS)
async def test_raw_sql_cannot_insert_an_entry_out_of_place(sessions: Sessions, case: str) -> None:
    context, seq, entry_id = INSERTS[case]
    before = await everything(sessions)
    with pytest.raises(IntegrityError):
        await attack(sessions, f"INSERT {COPY}", context=context, seq=seq, id=entry_id)
    assert await everything(sessions) == before


async def test_an_entry_cannot_leave_a_hole_behind_it(sessions: Sessions) -> None:
    with pytest.raises(IntegrityError, match="follows its predecessor"):
        await attack(
            sessions,
            "UPDATE session SET seq = 6, version = version + 2 WHERE context_id = 's'",
            f"INSERT {COPY}",
            context="s",
            seq=6,
            id="new",
        )


@pytest.mark.parametrize("case", ["in place of an entry", "with the id of an entry", "beyond the newest"])
async def test_an_entry_cannot_be_replaced(sessions: Sessions, case: str, engine_name: str) -> None:
    """SQLite runs no DELETE trigger for the rows that REPLACE removes; PostgreSQL has DO UPDATE."""
    context, seq, entry_id = INSERTS[case]
    if engine_name == "sqlite":
        statement = f"INSERT OR REPLACE {COPY}"
    else:
        statement = f"INSERT {COPY} ON CONFLICT (id, owner, tenant) DO UPDATE SET payload = NULL"
    before = await everything(sessions)
    with pytest.raises(IntegrityError):
        await attack(sessions, statement, context=context, seq=seq, id=entry_id)
    assert await everything(sessions) == before


async def test_a_session_cannot_be_replaced_by_one_without_its_entries(sessions: Sessions, engine_name: str) -> None:
    columns = ", ".join(SESSION_FIELDS)
    row = f"INTO session ({columns}) SELECT {columns} FROM session WHERE context_id = 's'"
    before = await everything(sessions)
    with pytest.raises(IntegrityError):
        await attack(sessions, f"INSERT OR REPLACE {row}" if engine_name == "sqlite" else f"INSERT {row}")
    with pytest.raises(IntegrityError):
        await attack(
            sessions,
            f"CREATE TEMPORARY TABLE kept AS SELECT {columns} FROM session WHERE context_id = 's'",
            "DELETE FROM session WHERE context_id = 's'",
            f"INSERT INTO session ({columns}) SELECT {columns} FROM kept",
        )
    assert await everything(sessions) == before


async def test_all_entries_cannot_be_truncated(sessions: Sessions, engine_name: str) -> None:
    """SQLite has no TRUNCATE; PostgreSQL refuses one of a table that another refers to."""
    if engine_name == "postgres":
        with pytest.raises(Internal):
            await attack(sessions, "TRUNCATE entry")
    assert len(await sessions.entries("s")) == 4


async def test_a_session_goes_whole_or_not_at_all(sessions: Sessions) -> None:
    await attack(sessions, "DELETE FROM session WHERE context_id = 's'")
    assert {row[2] for row in await everything(sessions)} == {"t"}
    assert (await sessions.append("s", user("A"))).session.seq == 1
    assert [one.context_id for one in (await sessions.log.list(ADA, 9, "")).sessions] == ["s", "t"]
