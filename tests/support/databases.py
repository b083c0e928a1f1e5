"""PostgreSQL databases with the schema of packages: migrated once for each cluster, copied, emptied and used again.

A copy takes a tenth of a second or more, and hundreds of tests want an empty database. A database is not used again if
a test has changed more than its rows.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from subprocess import SubprocessError
from typing import Final
from weakref import WeakKeyDictionary

from tests.support.postgres import Cluster

from taskplane.storage.migrate import upgrade

TASKS: Final = "taskplane.tasks"
SESSIONS: Final = "taskplane.sessions"

_EMPTY: Final = """
SET lock_timeout = '20s';
SET session_replication_role = replica;
DO $$
DECLARE
  written text;
BEGIN
  PERFORM pg_terminate_backend(pid, 20000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  SELECT string_agg(oid::regclass::text, ', ') INTO written FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
    AND relname NOT LIKE 'alembic_version%';
  IF written IS NOT NULL THEN
    EXECUTE 'TRUNCATE ' || written;
  END IF;
END $$;
"""
# Statistics are part of it, since plans depend on them, and so is the version of each schema.
_SHAPE: Final = """
WITH own AS (SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace)
SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
  SELECT format('%s %s %s %s', relname, relkind, reloptions, relacl) FROM own
  UNION ALL SELECT format('%s %s %s %s %s %s', relname, attname, atttypid, attnotnull, attisdropped, atthasdef)
    FROM pg_attribute JOIN own ON own.oid = attrelid
  UNION ALL SELECT format('%s %s', pg_get_indexdef(indexrelid), indisvalid)
    FROM pg_index JOIN own ON own.oid = indexrelid
  UNION ALL SELECT format('%s %s', pg_get_triggerdef(t.oid), tgenabled) FROM pg_trigger t JOIN own ON own.oid = tgrelid
  UNION ALL SELECT format('%s %s', conname, pg_get_constraintdef(c.oid))
    FROM pg_constraint c JOIN own ON own.oid = conrelid
  UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
  UNION ALL SELECT s.setconfig::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE d.datname = current_database()
  UNION ALL SELECT format('%s %s', relname, staattnum) FROM pg_statistic JOIN own ON own.oid = starelid
  UNION ALL {versions}
) AS shape (line)
"""


@dataclass
class _Kind:
    """The databases of some packages: the template of their copies, their expected shape, and the free ones."""

    template: str
    shape: str
    expected: str
    free: list[str] = field(default_factory=list[str])


@dataclass
class _Databases:
    kinds: dict[tuple[str, ...], _Kind] = field(default_factory=dict[tuple[str, ...], _Kind])
    taken: dict[str, _Kind] = field(default_factory=dict[str, _Kind])


_of: "WeakKeyDictionary[Cluster, _Databases]" = WeakKeyDictionary()


async def take(cluster: Cluster, *packages: str) -> str:
    """Return the name of a database with the schemas of these packages, by default of a whole plane, and no rows."""
    packages = packages or (TASKS, SESSIONS)
    databases = _of.setdefault(cluster, _Databases())
    kind = databases.kinds.get(packages)
    if kind is None:
        kind = databases.kinds[packages] = await _kind(cluster, packages)
    name = kind.free.pop() if kind.free else cluster.create(kind.template)
    databases.taken[name] = kind
    return name


def give_back(cluster: Cluster, database: str) -> None:
    """Empty a database that was taken, also if processes are connected to it. Drop it if more than its rows was
    changed."""
    kind = _of[cluster].taken.pop(database)
    try:
        same = cluster.sql(f"{_EMPTY}\n{kind.shape}", database) == kind.expected
    except SubprocessError:
        same = False
    if same:
        kind.free.append(database)
    else:
        cluster.drop(database)


@asynccontextmanager
async def copied(cluster: Cluster, *packages: str) -> AsyncGenerator[str]:
    """The URL of a database that is taken for the block."""
    database = await take(cluster, *packages)
    try:
        yield cluster.url(database)
    finally:
        give_back(cluster, database)


async def _kind(cluster: Cluster, packages: tuple[str, ...]) -> _Kind:
    template = cluster.create()
    for package in packages:
        await upgrade(cluster.url(template), package)
    tables = cluster.sql("SELECT tablename FROM pg_tables WHERE tablename LIKE 'alembic_version%'", template).split()
    shape = _SHAPE.format(versions=" UNION ALL ".join(f"SELECT version_num FROM {table}" for table in tables))
    return _Kind(template, shape, cluster.sql(shape, template))
