"""Damage to SQLite files."""

import contextlib
import sqlite3
from pathlib import Path


def damage(file: Path, name: str) -> None:
    """Overwrites the first page of a table or an index of a database that no process has open."""
    with contextlib.closing(sqlite3.connect(file)) as conn:
        (size,) = conn.execute("PRAGMA page_size").fetchone()
        (page,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(b"\xff" * size)
