"""Indexes that both engines make the same."""

from typing import Any

from sqlalchemy import Column, Index, text


def partial_index(name: str, where: str, *columns: Column[Any], unique: bool = False) -> None:
    """Add an index to the table of `columns` that has only the rows where `where`, SQL text, is true."""
    Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))
