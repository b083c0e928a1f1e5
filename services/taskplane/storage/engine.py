"""Opens a database by its URL. The same calls work for SQLite and PostgreSQL."""

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
    """Open the database at `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user:password@host/name`.
    Of several hosts, as in `host1:5432,host2:5432`, the writable one is used.

    `readers`, `writers`: the maximum number of connections for reads and for writes. SQLite has one for writes. With
    durability "full" a commit is on disk when it is acknowledged. A weaker `synchronous_commit` (SQLite: `synchronous`,
    journal mode) is refused; `fsync = off` of PostgreSQL only gives a warning. "relaxed" may lose the last commits when
    the machine crashes, and logs a warning at each start. `idle_timeout`: PostgreSQL ends the transaction of a process
    after this number of silent seconds.

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

    `notifications` False: the bell notifies no other process. Other processes find changes by polling only.
    """
    if engine.dialect.alone or not notifications:
        return Bell()
    # Imported here because the driver is optional.
    from taskplane.storage.notifications import NotifyingBell

    bell = NotifyingBell(url, name, on_notified)
    engine.on_renewal(bell.reconnect)
    return bell


async def run_alone(url: str, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn(connection, ...)` in one transaction without a time limit, for migrations.

    On SQLite the call takes the lock of the file, and waits up to 2 s for the lock. Foreign keys are checked once,
    before the commit (see ALTER TABLE on sqlite.org). Errors as in `open_engine`.
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
