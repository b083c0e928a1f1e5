"""Translation of errors of drivers into ours. Above this package only IntegrityError is seen as it was raised.

Our errors travel to clients, so their sentences are always the same: texts of a driver can name hosts, files and
statements. That goes to the log, the same text once in a while, since in an outage every call fails.
"""

import logging
import sqlite3
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from sqlalchemy import exc

from taskplane.runtime.errors import Conflict, DataLoss, Internal, PlaneError, Unavailable

_log = logging.getLogger(__name__)

# Seconds until a text that was logged is logged again, and how many texts are remembered.
_AGAIN_AFTER: Final = 10.0
_MOST_TEXTS: Final = 64
_logged: dict[str, float] = {}


class Fate(Enum):
    """The meaning of an answer of PostgreSQL for the transaction and for its connection."""

    RUN_AGAIN = "the transaction conflicted with another one and can be run again"
    READ_ONLY = "the server is read-only: drop the connection, since another server may accept writes"
    GONE = "the connection is broken: drop it"
    UNAVAILABLE = "the server is unable to do it at the moment"
    REFUSED = "the statement is wrong"


# By SQLSTATE, or by the class that it begins with. Class 08 is connection exceptions, 53 insufficient resources, 57
# operator intervention, 58 system errors.
_FATES: Final[Mapping[str, Fate]] = {
    # Serialization failure, deadlock.
    **dict.fromkeys(("40001", "40P01"), Fate.RUN_AGAIN),
    # A standby, a database or a role that only reads.
    "25006": Fate.READ_ONLY,
    # Shutdown, crash of another backend, starting up or shutting down, database dropped, idle for too long, a
    # transaction idle or open for too long.
    **dict.fromkeys(("08", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"), Fate.GONE),
    # Lock not to be had, no such role or password, no such database.
    **dict.fromkeys(("53", "57", "58", "55P03", "28000", "28P01", "3D000"), Fate.UNAVAILABLE),
}
# The error of asyncpg if hosts answer, but none accepts writes.
_NO_SUCH_HOST: Final = "TargetServerAttributeNotMatched"
# Primary result codes of SQLite with the same meaning.
_SQLITE_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
    }
)
_SQLITE_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def fate_of(sqlstate: str) -> Fate:
    """Return the meaning of a SQLSTATE. Every decision about an error of PostgreSQL is made by it."""
    return _FATES.get(sqlstate) or _FATES.get(sqlstate[:2]) or Fate.REFUSED


def spoils_connection(error: BaseException) -> bool:
    """Return whether a connection on which a statement failed so is to be dropped. `error`: the driver's."""
    if isinstance(error, OSError | TimeoutError):
        # A server that was too slow may answer never, or answer the next question with this answer.
        return True
    state = getattr(error, "sqlstate", None)
    return state is not None and fate_of(state) in (Fate.READ_ONLY, Fate.GONE)


def lost_to_another(error: BaseException) -> bool:
    """Return whether the transaction was rolled back because of a concurrent one, and may succeed when run again."""
    return isinstance(error, exc.DBAPIError) and _fate(error) is Fate.RUN_AGAIN


def connection_lost(error: BaseException) -> bool:
    """Return whether the connection broke during the transaction, as pooled connections do after a restart of the
    server."""
    return isinstance(error, exc.DBAPIError) and error.connection_invalidated


def stale_plan(error: BaseException) -> bool:
    """Return whether a prepared statement outlived a change of the schema; the next execution prepares it anew."""
    return isinstance(error, exc.DBAPIError) and type(error.orig).__name__ == "InvalidCachedStatementError"


def damaged(error: BaseException | None) -> bool:
    """Return whether SQLite found that a file is damaged or no database, as it was raised or as we translated it."""
    while error is not None:
        original = error.orig if isinstance(error, exc.DBAPIError) else error
        code = getattr(original, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in _SQLITE_DAMAGED:
            return True
        error = error.__cause__
    return False


def translated(error: BaseException) -> BaseException:
    """Return the error to raise in place of `error`.

    Unavailable: the database is unreachable or unable to work at the moment, or gave no connection or answer in time;
    whether a write took effect may be unknown. DataLoss: SQLite found damage. Conflict: it kept losing against
    concurrent transactions. Internal: the database refused a statement. IntegrityError, and what is no driver's error,
    stay what they are.
    """
    match error:
        case PlaneError() | exc.IntegrityError():
            return error
        case exc.TimeoutError():
            return Unavailable("all database connections are in use", reason="DATABASE_BUSY", retry_after=1.0)
        case exc.DBAPIError():
            return _of_driver(error)
        case sqlite3.Error():
            return _of_sqlite(error) or error
        case TimeoutError():
            return Unavailable("the database did not answer in time", reason="DATABASE_TIMEOUT", retry_after=1.0)
        case OSError():
            return database_down(error)
        case _:
            return _of_asyncpg(error) or error


def database_down(detail: object) -> Unavailable:
    """Return the error for a database that cannot be reached or cannot work just now; `detail` is for the log."""
    _note(logging.WARNING, detail)
    return Unavailable(
        "the database is unreachable or unable to work at the moment", reason="DATABASE_DOWN", retry_after=1.0
    )


def database_read_only(detail: object) -> Unavailable:
    """Return the error for a database that can be read and takes no writes; `detail` is for the log."""
    _note(logging.WARNING, detail)
    return Unavailable("the database is read-only at the moment", reason="DATABASE_READ_ONLY", retry_after=1.0)


def database_damaged() -> DataLoss:
    """Return the error for a database in which damage was found; a retry does not help."""
    return DataLoss(
        "the database is damaged",
        reason="DATABASE_DAMAGED",
        suggestion="the log of the service names the file and the steps for its operator",
    )


@contextmanager
def translating() -> Generator[None, None, None]:
    """Raise exceptions of the body as translated by `translated`."""
    try:
        yield
    except Exception as error:
        ours = translated(error)
        if ours is error:
            raise
        raise ours from error


def _of_driver(error: exc.DBAPIError) -> PlaneError:
    original: Any = error.orig
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(original) or _refused(error)
    fate = _fate(error)
    if fate is Fate.RUN_AGAIN:
        return Conflict(
            "the transaction conflicted with concurrent ones in every attempt", reason="CONTENDED", retry_after=0.1
        )
    if fate is Fate.READ_ONLY:
        return database_read_only(original)
    if error.connection_invalidated or fate is not Fate.REFUSED or isinstance(error, exc.InterfaceError):
        return database_down(original)
    return _refused(error)


def _of_sqlite(error: sqlite3.Error) -> PlaneError | None:
    if damaged(error):
        return database_damaged()
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF == sqlite3.SQLITE_READONLY:
        return database_read_only(error)
    if code is None or code & 0xFF not in _SQLITE_UNAVAILABLE:
        return None
    return database_down(error)


def _of_asyncpg(error: BaseException) -> PlaneError | None:
    # Errors of connecting arrive as asyncpg made them.
    if type(error).__module__.partition(".")[0] != "asyncpg":
        return None
    if type(error).__name__ == _NO_SUCH_HOST:
        return database_read_only(error)
    if not hasattr(error, "sqlstate") or fate_of(getattr(error, "sqlstate", None) or "") is not Fate.REFUSED:
        return database_down(error)
    _note(logging.ERROR, error)
    return Internal("the database refused the connection")


def _note(level: int, detail: object) -> None:
    text = f"{type(detail).__name__}: {detail}" if isinstance(detail, BaseException) else str(detail)
    now = time.monotonic()
    if now - _logged.get(text, -_AGAIN_AFTER) < _AGAIN_AFTER:
        return
    if len(_logged) >= _MOST_TEXTS:
        _logged.clear()
    _logged[text] = now
    _log.log(level, "the database does not work: %s", text)


def _refused(error: exc.DBAPIError) -> Internal:
    _log.error("the database refused a statement", exc_info=error)
    return Internal("the database refused a statement")


def _fate(error: exc.DBAPIError) -> Fate:
    original = error.orig
    # SQLAlchemy wraps exceptions of asyncpg once more.
    if original is not None and type(original.__cause__).__name__ == _NO_SUCH_HOST:
        return Fate.READ_ONLY
    return fate_of(getattr(original, "sqlstate", None) or "")
