"""The declaration of stored fields: what it says, and the columns that are made of it."""

from typing import NamedTuple

import pytest
from sqlalchemy import CheckConstraint, MetaData, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from taskplane.storage.columns import columns_of
from taskplane.storage.fields import Cache, Fixed, Free, Growing, Rule, Small, Width, fields_of, marked


class Noun(NamedTuple):
    """A noun with each type, with and without None."""

    id: Fixed[str]
    size: Free[Small | None]
    content: Cache[bytes | None]
    seen: bool
    number: Growing[int] = 3
    title: Free[str] = ""
    last: int | None = None


class Odd(NamedTuple):
    """A noun with a type that no column has."""

    id: float


def test_a_field_has_the_marks_of_its_aliases_and_of_the_type_inside() -> None:
    fields = fields_of(Noun)
    assert list(fields) == list(Noun._fields)
    assert fields["size"].marks == {Rule.FREE, Width.SMALL} and fields["size"].nullable
    assert fields["seen"].marks == set() and not fields["seen"].nullable
    assert [name for name, field in fields.items() if field.default is not None] == ["number", "title"]
    assert marked(Noun, Rule.FREE) == {"size", "title"} and marked(Noun, Rule.FIXED, Rule.CACHE) == {"id", "content"}


def test_a_column_has_the_type_and_the_default_of_its_field() -> None:
    table = Table("noun", MetaData(), *columns_of(Noun, nullable=["seen"], id=CheckConstraint("id <> ''", name="some")))
    text = str(CreateTable(table).compile(dialect=sqlite.dialect()))
    assert [line.strip(" \t,") for line in text.splitlines() if line.startswith("\t")] == [
        "id TEXT NOT NULL CONSTRAINT some CHECK (id <> '')",
        "size INTEGER",
        "content BLOB",
        "seen BOOLEAN",
        "number BIGINT DEFAULT 3 NOT NULL",
        "title TEXT DEFAULT '' NOT NULL",
        "last BIGINT",
    ]


def test_a_type_without_a_column_is_refused() -> None:
    with pytest.raises(KeyError):
        columns_of(Odd)
