"""The table with one row about the store itself."""

import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from taskplane.storage.dialects import Dialect
from taskplane.tasks.tables import store_meta


@dataclass(frozen=True, slots=True)
class Meta:
    """The row about the store: `epoch` names this history of the log, `page_key` signs page tokens."""

    epoch: str
    page_key: bytes


def read_or_make_meta(conn: Connection, dialect: Dialect) -> Meta:
    """Return the row; insert it if there is none. Of several processes that start at once one inserts it."""
    query = select(store_meta.c.epoch, store_meta.c.page_key)
    found = conn.execute(query).one_or_none()
    if found is None:
        new = {"id": 1, "epoch": _random_epoch(), "page_key": secrets.token_bytes(32), "created_at": dialect.now(conn)}
        conn.execute(dialect.insert_ignore(store_meta), new)
        found = conn.execute(query).one()
    return Meta(epoch=found.epoch, page_key=found.page_key)


def draw_epoch(conn: Connection) -> str:
    """Draw a new epoch, so that every cursor made before is recognised as foreign: the last step of a restore.

    Processes that serve the store read the epoch when they start.
    """
    epoch = _random_epoch()
    conn.execute(update(store_meta).values(epoch=epoch))
    return epoch


def _random_epoch() -> str:
    return secrets.token_hex(16)
