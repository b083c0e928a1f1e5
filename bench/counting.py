"""Counts the bytes that a process binds as SQL parameters: what a store asks its database to write."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_total = 0
_WRITES = ("INSERT", "UPDATE", "DELETE")


def bound_bytes() -> int:
    """Bytes bound by INSERT, UPDATE and DELETE statements since the start."""
    return _total


def count_bound_bytes() -> None:
    """Listens to every SQLAlchemy engine of this process from now on."""
    event.listen(Engine, "before_cursor_execute", _count)


def _count(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
    global _total
    if statement.lstrip().upper().startswith(_WRITES):
        _total += sum(_size(row) for row in parameters) if many else _size(parameters)


def _size(row: object) -> int:
    if isinstance(row, Mapping):
        return sum(_size(value) for value in row.values())
    if isinstance(row, (bytes, bytearray, memoryview)):
        return len(row)
    if isinstance(row, str):
        return len(row.encode())
    if isinstance(row, Iterable):
        return sum(_size(value) for value in row)
    return 0 if row is None else 8
