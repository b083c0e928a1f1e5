"""Opens a database by its URL and runs store functions on it; who calls does not know which engine it is.

A store function is a plain function over a SQLAlchemy Core `Connection`: it neither begins, commits nor awaits.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError

from taskplane.runtime.errors import Invalid, Unavailable
from taskplane.storage.dialects import Dialect

P = ParamSpec("P")
T = TypeVar("T")
Durability = Literal["full", "relaxed"]


class Engine(ABC):
    """An open database. Made by `open_engine`; safe for any number of tasks of one event loop."""

    dialect: Dialect
    url: str
    """Without its password."""

    def __repr__(self) -> str:
        return f"<Engine {self.url}>"

    @abstractmethod
    async def write(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`fn(connection, ...)` in one transaction; returns when it is committed and, with full durability, synced.

        On SQLite transactions run one after the other, in the order of the calls. On PostgreSQL `fn` may run again
        from the beginning (at most three times) after a serialization failure, a deadlock or the loss of a connection
        before COMMIT, so it must have no effect but through its connection.

        What `fn` raises rolls back and is raised. IntegrityError: a constraint or trigger refused. Unavailable: the
        database cannot be reached or work; whether the transaction took effect may be unknown. Conflict: it lost
        against others three times. A caller that is cancelled does not know whether it took effect.
        """

    @abstractmethod
    async def read(self, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`fn(connection, ...)` on one snapshot of what is committed; every attempt to write is refused.

        When the caller is cancelled, the running statement is interrupted. `fn` may run again after the loss of a
        connection. Unavailable: the database cannot be reached, or every connection was busy for 5 s.
        """

    @abstractmethod
    def start(
        self,
        done: Callable[[Any, BaseException | None], None],
        fn: Callable[..., Any],
        *args: Any,
        small: bool = False,
        more_due: bool = False,
    ) -> None:
        """Like `write`, begun before this returns; then `done(result, error)` is called on the loop, exactly once.

        It is never called before this returns. `small`: `fn` has little to do and waits for nothing but the database,
        so that an engine may carry it out at once on the event loop, which stands still meanwhile. `more_due`: the loop
        is about to start a transaction of another database, which need not wait for the commit of this one.
        """

    @abstractmethod
    async def probe(self) -> None:
        """Returns within 5 s if transactions can be made just now. Unavailable otherwise."""


@asynccontextmanager
async def open_engine(url: str, *, readers: int = 2, durability: Durability = "full") -> AsyncGenerator[Engine, None]:
    """The database at `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://user:password@host/name`.

    `readers` is the number of read-only connections on SQLite; PostgreSQL has a pool of four times as many. With
    durability "full" a commit is on disk when it is acknowledged: the settings that decide this are read back, and a
    weaker one refuses. "relaxed" gives the last commits of a machine that crashes away, and says so at each start.

    Invalid: the URL names neither engine. Refused: the SQLite file is in use by another process, or a setting read back
    is too weak. Unavailable: the database cannot be reached.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        from taskplane.storage.sqlite import opened_sqlite

        async with opened_sqlite(_file_of(parsed), readers=readers, durability=durability) as sqlite_engine:
            yield sqlite_engine
    else:
        # Imported late: the driver is an extra that a plane on SQLite does not need.
        from taskplane.storage.postgresql import opened_postgresql

        async with opened_postgresql(url, readers=4 * readers, durability=durability) as postgresql_engine:
            yield postgresql_engine


async def run_alone(url: str, fn: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`fn(connection, ...)` in one transaction without a time limit, for migrations.

    On SQLite it takes the file's lock like an engine (waiting up to 2 s), with foreign keys not enforced meanwhile but
    checked before the commit, as the ALTER TABLE procedure of sqlite.org wants it. Errors as in `open_engine`.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        from taskplane.storage.sqlite import run_alone_on_sqlite

        return await run_alone_on_sqlite(_file_of(parsed), fn, *args, **kwargs)
    from taskplane.storage.postgresql import run_alone_on_postgresql

    return await run_alone_on_postgresql(url, fn, *args, **kwargs)


def shown(url: str) -> str:
    """`url` without its password, for logs and messages."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return "a malformed URL"
    secrets = [key for key in parsed.query if "password" in key.lower()]
    return parsed.difference_update_query(secrets).render_as_string(hide_password=True)


def closing() -> Unavailable:
    """What a database that is being closed answers."""
    return Unavailable("this process is closing its database", reason="CLOSING", retry_after=1.0)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Without its cause: the text that cannot be parsed may hold the password.
        raise Invalid("the database URL cannot be parsed", suggestion=_URLS) from None
    if parsed.drivername not in ("sqlite", "postgresql", "postgres"):
        raise Invalid(f"no such database engine: {parsed.drivername}", suggestion=_URLS)
    return parsed


def _file_of(parsed: URL) -> Path:
    if not parsed.database or parsed.database == ":memory:":
        raise Invalid("a SQLite database must be a file", suggestion=_URLS)
    return Path(parsed.database).absolute()


_URLS = "use sqlite:///path/to/file.db or postgresql://user:password@host/name"
