"""Columns of tables, made of the declarations in `fields`."""

from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Integer, LargeBinary, Text, text
from sqlalchemy.types import TypeEngine

from taskplane.storage.fields import Width, fields_of

_TYPES: Final[dict[type, type[TypeEngine[Any]]]] = {int: BigInteger, str: Text, bool: Boolean, bytes: LargeBinary}


def columns_of(
    noun: type[tuple[Any, ...]], *, nullable: Collection[str] = (), **checks: CheckConstraint
) -> list[Column[Any]]:
    """Return a column for each field of a NamedTuple, in order.

    A default other than None is the default of the column as well. `nullable`: fields with a column that may be null,
    whatever their type says. `checks`: constraints that stand beside their column, by its name.
    """
    return [
        Column(
            name,
            Integer if Width.SMALL in field.marks else _TYPES[field.kind],
            *([checks[name]] if name in checks else []),
            nullable=field.nullable or name in nullable,
            server_default=None if field.default is None else text(repr(field.default)),
        )
        for name, field in fields_of(noun).items()
    ]
