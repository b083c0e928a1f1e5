"""Runs the Alembic versions of a store without an ini file and an env.py.

The versions of a store are in `<package>/migrations/versions`. The current revision is kept in the table
`alembic_version_<store>`, so that several stores may share a database. Triggers, in `<package>/triggers.py`, are not
part of a version. They are removed before versions run; at the newest version the triggers of this release are
installed.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from taskplane.runtime.errors import Refused
from taskplane.runtime.failpoints import fp
from taskplane.storage import triggers
from taskplane.storage.dialects import Dialect, dialect_of
from taskplane.storage.engine import Engine, run_alone, shown
from taskplane.storage.triggers import Trigger

_log = logging.getLogger(__name__)
# Alembic logs lines such as "Will assume transactional DDL" at INFO whenever it reads a version table.
logging.getLogger("alembic").setLevel(logging.WARNING)


async def upgrade(url: str, package: str, revision: str = "head") -> None:
    """Bring the schema of `package` (such as "taskplane.tasks") up to `revision`, in one transaction.

    If the schema is at `revision` already, no version runs. At the newest revision, triggers are installed if their
    names differ from those of this release. Safe if several processes start at once: one migrates, the others wait and
    find it done. If a version raises, all of them are rolled back. Errors as in `open_engine`; Refused: a newer release
    migrated the schema.
    """
    before, after = await run_alone(url, _move, package, revision, True)
    if before != after:
        # At INFO only if an existing database was migrated.
        level = logging.INFO if before else logging.DEBUG
        _log.log(level, "%s: schema of %s is now at %s", shown(url), package, after)


async def downgrade(url: str, package: str, revision: str = "base") -> None:
    """Take the schema of `package` back to `revision`, in one transaction. The tables it drops are lost."""
    await run_alone(url, _move, package, revision, False)


async def current(engine: Engine, package: str) -> str | None:
    """Return the current revision of the schema of `package`; None if no version has run."""
    return await engine.read(_current, package)


async def check(engine: Engine, package: str) -> None:
    """Check that the schema is the one this release was written for.

    Refused: the schema is older (migrate first), or a newer release made it.
    """
    found = await current(engine, package)
    _refuse_unknown(package, found)
    needed = _script(package).get_current_head()
    if found != needed:
        raise Refused(
            f"the schema of {package} is at {found or 'nothing'}, but this release requires {needed}",
            reason="SCHEMA_BEHIND",
            suggestion="migrate the database first: the service of this release does so at its start",
        )


def _move(conn: Connection, package: str, revision: str, up: bool) -> tuple[str | None, str | None]:
    """Return the revision before and after."""
    dialect_of(conn).exclusive(conn, f"taskplane migrations of {package}")
    script = _script(package)
    before = _current(conn, package)
    _refuse_unknown(package, before)
    # The revision "base" has no script.
    wanted: str | None = getattr(script.get_revision(revision), "revision", None)
    wanted_triggers = _triggers(package)(dialect_of(conn))
    if before != wanted:
        triggers.remove(conn, wanted_triggers)
        _run(conn, script, package, before, revision, up)
    if wanted == script.get_current_head():
        triggers.install(conn, wanted_triggers)
    fp("migrate.mid")
    return before, wanted


def _run(conn: Connection, script: ScriptDirectory, package: str, before: str | None, revision: str, up: bool) -> None:
    context = _context(conn, package)
    upper, lower = (revision, before or "base") if up else (before or "base", revision)
    versions = list(script.iterate_revisions(upper, lower))
    with Operations.context(context):
        for version in reversed(versions) if up else versions:
            (version.module.upgrade if up else version.module.downgrade)()
    if versions:
        context.stamp(script, revision)


def _current(conn: Connection, package: str) -> str | None:
    return _context(conn, package).get_current_revision()


def _context(conn: Connection, package: str) -> MigrationContext:
    return MigrationContext.configure(conn, opts={"version_table": _version_table(package)})


def _refuse_unknown(package: str, found: str | None) -> None:
    if found is not None and all(found != version.revision for version in _script(package).walk_revisions()):
        raise Refused(
            f"the schema of {package} is at {found}, which is unknown to this release",
            reason="SCHEMA_AHEAD",
            suggestion="a newer release migrated this database: run that release, or restore the backup made before it",
        )


def _triggers(package: str) -> Callable[[Dialect], Sequence[Trigger]]:
    found: Callable[[Dialect], Sequence[Trigger]] = import_module(f"{package}.triggers").triggers
    return found


@cache
def _script(package: str) -> ScriptDirectory:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{package} is not a package")
    folder = Path(next(iter(spec.submodule_search_locations))) / "migrations"
    return ScriptDirectory(str(folder), version_locations=[str(folder / "versions")])


def _version_table(package: str) -> str:
    return f"alembic_version_{package.rpartition('.')[2]}"
