"""Counts the bytes that a process binds as SQL parameters, and the statements that SQLite executes."""

import sqlite3
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_total = 0
_statements: Counter[str] = Counter()
_WRITES = ("INSERT", "UPDATE", "DELETE")


def bound_bytes() -> int:
    """Bytes bound by INSERT, UPDATE and DELETE statements since the start."""
    return _total


def count_bound_bytes() -> None:
    """Listens to every SQLAlchemy engine of this process from now on."""
    event.listen(Engine, "before_cursor_execute", _count)


@contextmanager
def bytes_counted() -> Generator[None]:
    """Count the bytes that every SQLAlchemy engine of this process binds during the block."""
    count_bound_bytes()
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", _count)


def count_statements() -> None:
    """Trace every connection to SQLite that this process opens from now on."""
    module: Any = sqlite3
    connect = module.connect

    def traced(*args: Any, **kwargs: Any) -> Any:
        conn = connect(*args, **kwargs)
        conn.set_trace_callback(_executed)
        return conn

    module.connect = module.dbapi2.connect = traced


def statements() -> dict[str, int]:
    """Return the number of statements executed so far, by their first word; those of triggers are not counted."""
    return dict(_statements)


def _executed(statement: str) -> None:
    if not statement.startswith("--"):
        _statements[statement.split(None, 1)[0]] += 1


def _count(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
    global _total
    if statement.lstrip().upper().startswith(_WRITES):
        rows: list[Any] = list(parameters) if many else [parameters]
        _total += sum(_size(value) for row in rows for value in row)


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    return 0 if value is None else 8
