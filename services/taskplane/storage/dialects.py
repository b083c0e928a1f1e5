"""The differences between SQLite and PostgreSQL, and nothing else. Knows no table.

A store function gets its dialect from the engine (`engine.dialect`), a migration from its connection (`dialect_of`).
"""

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVarTuple

from sqlalchemy import BigInteger, Connection, Insert, Select, TableClause, bindparam, func, select, text
from sqlalchemy.dialects import postgresql, sqlite

Timing = Literal["BEFORE INSERT", "BEFORE UPDATE", "BEFORE DELETE"]
Ts = TypeVarTuple("Ts")


class Dialect(ABC):
    """The SQL of one database engine for the features of both."""

    name: Literal["sqlite", "postgresql"]
    alone: bool
    """Whether only one transaction can write at a time, so that no data changes during it."""
    compresses: bool
    """Whether the database compresses large values itself."""

    @abstractmethod
    def now(self, conn: Connection) -> int:
        """Return the lease clock, in microseconds since 1970 (UTC), to be compared with values of the same store only.

        PostgreSQL: the server's `clock_timestamp()`, so that all store processes share it. SQLite has no clock of its
        own and one store process: the wall time at which that process started plus the time since then, so that a
        step of the host's clock expires no lease.
        """

    def lock(self, query: Select[*Ts]) -> Select[*Ts]:
        """Return `query`, locking the returned rows until the transaction ends.

        It waits for rows that another transaction holds. On SQLite the only writer holds the whole database already, so
        the query is not changed.
        """
        return query.with_for_update()

    def skip_locked(self, query: Select[*Ts], table: TableClause | None = None) -> Select[*Ts]:
        """Return `query` as `lock` does, but leave out rows held by another transaction instead of waiting for them.

        `table`: the table with the rows to lock, if the query has several.
        """
        return query.with_for_update(skip_locked=True, of=table)

    @abstractmethod
    def insert_ignore(self, table: TableClause) -> Insert:
        """Return an INSERT that leaves out a row which a unique key refuses; `returning(...)` returns the inserted
        rows.

        Insert in the order of the keys: on PostgreSQL equal keys of two transactions wait for one another.
        """

    @abstractmethod
    def distinct(self, left: str, right: str) -> str:
        """Return SQL text, true where two expressions differ, NULL being a value like any other."""

    @abstractmethod
    def contains(self, column: str, content: bytes) -> str:
        """Return SQL text, true where the bytes in `column` contain `content`; an index may have it as condition."""

    @abstractmethod
    def create_trigger(
        self,
        name: str,
        table: str,
        when: Timing,
        columns: Sequence[str] | None,
        condition_sql: str,
        message: str,
    ) -> list[str]:
        """Return statements that make a row trigger which refuses a change with IntegrityError and `message`.

        It refuses where `condition_sql` is true (not where it is false or NULL). The condition is plain SQL over OLD
        and NEW, subqueries included. With `columns` (BEFORE UPDATE only) it fires where one of them is named in SET,
        changed or not. Execute the statements one by one (asyncpg takes one command at a time) with
        `conn.exec_driver_sql`, which leaves colons in them alone.
        """

    @abstractmethod
    def drop_trigger(self, name: str, table: str) -> list[str]:
        """Return statements that remove a trigger of `create_trigger`."""

    @abstractmethod
    def triggers(self, conn: Connection) -> list[tuple[str, str]]:
        """Name and table of every trigger of the database (on PostgreSQL: of the current schema), sorted."""

    @abstractmethod
    def exclusive(self, conn: Connection, name: str) -> None:
        """Wait until no other transaction has taken `name`, and hold it until this transaction ends.

        Nothing to do on SQLite, where a transaction that writes is alone anyway.
        """


class Sqlite(Dialect):
    """SQLite 3.35 or newer: one writing connection, whole-database lock."""

    name = "sqlite"
    alone = True
    compresses = False

    def now(self, conn: Connection) -> int:
        return _STARTED_US + (_monotonic_ns() - _STARTED_MONOTONIC_NS) // 1000

    def insert_ignore(self, table: TableClause) -> Insert:
        return sqlite.insert(table).on_conflict_do_nothing()

    def distinct(self, left: str, right: str) -> str:
        return f"({left}) IS NOT ({right})"

    def contains(self, column: str, content: bytes) -> str:
        return f"instr({column}, x'{content.hex()}') > 0"

    def create_trigger(
        self,
        name: str,
        table: str,
        when: Timing,
        columns: Sequence[str] | None,
        condition_sql: str,
        message: str,
    ) -> list[str]:
        # FAIL keeps the rows that a statement has changed before, each of which was allowed, until its transaction is
        # rolled back. To take back the statement alone, as ABORT does, SQLite makes a savepoint for every statement
        # that could meet a trigger: that is dearer than most statements.
        return [
            f"CREATE TRIGGER {_quoted(name)} {_event(when, columns)} ON {_quoted(table)} FOR EACH ROW"
            f" WHEN ({condition_sql}) BEGIN SELECT RAISE(FAIL, {_literal(message)}); END"
        ]

    def drop_trigger(self, name: str, table: str) -> list[str]:
        return [f"DROP TRIGGER {_quoted(name)}"]

    def triggers(self, conn: Connection) -> list[tuple[str, str]]:
        found = conn.execute(text("SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"))
        return [(name, table) for name, table in found]

    def exclusive(self, conn: Connection, name: str) -> None:
        return


class Postgresql(Dialect):
    """PostgreSQL 15 or newer: row locks, several store processes."""

    name = "postgresql"
    alone = False
    compresses = True

    def now(self, conn: Connection) -> int:
        return int(conn.execute(_CLOCK).scalar_one())

    def insert_ignore(self, table: TableClause) -> Insert:
        return postgresql.insert(table).on_conflict_do_nothing()

    def distinct(self, left: str, right: str) -> str:
        return f"({left}) IS DISTINCT FROM ({right})"

    def contains(self, column: str, content: bytes) -> str:
        return f"position('\\x{content.hex()}'::bytea in {column}) > 0"

    def create_trigger(
        self,
        name: str,
        table: str,
        when: Timing,
        columns: Sequence[str] | None,
        condition_sql: str,
        message: str,
    ) -> list[str]:
        # The condition stands in the function: the WHEN of a PostgreSQL trigger takes no subquery. VOLATILE, so that it
        # sees the rows that the same statement wrote before.
        row = "OLD" if when == "BEFORE DELETE" else "NEW"
        return [
            f"CREATE FUNCTION {_quoted(name)}() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $trigger$ BEGIN"
            f" IF ({condition_sql}) THEN RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = {_literal(message)},"
            f" CONSTRAINT = {_literal(name)}, TABLE = {_literal(table)}; END IF; RETURN {row}; END $trigger$",
            f"CREATE TRIGGER {_quoted(name)} {_event(when, columns)} ON {_quoted(table)} FOR EACH ROW"
            f" EXECUTE FUNCTION {_quoted(name)}()",
        ]

    def drop_trigger(self, name: str, table: str) -> list[str]:
        return [f"DROP TRIGGER {_quoted(name)} ON {_quoted(table)}", f"DROP FUNCTION {_quoted(name)}()"]

    def triggers(self, conn: Connection) -> list[tuple[str, str]]:
        query = text(
            "SELECT t.tgname::text, c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
            " WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace ORDER BY t.tgname::text"
        )
        return [(name, table) for name, table in conn.execute(query)]

    def exclusive(self, conn: Connection, name: str) -> None:
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        conn.execute(select(func.pg_advisory_xact_lock(bindparam("key", key, BigInteger))))


SQLITE: Final = Sqlite()
POSTGRESQL: Final = Postgresql()


def dialect_of(conn: Connection) -> Dialect:
    """Return the dialect of `conn`; in a migration: `dialect_of(op.get_bind())`."""
    return POSTGRESQL if conn.dialect.name == "postgresql" else SQLITE


def _monotonic_ns() -> int:
    # Linux's plain monotonic clock stands still while the machine sleeps; times would then lag behind the wall clock.
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_STARTED_MONOTONIC_NS: Final = _monotonic_ns()
_STARTED_US: Final = time.time_ns() // 1000
_CLOCK: Final[Select[Any]] = select(text("(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))


def _event(when: Timing, columns: Sequence[str] | None) -> str:
    if not columns:
        return when
    if when != "BEFORE UPDATE":
        raise ValueError(f"{when} takes no columns")
    return f"{when} OF {', '.join(map(_quoted, columns))}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
