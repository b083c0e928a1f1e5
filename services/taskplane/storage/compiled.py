"""Compiled statements that several databases of one process share.

SQLAlchemy keeps compiled statements for each engine. To compile the statements of one turn takes a third of its time.
This matters for databases that are opened for each test.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Dialect


class Statements(dict[Any, Any]):
    """The compiled statements of databases of one process, by dialect and statement. Safe for several threads."""

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__(_general(key), compiled)

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Return the compiled statement of a key of SQLAlchemy."""
        return super().get(_general(key), default)


def keeping(statements: Statements | None) -> Mapping[str, Any]:
    """Return the options of an engine that keeps its compiled statements there; None: for itself."""
    return {} if statements is None else {"compiled_cache": statements}


def _general(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the key with the class of its dialect, of which each engine has an instance with the same settings."""
    return tuple(type(each) if isinstance(each, Dialect) else each for each in key)
