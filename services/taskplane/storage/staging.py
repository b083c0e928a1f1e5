"""Pages of an import, hidden until one last transaction makes all of them visible.

Each owner and name has one staged import at a time: a new import replaces the pages of an earlier one, which can then
neither stage nor commit. Pages without progress for an hour are removed by the next import or by a sweep.
"""

import struct
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError

from taskplane.runtime.errors import Conflict, Invalid
from taskplane.storage.dialects import Dialect
from taskplane.storage.port import Engine

# Microseconds after which a staged import without progress is given up.
GIVEN_UP: Final = 3_600_000_000
_SIZE: Final = struct.Struct("!I")


class Stage(NamedTuple):
    """Names a staged import: its owner, its name, and its import id."""

    tenant: str
    owner: str
    context_id: str
    import_id: str


def staging_table(name: str, metadata: MetaData) -> Table:
    """Return the table for the pages of staged imports, numbered from 1; number 0 is reserved for the store."""
    table = Table(
        name,
        metadata,
        Column("tenant", Text, nullable=False),
        Column("owner", Text, nullable=False),
        Column("context_id", Text, nullable=False),
        Column("number", BigInteger, nullable=False),
        Column("import_id", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("data", LargeBinary, nullable=False),
        PrimaryKeyConstraint("context_id", "owner", "tenant", "number", name=f"{name}_pkey"),
    )
    Index(f"{name}_by_time", table.c.created_at, table.c.number)
    return table


def stage(conn: Connection, table: Table, dialect: Dialect, of: Stage, number: int, data: bytes) -> None:
    """Keep page `number`. The first page replaces an earlier import. A repeat of the newest page changes nothing.

    Conflict `IMPORT_REPLACED`: the page before is not there, since another import took its place or it was given up.
    """
    lock(conn, dialect, of)
    now = time.time_ns() // 1000
    if number == 1:
        drop_given_up(conn, table, now)
        conn.execute(delete(table).where(*_of(table), table.c.number > 0), _key(of))
    elif newest(conn, table, of) == number:
        return
    elif newest(conn, table, of) != number - 1:
        raise replaced(of.context_id)
    conn.execute(insert(table), {**of._asdict(), "number": number, "created_at": now, "data": data})


def newest(conn: Connection, table: Table, of: Stage) -> int:
    """Return the number of the newest page of this import; 0 if there is none."""
    query = select(func.max(table.c.number)).where(
        *_of(table), table.c.number > 0, table.c.import_id == bindparam("of_import_id", type_=Text)
    )
    found: int | None = conn.execute(query, {**_key(of), "of_import_id": of.import_id}).scalar_one()
    return found or 0


def records(conn: Connection, table: Table, of: Stage, pages: int) -> Iterator[bytes]:
    """Yield the records of the pages, some megabytes at a time.

    Conflict `IMPORT_REPLACED`; Invalid: cut off.
    """
    if not pages or newest(conn, table, of) != pages:
        raise replaced(of.context_id)
    query = select(table.c.data).where(*_of(table), table.c.number == bindparam("of_number"))
    rest = b""
    for number in range(1, pages + 1):
        piece: bytes | None = conn.execute(query, {**_key(of), "of_number": number}).scalar_one_or_none()
        if piece is None:
            raise replaced(of.context_id)
        rest += bytes(piece)
        place = 0
        while len(rest) - place >= _SIZE.size:
            end = place + _SIZE.size + _SIZE.unpack_from(rest, place)[0]
            if end > len(rest):
                break
            yield rest[place + _SIZE.size : end]
            place = end
        rest = rest[place:]
    if rest:
        raise Invalid("the last record is incomplete", reason="IMPORT_CUT")


def drop(conn: Connection, table: Table, of: Stage, *, number: int | None = None) -> None:
    """Remove the pages, or one of them. Without an import id: the pages of any import."""
    where = [*_of(table)]
    if of.import_id:
        where.append(table.c.import_id == of.import_id)
    if number is not None:
        where.append(table.c.number == number)
    conn.execute(delete(table).where(*where), _key(of))


def drop_pages(conn: Connection, table: Table, of: Stage) -> None:
    """Remove the pages as `drop` does, but keep page 0."""
    where = [*_of(table), table.c.number > 0]
    if of.import_id:
        where.append(table.c.import_id == of.import_id)
    conn.execute(delete(table).where(*where), _key(of))


def staged(conn: Connection, table: Table, tenant: str, owner: str) -> list[str]:
    """Return the names under which something is kept of this owner, at most 100 of them, in order."""
    query = (
        select(table.c.context_id)
        .where(table.c.tenant == bindparam("tenant"), table.c.owner == bindparam("owner"))
        .distinct()
        .order_by(table.c.context_id)
        .limit(100)
    )
    return list(conn.execute(query, {"tenant": tenant, "owner": owner}).scalars())


def given_up(conn: Connection, table: Table, now: int) -> bool:
    """Return whether there may be something that nobody went on with at `now` (microseconds since 1970)."""
    query = select(table.c.number).where(table.c.created_at < bindparam("before"), table.c.number > 0).limit(1)
    return conn.execute(query, {"before": now - GIVEN_UP}).first() is not None


def drop_given_up(conn: Connection, table: Table, now: int) -> int:
    """Remove imports without progress, of all owners; return how many pages."""
    newer = table.alias("newer")
    goes_on = exists().where(
        *(newer.c[name] == table.c[name] for name in ("context_id", "owner", "tenant")),
        newer.c.number > 0,
        newer.c.created_at >= bindparam("before", type_=BigInteger),
    )
    old = delete(table).where(table.c.created_at < bindparam("before", type_=BigInteger), table.c.number > 0, ~goes_on)
    return conn.execute(old, {"before": now - GIVEN_UP}).rowcount


async def drop_abandoned(engine: Engine, table: Table) -> int:
    """Remove imports without progress for an hour, of all owners; return how many pages. Only read if there is none."""
    now = time.time_ns() // 1000
    return await engine.write(drop_given_up, table, now) if await engine.read(given_up, table, now) else 0


def page(conn: Connection, table: Table, of: Stage, number: int) -> tuple[str, bytes] | None:
    """Return the import and the content of a page of any import."""
    query = select(table.c.import_id, table.c.data).where(*_of(table), table.c.number == bindparam("of_number"))
    found = conn.execute(query, {**_key(of), "of_number": number}).one_or_none()
    return None if found is None else (found[0], bytes(found[1]))


def lock(conn: Connection, dialect: Dialect, of: Stage) -> None:
    """Lock an import until the transaction ends, so that only one import of a name continues at a time."""
    dialect.exclusive(conn, repr(("import", of.tenant, of.owner, of.context_id)))


def replaced(context_id: str) -> Conflict:
    """Return the error that another import of the same session was begun, or this one was given up."""
    return Conflict(
        f"this import of session {context_id} took too long or was replaced by another import",
        reason="IMPORT_REPLACED",
        suggestion="start the import again, only one at a time",
    )


@contextmanager
def contested(context_id: str) -> Generator[None]:
    """Raise Conflict `IMPORT_CONFLICT` if the body, which makes the staged import visible, met rows of other
    writers."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            f"session {context_id} could not be imported: it contradicts itself or data stored during the import",
            reason="IMPORT_CONFLICT",
            suggestion="start the import again",
        ) from error


def _of(table: Table) -> tuple[ColumnElement[bool], ...]:
    return tuple(table.c[name] == bindparam(f"of_{name}", type_=Text) for name in ("tenant", "owner", "context_id"))


def _key(of: Stage) -> dict[str, Any]:
    return {"of_tenant": of.tenant, "of_owner": of.owner, "of_context_id": of.context_id}
