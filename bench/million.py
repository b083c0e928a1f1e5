"""A million tasks in ten thousand sessions of one user on PostgreSQL: how long each page and each sweep takes, and how.

Real turns make a few tasks and their sessions; SQL multiplies them.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg
from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine as SqlEngine

from bench import servers
from bench.lean_http import WrongAnswer, connect, message
from taskplane.sessions.domain.session import Scope as SessionScope
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.store import EntryFilter
from taskplane.storage.engine import Engine, open_engine
from taskplane.tasks.domain.kinds import STATUS_TEXT
from taskplane.tasks.domain.task import COMPLETED, FAILED, INPUT_REQUIRED, STATES, WORKING, Scope
from taskplane.tasks.pages import EventFilter, InfoFilter, MessageFilter, TaskFilter, TenantFilter
from taskplane.tasks.sql import SqlTaskLog

TASKS: Final = 1_000_000
SESSIONS: Final = 10_000
RUNS: Final = 12
"""Runs of each query; PostgreSQL may keep to one plan for a prepared statement from the sixth on."""

_TENANT: Final = "default"
_OWNER: Final = "local"
_ALL_STATES: Final = [0, *sorted(STATES)]
# One of so many tasks is paused, one runs, one is queued, and one is not copied.
_ONE_IN: Final = 500
_HOUR: Final = 3_600_000_000

_Query = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Measured:
    """The median and the longest of a query's runs in milliseconds, and the tables that its plans scan whole."""

    median: float
    longest: float
    scans: set[str] = field(default_factory=set[str])


async def measure(database_url: str, tasks: int = TASKS) -> dict[str, Measured]:
    """Fill the empty database and measure every query, each after a first run that does not count."""
    await _make_templates(database_url)
    began = time.perf_counter()
    await _multiply(database_url, tasks)
    print(f"made {tasks:,} tasks in {SESSIONS:,} sessions in {time.perf_counter() - began:.0f} s", flush=True)
    found: dict[str, Measured] = {}
    async with (
        open_engine(database_url, readers=1) as engine,
        SqlTaskLog(engine) as task_log,
        SqlSessionLog(engine) as session_log,
    ):
        for name, query in {**await _of_tasks(task_log), **await _of_sessions(session_log)}.items():
            one = found[name] = await _measured(engine, query)
            scans = f", scans {', '.join(sorted(one.scans))}" if one.scans else ""
            print(f"{name:32} {one.median:8.1f} ms, at most {one.longest:8.1f} ms{scans}", flush=True)
    return found


async def _make_templates(database_url: str) -> None:
    """Make a session with a task that ended and one with a task that is paused, by real turns."""
    folder = Path(tempfile.mkdtemp())
    try:
        async with (
            servers.started("--database-url", database_url, log=folder / "log") as port,
            connect(port) as connection,
        ):
            for words, session in (("tool", "ended"), ("ask Which one?", "paused")):
                asked = message(words)
                asked["message"]["contextId"] = session
                if await connection.post("SendMessage", asked) != 200:
                    raise WrongAnswer("not 200")
                await connection.body()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _multiply(database_url: str, tasks: int) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        # Copies of whole rows: nothing that the triggers and keys between tables look after can be wrong.
        await connection.execute("SET session_replication_role = replica")
        kinds: dict[str, tuple[str, dict[str, str]]] = {
            "ended": ("n % {one} > 3", {}),
            "paused": ("n % {one} = 0", {}),
            "running": ("n % {one} = 1", {"lease_owner": "'p' || n % 50"}),
            "queued": ("n % {one} = 2", {"ready_at": "created_at + n", "limit_at": f"created_at + n + {_HOUR}"}),
            "uncopied": ("n % {one} = 3", {"copied_generation": "0"}),
        }
        for kind, (where, changed) in kinds.items():
            template = "paused" if kind == "paused" else "ended"
            values: dict[str, str] = {
                "uid": "md5(n::text)",
                "id": "'t' || n",
                "context_id": f"'s' || n % {SESSIONS}",
                "invocation_id": "'i' || n",
                "created_at": "created_at + n * 1000",
                "updated_at": "updated_at + n * 1000",
                "status_at": "status_at + n * 1000",
                **changed,
            }
            if kind in ("running", "queued"):
                values |= {"state": str(WORKING), "terminal_generation": "NULL"}
            numbers = f"generate_series(1, {tasks}) AS n"
            condition = where.format(one=_ONE_IN)
            await _copy(connection, "task", values, f"task, {numbers} WHERE context_id = '{template}' AND {condition}")
            await _copy(
                connection,
                "event",
                {"task_uid": "md5(n::text)", "invocation_id": "event.invocation_id || n"},
                f"event JOIN task ON task.uid = event.task_uid, {numbers}"
                f" WHERE task.context_id = '{template}' AND {condition}",
            )
        await connection.execute(
            "INSERT INTO lease SELECT uid, lease_owner, fence, created_at + $1 FROM task WHERE lease_owner IS NOT NULL",
            1000 * _HOUR,
        )
        numbers = f"generate_series(0, {SESSIONS - 1}) AS n"
        of_session = {"context_id": "'s' || n", "created_at": "created_at + n", "updated_at": "updated_at + n"}
        await _copy(connection, "session", of_session, f"session, {numbers} WHERE context_id = 'ended'")
        of_entry = {"context_id": "'s' || n", "id": "id || n", "created_at": "created_at + n"}
        await _copy(connection, "entry", of_entry, f"entry, {numbers} WHERE context_id = 'ended'")
        await connection.execute("SET session_replication_role = origin")
        await connection.execute("VACUUM (ANALYZE) task, event, lease, executor, session, entry")
    finally:
        await connection.close()


async def _copy(connection: Any, table: str, changed: Mapping[str, str], source: str) -> None:
    """Insert the rows of `source`, with some values changed, into a table; a value that is NULL stays so."""
    rows = await connection.fetch(
        "SELECT column_name, is_nullable = 'YES' FROM information_schema.columns"
        " WHERE table_name = $1 AND table_schema = current_schema() ORDER BY ordinal_position",
        table,
    )
    names = [str(name) for name, _ in rows]
    values = [changed.get(name, f"{table}.{name}") for name in names]
    await connection.execute(f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM {source}")


async def _of_tasks(log: SqlTaskLog) -> dict[str, _Query]:
    scope = Scope(_TENANT, _OWNER, _OWNER)
    page = await log.list(scope, TaskFilter(page_size=100))
    sessions = [(_TENANT, _OWNER, f"s{number}") for number in range(1000)]
    names = [name for _, _, name in sessions[:100]]
    uids = [task.uid for task in (await log.list(scope, TaskFilter(page_size=100, content=False))).rows]
    now = await log.now()
    of_operators = await log.tenant_tasks(scope, TenantFilter(states=_ALL_STATES, page_size=100))
    return {
        "ListTasks": lambda: log.list(scope, TaskFilter(page_size=100)),
        "ListTasks, second page": lambda: log.list(scope, TaskFilter(page_size=100, page_token=page.next_page_token)),
        "ListTasks of a session": lambda: log.list(scope, TaskFilter(context_id="s7", page_size=100)),
        "ListTasks, completed": lambda: log.list(scope, TaskFilter(state=COMPLETED, page_size=100)),
        "ListTasks, paused": lambda: log.list(scope, TaskFilter(state=INPUT_REQUIRED, page_size=100)),
        "GetTask": lambda: log.get(scope, "t7"),
        "ListEvents": lambda: log.events(scope, "t7", EventFilter()),
        "newest status texts": lambda: log.events(
            scope, "t7", EventFilter(kinds=[STATUS_TEXT], newest_first=True, limit=5)
        ),
        "task infos of a session": lambda: log.infos(scope, InfoFilter(context_id="s7")),
        "messages of a session": lambda: log.messages(scope, MessageFilter(context_id="s7")),
        "tasks of 100 sessions, counted": lambda: log.summaries(scope, names),
        "re-check of 1,000 sessions": lambda: log.fingerprints(sessions),
        "re-check of 100 tasks": lambda: log.heads(uids),
        "claim": lambda: log.claimable(["demo"], 64),
        "tasks in turn": log.in_turn,
        "leases that ran out": lambda: log.expired(1000),
        "tasks that waited too long": lambda: log.overdue(1000),
        "leases of a process": lambda: log.held("p7"),
        "uncopied tasks": lambda: log.uncopied(None, 100),
        "uncopied tasks of a session": lambda: log.uncopied((_TENANT, _OWNER, "s7"), 100),
        "tasks to trim": lambda: log.trimmable(now, (0, ""), 200),
        "documents to trim": lambda: log.untrimmed_documents("", 200),
        "counts for the metrics": log.open_tasks,
        "overview of operators": lambda: log.overview(_TENANT, 15.0),
        "tasks of operators": lambda: log.tenant_tasks(scope, TenantFilter(states=_ALL_STATES, page_size=100)),
        "tasks of operators, later": lambda: log.tenant_tasks(
            scope, TenantFilter(states=_ALL_STATES, page_size=100, page_token=of_operators.next_page_token)
        ),
        "tasks of operators, failed": lambda: log.tenant_tasks(scope, TenantFilter(states=[FAILED])),
        "tasks of operators, paused": lambda: log.tenant_tasks(scope, TenantFilter(states=[INPUT_REQUIRED])),
        "tasks of operators, by agent": lambda: log.tenant_tasks(
            scope, TenantFilter(states=_ALL_STATES, agent="nobody")
        ),
        "tasks of operators, by owner": lambda: log.tenant_tasks(scope, TenantFilter(states=_ALL_STATES, owner=_OWNER)),
        "tasks of operators, by executor": lambda: log.tenant_tasks(
            scope, TenantFilter(states=_ALL_STATES, executor="p7")
        ),
        "a task of operators": lambda: log.tenant_task(_TENANT, "t7"),
    }


async def _of_sessions(log: SqlSessionLog) -> dict[str, _Query]:
    scope = SessionScope(_TENANT, _OWNER, _OWNER)
    page = await log.list(scope, 100, "")
    return {
        "ListSessions": lambda: log.list(scope, 100, ""),
        "ListSessions, second page": lambda: log.list(scope, 100, page.next_page_token),
        "ListSessions by title": lambda: log.list(scope, 100, "", "tool"),
        "history of a session": lambda: log.entries(scope, "s7", EntryFilter(effective=True)),
        "rewinds to apply": lambda: log.unapplied(100),
        "turns to settle": lambda: log.unsettled(60.0, 100),
        "abandoned turns of a tenant": lambda: log.abandoned(_TENANT, 60.0, 180.0),
        "sessions to expire": lambda: log.expired(3600.0, None, 100),
        "remains to delete": lambda: log.remains(100),
    }


async def _measured(engine: Engine, query: _Query) -> Measured:
    with _statements() as seen:
        await query()
    times: list[float] = []
    for _ in range(RUNS):
        began = time.perf_counter()
        await query()
        times.append(1000 * (time.perf_counter() - began))
    found = Measured(statistics.median(times), max(times))
    for statement, parameters in seen:
        for generic in ("force_custom_plan", "force_generic_plan"):
            found.scans |= await engine.read(_scanned, statement, parameters, generic)
    return found


def _scanned(conn: Connection, statement: str, parameters: Any, plan: str) -> set[str]:
    """Return the tables that a plan of the statement scans from end to end."""
    conn.exec_driver_sql(f"SET LOCAL plan_cache_mode = {plan}")
    lines: Sequence[Any] = conn.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
    words = [str(line[0]).partition(" Seq Scan on ")[2] or str(line[0]).partition("Seq Scan on ")[2] for line in lines]
    return {word.split()[0] for word in words if word}


@contextmanager
def _statements() -> Generator[list[tuple[str, Any]], None, None]:
    """Yield the statements that reach the driver in the block."""
    seen: list[tuple[str, Any]] = []

    def record(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            seen.append((statement, parameters))

    event.listen(SqlEngine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        event.remove(SqlEngine, "before_cursor_execute", record)
