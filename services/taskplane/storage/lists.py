"""Lists as parameters of a statement: one text and one plan for any number of values.

A list is one parameter, an array on PostgreSQL and JSON on SQLite. An `IN` with a parameter for each value would be
another statement for each count of them, to be compiled, prepared and planned anew.
"""

from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import BindParameter, ColumnElement, Dialect, Text, TypeDecorator, bindparam, column
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import TableValuedAlias
from sqlalchemy.types import TypeEngine


def one_of(value: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return the condition that `value` is in the list (texts or whole numbers) that is bound as `name`."""
    return _OneOf(value, _listed(name, type(value.type)))


def table_of(alias: str, *names: str) -> TableValuedAlias:
    """Return a table with a column of text for each of `names`; the list of each column is bound under its name."""
    lists = _Zipped(*(_listed(name, Text) for name in names))
    return lists.table_valued(*(column(name, Text) for name in names), name=alias)


class _List(TypeDecorator[Iterable[Any]]):
    """A list of values of one type."""

    impl = Text
    cache_ok = True

    def __init__(self, item: type[TypeEngine[Any]]) -> None:
        super().__init__()
        self.item = item

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(ARRAY(self.item))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Iterable[Any] | None, dialect: Dialect) -> Any:
        values = list(value or ())
        return values if dialect.name == "postgresql" else orjson.dumps(values).decode()


class _OneOf(FunctionElement[bool]):
    """Not of type Boolean: SQLite would be asked whether it equals 1, and look at every row."""

    inherit_cache = True


class _Zipped(FunctionElement[Any]):
    """Rows of the first, second, ... values of lists of equal length."""

    inherit_cache = True


def _listed(name: str, item: type[TypeEngine[Any]]) -> BindParameter[Any]:
    return bindparam(name, type_=_List(item))


@compiles(_OneOf, "postgresql")
def _one_of_postgresql(element: _OneOf, compiler: SQLCompiler, **kw: Any) -> str:
    value, values = element.clauses
    return f"{compiler.process(value, **kw)} = ANY ({compiler.process(values, **kw)})"


@compiles(_OneOf, "sqlite")
def _one_of_sqlite(element: _OneOf, compiler: SQLCompiler, **kw: Any) -> str:
    value, values = element.clauses
    return f"{compiler.process(value, **kw)} IN (SELECT value FROM json_each({compiler.process(values, **kw)}))"


@compiles(_Zipped, "postgresql")
def _zipped_postgresql(element: _Zipped, compiler: SQLCompiler, **kw: Any) -> str:
    lists = list(element.clauses)
    arrays = ", ".join(compiler.process(each, **kw) for each in lists)
    return f"(SELECT * FROM unnest({arrays}) AS zipped({', '.join(map(_key, lists))}))"


@compiles(_Zipped, "sqlite")
def _zipped_sqlite(element: _Zipped, compiler: SQLCompiler, **kw: Any) -> str:
    first, *others = element.clauses
    columns = [f"first.value AS {_key(first)}"]
    columns += [f"json_extract({compiler.process(each, **kw)}, first.fullkey) AS {_key(each)}" for each in others]
    return f"(SELECT {', '.join(columns)} FROM json_each({compiler.process(first, **kw)}) AS first)"


def _key(element: Any) -> str:
    key: str = element.key
    return key
