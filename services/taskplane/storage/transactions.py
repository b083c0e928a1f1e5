"""Transactions on one SQLite connection: begun and ended by the driver, while store functions see SQLAlchemy's.

SQLAlchemy's own BEGIN and COMMIT cost more than those of SQLite. So it is told once that a transaction has begun, and
from then on neither begins nor ends one; statements are executed as ever, prepared ones and others.
"""

import logging
import sqlite3
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from taskplane.storage.prepared import PreparingConnection

T = TypeVar("T")
Begin = Literal["BEGIN", "BEGIN IMMEDIATE"]

_log = logging.getLogger(__name__)

_COMMIT: Final = "COMMIT"


class Transactions:
    """Runs store functions on `driver`, one after the other. For one thread at a time."""

    def __init__(self, driver: sqlite3.Connection, begin: Begin) -> None:
        """Takes `driver`, which must be in autocommit mode, over: `close` closes it.

        IMMEDIATE is for writing: a deferred transaction that reads first cannot wait for the lock it needs to write.
        """
        self.driver = driver
        # StaticPool: the one connection is never checked in, reset or replaced.
        engine = create_engine("sqlite+pysqlite://", creator=lambda: driver, poolclass=StaticPool, hide_parameters=True)
        self._connection = PreparingConnection(engine)
        self._connection.begin()
        self._cursor = self._connection.cursor
        self._begin = begin

    def run(self, fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        """`fn(connection, *args)` in a transaction. What it raises, or COMMIT, is raised when it is rolled back."""
        self._cursor.execute(self._begin)
        try:
            result = fn(self._connection, *args)
            self._commit()
        except BaseException:
            self._roll_back()
            raise
        return result

    def interrupt(self) -> None:
        """Ends the running statement, if there is one. For any thread."""
        self.driver.interrupt()

    def close(self) -> None:
        """Closes the connection."""
        self._cursor.close()
        self._connection.close()
        # The pool of one would keep the driver's connection open, and its write-ahead log unmerged.
        self._connection.engine.dispose()

    def _commit(self) -> None:
        try:
            self._cursor.execute(_COMMIT)
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                _COMMIT, None, error, sqlite3.Error, hide_parameters=True, dialect=self._connection.dialect
            ) from error

    def _roll_back(self) -> None:
        # Also where COMMIT failed (a deferred foreign key), which leaves the transaction open.
        try:
            if self.driver.in_transaction:
                self.driver.rollback()
        except sqlite3.Error:
            _log.exception("a failed transaction could not be rolled back")
