"""Opens a database by its URL; callers do not know which engine it is."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Concatenate, Final, ParamSpec, TypeVar

from sqlalchemy import Connection

from taskplane.runtime.errors import Invalid
from taskplane.storage.bell import Bell, OnNotified
from taskplane.storage.port import Durability, Engine
from taskplane.storage.sqlite import open_sqlite, run_alone_on_sqlite
from taskplane.storage.urls import file_of, parse, shown

__all__ = ["LONGEST_IDLE", "Durability", "Engine", "make_bell", "open_engine", "run_alone", "shown"]

P = ParamSpec("P")
T = TypeVar("T")

LONGEST_IDLE: Final = 10.0
"""Seconds that a transaction on PostgreSQL may be idle."""


@asynccontextmanager
async def open_engine(
    url: str,
    *,
    readers: int = 4,
    writers: int = 4,
    durability: Durability = "full",
    idle_timeout: float = LONGEST_IDLE,
) -> AsyncGenerator[Engine, None]:
    """Open the database at `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user:password@host/name`,
    with several hosts as `host1:5432,host2:5432`, of which the one that takes writes is used.

    `readers` and `writers` are the most connections that read and write; SQLite has one that writes. With durability
    "full" a commit is on disk when it is acknowledged: the settings that decide this are read back, and a weaker one is
    refused. "relaxed" may lose the last commits of a machine that crashes, and logs a warning at each start.
    `idle_timeout` is the number of seconds after which PostgreSQL ends the transaction of a silent process.

    Invalid: the URL names neither engine, the driver of PostgreSQL is missing, or the SQLite file is damaged or a
    folder. Refused: the file is in use by another process, or a setting read back is too weak. Unavailable: the
    database cannot be reached.
    """
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        async with open_sqlite(file_of(parsed), readers=readers, durability=durability) as sqlite_engine:
            yield sqlite_engine
    else:
        check_driver()
        # The driver is an extra that a plane on SQLite does not need.
        from taskplane.storage.postgresql import open_postgresql

        async with open_postgresql(
            url, readers=readers, writers=writers, durability=durability, idle_timeout=idle_timeout
        ) as postgresql_engine:
            yield postgresql_engine


def make_bell(engine: Engine, url: str, name: str, on_notified: OnNotified, *, notifications: bool) -> Bell:
    """Return the bell between the processes of the store `name` on the database at `url`, which `engine` has open.

    `notifications` False: it notifies no other process, so the others find changes by polling only.
    """
    if engine.dialect.alone or not notifications:
        return Bell()
    # Imported late for the same reason as the engine.
    from taskplane.storage.notifications import NotifyingBell

    bell = NotifyingBell(url, name, on_notified)
    engine.on_renewal(bell.reconnect)
    return bell


async def run_alone(url: str, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn(connection, ...)` in one transaction without a time limit, for migrations.

    On SQLite it takes the file's lock like an engine (waiting up to 2 s), with foreign keys checked only before the
    commit, as the ALTER TABLE procedure of sqlite.org requires. Errors as in `open_engine`.
    """
    parsed = parse(url)
    if parsed.get_backend_name() == "sqlite":
        return await run_alone_on_sqlite(file_of(parsed), fn, *args, **kwargs)
    check_driver()
    from taskplane.storage.postgresql import run_alone_on_postgresql

    return await run_alone_on_postgresql(url, fn, *args, **kwargs)


def check_driver() -> None:
    """Raise Invalid if the driver of PostgreSQL is not installed."""
    if find_spec("asyncpg") is None:
        raise Invalid(
            "PostgreSQL needs the driver asyncpg, which is not installed",
            reason="DRIVER_MISSING",
            suggestion="install it with taskplane: pip install 'taskplane[postgres]'",
        )
