"""The state that events of agent runtimes make, and what the events stored before made of it."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.errors import Invalid
from taskplane.sessions.domain.payload import read_event
from taskplane.sessions.domain.state import Delta, read_delta

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_PAGE = 200
_EVENTS = sa.text(
    "SELECT e.context_id, e.owner, e.tenant, e.seq, e.payload, e.created_at, s.agent FROM entry e"
    " JOIN session s ON s.context_id = e.context_id AND s.owner = e.owner AND s.tenant = e.tenant"
    " WHERE e.kind = 3 AND (e.context_id, e.owner, e.tenant, e.seq) > (:context_id, :owner, :tenant, :seq)"
    f" ORDER BY e.context_id, e.owner, e.tenant, e.seq LIMIT {_PAGE}"
)


def upgrade() -> None:
    conn = op.get_bind()
    for table in _tables():
        table.create(conn)
    _fill(conn)


def downgrade() -> None:
    conn = op.get_bind()
    for table in _tables():
        table.drop(conn)


def _tables() -> list[sa.Table]:
    metadata = sa.MetaData()
    session = sa.Table("session", metadata, *(sa.Column(name, sa.Text) for name in ("context_id", "owner", "tenant")))
    key = [session.c.context_id, session.c.owner, session.c.tenant]
    event_delta = sa.Table(
        "event_delta",
        metadata,
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("context_id", sa.Text, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("own", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("context_id", "owner", "tenant", "place", name="event_delta_pkey"),
        sa.ForeignKeyConstraint(["context_id", "owner", "tenant"], key, name="event_delta_session", ondelete="CASCADE"),
    )
    return [event_delta, _state(metadata, "user_state", "owner"), _state(metadata, "app_state")]


def _state(metadata: sa.MetaData, name: str, *whose: str) -> sa.Table:
    keys = (*whose, "agent", "tenant", "key")
    return sa.Table(
        name,
        metadata,
        *(sa.Column(column, sa.Text, nullable=False) for column in keys),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint(*keys, name=f"{name}_pkey"),
        sqlite_with_rowid=False,
    )


def _fill(conn: sa.Connection) -> None:
    event_delta, user_state, app_state = _tables()
    # The newest change of each key of a wider scope: when it was made, and the value.
    of_users: dict[tuple[str, ...], tuple[int, bytes | None]] = {}
    of_apps: dict[tuple[str, ...], tuple[int, bytes | None]] = {}
    for row, delta in _deltas(conn):
        if delta.own:
            key = {"tenant": row.tenant, "owner": row.owner, "context_id": row.context_id}
            conn.execute(sa.insert(event_delta), {**key, "place": row.seq, "seq": row.seq, "own": delta.own})
        _keep(of_users, (row.owner, row.agent, row.tenant), delta.user, row.created_at)
        _keep(of_apps, (row.agent, row.tenant), delta.app, row.created_at)
    for table, values in ((user_state, of_users), (app_state, of_apps)):
        names = [*table.primary_key.columns.keys(), "value"]
        rows = [dict(zip(names, (*key, value), strict=True)) for key, (_, value) in values.items() if value is not None]
        if rows:
            conn.execute(sa.insert(table), rows)


def _keep(kept: dict[tuple[str, ...], tuple[int, bytes | None]], whose: tuple[str, ...], new: Any, at: int) -> None:
    for name, value in new.items():
        if kept.get((*whose, name), (0, None))[0] <= at:
            kept[*whose, name] = (at, value)


def _deltas(conn: sa.Connection) -> Iterator[tuple[sa.Row[Any], Delta]]:
    after = {"context_id": "", "owner": "", "tenant": "", "seq": 0}
    while rows := conn.execute(_EVENTS, after).all():
        for row in rows:
            said = read_event(pb.Entry.FromString(row.payload or b"").data)
            try:
                delta = read_delta(0, said.state_delta, said.artifact_delta)
            except Invalid:
                continue
            if delta is not None:
                yield row, delta
        last = rows[-1]
        after = {"context_id": last.context_id, "owner": last.owner, "tenant": last.tenant, "seq": last.seq}
