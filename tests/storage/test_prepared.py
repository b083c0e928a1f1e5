"""Prepared statements: they do what SQLAlchemy would do with the same statement, on both engines."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    column,
    event,
    insert,
    literal,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.engine import Engine as SqlEngine
from sqlalchemy.exc import IntegrityError

from taskplane.runtime.errors import Unavailable
from taskplane.storage.engine import Engine, open_engine
from taskplane.storage.prepared import KeyQuery, Many, Query

metadata = MetaData()
fruit = Table(
    "fruit",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("ripe", Boolean, nullable=False),
    Column("seeds", LargeBinary),
    Column("weight", BigInteger),
)
PLACES: Final = {name: place for place, name in enumerate(("id", "name", "ripe", "seeds", "weight"))}
ROWS: Final = [
    (number, f"fruit {number}", number % 2 == 0, None if number == 3 else b"\0s", None) for number in range(6)
]

ADD: Final = Many(insert(fruit), PLACES)
RIPEN: Final = Many(update(fruit).where(fruit.c.id == bindparam("of_id")).values(ripe=True), {"of_id": 0, "ripe": 1})
BY_ID: Final = Query(
    union_all(
        select(fruit.c.id, fruit.c.name, fruit.c.ripe, fruit.c.seeds).where(
            fruit.c.id.in_(bindparam("ids", expanding=True))
        ),
        select(fruit.c.id, literal("named"), fruit.c.ripe, fruit.c.seeds).where(
            fruit.c.name.in_(bindparam("names", expanding=True)), fruit.c.id.in_(bindparam("ids", expanding=True))
        ),
    ),
    "names",
    "ids",
)


def wanted(count: int) -> Any:
    rows = ", ".join(f"(:a{index}, :b{index})" for index in range(count))
    names = [f"{letter}{index}" for index in range(count) for letter in "ab"]
    types = {"a": Integer, "b": Text}
    values = text(f"VALUES {rows}").bindparams(*(bindparam(name, type_=types[name[0]]) for name in names))
    keys = values.columns(column("column1", Integer), column("column2", Text)).cte("wanted")
    return select(fruit.c.id).join(keys, (fruit.c.id == keys.c.column1) & (fruit.c.name == keys.c.column2))


BY_KEY: Final = KeyQuery(wanted, "ab")


@pytest.fixture
async def engine(dsn: str) -> AsyncGenerator[Engine, None]:
    async with open_engine(dsn) as engine:
        await engine.write(metadata.create_all)
        await engine.write(ADD.execute, ROWS)
        yield engine


async def test_rows_come_back_as_they_were_written_whatever_the_number_of_values(engine: Engine) -> None:
    """Booleans are booleans, bytes bytes, and NULL is None; no row comes twice for a list that was padded."""
    for ids in ([3], [1, 3, 5], list(range(6)), [0, 1, 2, 3, 99]):
        found = await engine.read(BY_ID.all, ["fruit 1", "nobody"], ids)
        known = sorted(row[:4] for row in ROWS if row[0] in ids)
        named = [(1, "named", False, b"\0s")] if 1 in ids else []
        assert sorted(map(tuple, found)) == sorted([*known, *named])
        assert all(type(row[2]) is bool for row in found)


async def test_by_keys_of_several_values_and_by_none(engine: Engine) -> None:
    keys = [(number, f"fruit {number}") for number in (4, 2, 0)] + [(1, "fruit 2")]
    assert sorted(number for (number,) in await engine.read(BY_KEY.all, keys)) == [0, 2, 4]
    assert not await engine.read(BY_KEY.all, [])
    assert not await engine.read(BY_ID.all, ["fruit 1"], [])


async def test_a_single_row_tells_whether_it_changed_one(engine: Engine) -> None:
    assert await engine.write(RIPEN.execute, [(1, True)]) == 1
    assert await engine.write(RIPEN.execute, [(99, True)]) == 0
    assert await engine.write(RIPEN.execute, []) == 0


async def test_what_a_constraint_refuses_is_an_integrity_error_and_undoes_all(engine: Engine) -> None:
    with pytest.raises(IntegrityError):
        await engine.write(ADD.execute, [(7, "new", True, None, None), ROWS[0]])
    assert not await engine.read(BY_ID.all, ["new"], [7])


async def test_who_listens_to_statements_hears_of_these_too(engine: Engine) -> None:
    """Tests that count statements, and the benchmark that counts bytes, must not be blind to them."""
    heard: list[tuple[str, Any, bool]] = []

    def hear(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if not statement.startswith("BEGIN"):
            heard.append((statement.split(maxsplit=1)[0], parameters, many))

    event.listen(SqlEngine, "before_cursor_execute", hear)
    try:
        await engine.write(ADD.execute, [(8, "a", True, None, 1), (9, "b", True, None, 1)])
        await engine.read(BY_KEY.all, [(8, "a")])
    finally:
        event.remove(SqlEngine, "before_cursor_execute", hear)
    assert heard == [("INSERT", [(8, "a", True, None, 1), (9, "b", True, None, 1)], True), ("WITH", (8, "a"), False)]


@pytest.mark.parametrize("engine_name", ["postgres"])
async def test_a_connection_that_breaks_is_unavailable_and_replaced(engine: Engine) -> None:
    def broken(conn: Connection) -> Sequence[Any]:
        conn.execute(text("SET LOCAL statement_timeout = 0"))
        victim = conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with conn.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": victim})
        return BY_KEY.all(conn, [(1, "fruit 1")])

    with pytest.raises(Unavailable):
        await engine.write(broken)
    assert len(await engine.write(BY_KEY.all, [(1, "fruit 1")])) == 1
