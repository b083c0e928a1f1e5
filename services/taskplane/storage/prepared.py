"""Statements of a hot path: compiled once, then handed to the driver as a text and its parameters.

SQLAlchemy writes the texts, for the dialect at hand, but spends more on each execution than SQLite does on the
statement; that is what is saved here. Errors and the event `before_cursor_execute` are those of SQLAlchemy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    CTE,
    CompoundSelect,
    Connection,
    Delete,
    Insert,
    Select,
    Text,
    Update,
    bindparam,
    column,
    text,
)
from sqlalchemy.exc import DBAPIError

_InOrder = Callable[[Sequence[Any]], tuple[Any, ...]]
_Converter = tuple[int, Callable[[Any], Any]]
_Select = Select[*tuple[Any, ...]] | CompoundSelect[*tuple[Any, ...]]


def padded(keys: Iterable[Any]) -> list[Any]:
    """The keys, sorted, the last one repeated up to a power of two: few texts of a statement, not one per count."""
    result = list(keys)
    if len(result) < 2:
        return result
    result.sort()
    size = 1 << (len(result) - 1).bit_length()
    return result + result[-1:] * (size - len(result))


class Query:
    """A SELECT whose parameters are lists (`bindparam(..., expanding=True)`)."""

    def __init__(self, statement: _Select, *lists: str) -> None:
        """`lists` are the names of all its parameters."""
        self._statement = statement
        self._lists = lists
        self._texts: dict[tuple[str | int, ...], _Text] = {}

    def all(self, conn: Connection, *lists: Iterable[Any]) -> Sequence[Sequence[Any]]:
        """Its rows, the `lists` given in the order of their names; none at all where one of them is empty."""
        values = list(map(padded, lists))
        if not all(values):
            return ()
        key: tuple[str | int, ...] = (conn.dialect.name, *map(len, values))
        found = self._texts.get(key)
        if found is None:
            found = self._texts[key] = self._compile(conn, values)
        return found.rows(conn, chain.from_iterable(values))

    def _compile(self, conn: Connection, values: Sequence[Sequence[Any]]) -> "_Text":
        compiled = self._statement.compile(dialect=conn.dialect)
        expanded = compiled.construct_expanded_state(dict(zip(self._lists, values, strict=True)))
        names = [name for one in self._lists for name in expanded.parameter_expansion[one]]
        return _Text(conn, self._statement, expanded.statement, names, expanded.positiontup or (), expanded.parameters)


class KeyQuery:
    """A SELECT by any number of keys, each of several values."""

    def __init__(self, make: Callable[[int], _Select], letters: str) -> None:
        """`make(n)` is the statement for n keys; its parameters are called by a letter of `letters` and the number of
        their key, from 0."""
        self._make = make
        self._letters = letters
        self._texts: dict[tuple[str, int], _Text] = {}

    def all(self, conn: Connection, keys: Iterable[tuple[Any, ...]]) -> Sequence[Sequence[Any]]:
        """Its rows; none at all where there are no `keys`."""
        wanted = padded(keys)
        if not wanted:
            return ()
        key = conn.dialect.name, len(wanted)
        found = self._texts.get(key)
        if found is None:
            statement = self._make(len(wanted))
            compiled = statement.compile(dialect=conn.dialect)
            names = [f"{letter}{index}" for index in range(len(wanted)) for letter in self._letters]
            positions = compiled.positiontup or ()
            found = self._texts[key] = _Text(conn, statement, str(compiled), names, positions, compiled.params)
        return found.rows(conn, chain.from_iterable(wanted))


def key_table(count: int, letters: str) -> CTE:
    """A table of `count` keys to look up in a `KeyQuery` of these `letters`, one column of text for each.

    (Given a list of row values, SQLite reads the whole table instead.)
    """
    rows = ", ".join("(" + ", ".join(f":{letter}{index}" for letter in letters) + ")" for index in range(count))
    names = [f"{letter}{index}" for index in range(count) for letter in letters]
    values = text(f"VALUES {rows}").bindparams(*(bindparam(name, type_=Text) for name in names))
    # Both engines call them so.
    return values.columns(*(column(f"column{place}", Text) for place in range(1, len(letters) + 1))).cte("wanted")


class Many:
    """A statement that writes any number of rows."""

    def __init__(self, statement: Insert | Update | Delete, places: Mapping[str, int]) -> None:
        """`places`: where in each row the parameters of `statement` stand."""
        self._statement = statement
        self._places = places
        self._texts: dict[str, tuple[str, _InOrder]] = {}

    def execute(self, conn: Connection, rows: Iterable[Sequence[Any]]) -> int:
        """Executes it once for all `rows`, or not at all where there are none; of a single row: if it changed one."""
        name = conn.dialect.name
        found = self._texts.get(name)
        if found is None:
            found = self._texts[name] = self._compile(conn)
        text, in_order = found
        parameters = list(map(in_order, rows))
        if not parameters:
            return 0
        many = len(parameters) > 1
        cursor = _execute(conn, text, parameters if many else parameters[0], many=many)
        changed: int = cursor.rowcount
        cursor.close()
        return changed

    def _compile(self, conn: Connection) -> tuple[str, _InOrder]:
        columns = list(self._places) if isinstance(self._statement, Insert) else None
        compiled = self._statement.compile(dialect=conn.dialect, column_keys=columns)
        return str(compiled), _in_order([self._places[name] for name in compiled.positiontup or ()])


class _Text:
    """A SELECT for one dialect and number of values."""

    __slots__ = ("_constants", "_converters", "_in_order", "_text")

    def __init__(
        self,
        conn: Connection,
        statement: _Select,
        text: str,
        names: Sequence[str],
        positions: Sequence[str],
        parameters: Mapping[str, Any],
    ) -> None:
        """`names` are those of the values as they will be given, `positions` those in the text; what is not given is a
        constant of the statement, and stands in `parameters`."""
        constants = sorted(set(positions).difference(names))
        places = {name: place for place, name in enumerate([*names, *constants])}
        self._text = text
        self._in_order = _in_order([places[name] for name in positions])
        self._constants = [parameters[name] for name in constants]
        self._converters = _converters(conn, statement)

    def rows(self, conn: Connection, values: Iterable[Any]) -> Sequence[Sequence[Any]]:
        cursor = _execute(conn, self._text, self._in_order((*values, *self._constants)), many=False)
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
        cursor.close()
        if not rows or not self._converters:
            return rows
        converted = list(map(list, rows))
        for place, convert in self._converters:
            for row in converted:
                row[place] = convert(row[place])
        return converted


def _execute(conn: Connection, text: str, parameters: Any, *, many: bool) -> Any:
    """The cursor, to be released. Raises what SQLAlchemy would, and like it gives a connection up that was lost."""
    cursor = conn.connection.cursor()
    # SQLAlchemy, too, asks these flags before it asks for listeners, which costs more than all else here.
    heard = conn.engine._has_events or conn._has_events  # pyright: ignore[reportPrivateUsage]
    if heard and (listeners := conn.dispatch.before_cursor_execute):
        listeners(conn, cursor, text, parameters, None, many)
    try:
        if many:
            cursor.executemany(text, parameters)
        else:
            cursor.execute(text, parameters)
    except conn.dialect.loaded_dbapi.Error as error:
        lost = conn.dialect.is_disconnect(error, conn.connection, cursor)
        cursor.close()
        if lost:
            conn.invalidate(error)
        raise DBAPIError.instance(
            text,
            None,
            error,
            conn.dialect.loaded_dbapi.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=conn.dialect,
        ) from error
    return cursor


def _converters(conn: Connection, statement: _Select) -> Sequence[_Converter]:
    """What the driver does not give as Python knows it (booleans of SQLite are numbers), by place."""
    found: list[_Converter] = []
    for place, selected in enumerate(statement.selected_columns):
        convert = selected.type.dialect_impl(conn.dialect).result_processor(conn.dialect, None)
        if convert is not None:
            found.append((place, convert))
    return found


def _in_order(places: Sequence[int]) -> _InOrder:
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
