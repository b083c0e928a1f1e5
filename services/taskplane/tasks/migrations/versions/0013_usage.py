"""The figures of a run, kept until it ends: SQLite gets a new table `task`, as in version 0011.

From this version on large pieces of artifacts are stored compressed on SQLite: a zero byte, the length in four bytes,
and a zlib stream.
"""

import zlib
from typing import Final

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of
from taskplane.storage.rebuild import rebuild_table

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_SNAPSHOT = "snapshot BLOB NOT NULL"
_DEFINED = "usage BLOB, \n\t" + _SNAPSHOT
_PACKED = (
    "SELECT task_uid, generation, payload FROM event WHERE kind = 4 AND substr(payload, 1, 1) = x'00'"
    " AND (task_uid, generation) > (?, ?) ORDER BY task_uid, generation LIMIT 16"
)
_HEAD: Final = 5


def upgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        rebuild_table(conn, "task", _SNAPSHOT, _DEFINED)
    else:
        op.add_column("task", sa.Column("usage", sa.LargeBinary))


def downgrade() -> None:
    conn = op.get_bind()
    if dialect_of(conn).name == "sqlite":
        _unpack_pieces(conn)
        rebuild_table(conn, "task", _DEFINED, _SNAPSHOT)
    else:
        op.drop_column("task", "usage")


def _unpack_pieces(conn: sa.Connection) -> None:
    """Store the pieces of artifacts as the version before reads them, a few at a time."""
    place = ("", 0)
    while packed := conn.exec_driver_sql(_PACKED, place).all():
        for task_uid, generation, payload in packed:
            conn.exec_driver_sql(
                "UPDATE event SET payload = ? WHERE task_uid = ? AND generation = ?",
                (zlib.decompress(payload[_HEAD:]), task_uid, generation),
            )
            place = (task_uid, generation)
