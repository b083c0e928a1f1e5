"""The table with one row about the store itself."""

import secrets

from sqlalchemy import Connection, select

from taskplane.sessions.tables import session_meta
from taskplane.storage.dialects import Dialect


def read_or_make_page_key(conn: Connection, dialect: Dialect) -> bytes:
    """Return the key that signs page tokens; make it if there is none.

    Of several processes that start at once one makes it.
    """
    query = select(session_meta.c.page_key)
    found = conn.execute(query).scalar_one_or_none()
    if found is None:
        new = {"id": 1, "page_key": secrets.token_bytes(32), "settled_until": 0, "created_at": dialect.now(conn)}
        conn.execute(dialect.insert_ignore(session_meta), new)
        found = conn.execute(query).scalar_one()
    return bytes(found)
