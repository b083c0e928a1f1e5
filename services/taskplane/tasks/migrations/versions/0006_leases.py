"""Leases stand in a narrow table of their own, and the processes that take them in another one.

SQLite gets a new table `task`: a constraint names the column that goes.
"""

import sqlalchemy as sa
from alembic import op

from taskplane.storage.dialects import dialect_of

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_OF_TASK = "FROM sqlite_master WHERE tbl_name = 'task' AND sql IS NOT NULL"
_OWNER = "lease_owner TEXT, \n\t"
_UNTIL = "lease_until BIGINT, \n\t"
_NAME = "task_queued_or_leased"
_BEFORE = "(lease_owner IS NULL) = (lease_until IS NULL) AND (ready_at IS NULL OR lease_owner IS NULL)"
_AFTER = "ready_at IS NULL OR lease_owner IS NULL"
_INDEXES = ("lease_until", "lease_owner")
_REWRITTEN = {"fillfactor": 60, "autovacuum_vacuum_scale_factor": 0.02}


def upgrade() -> None:
    conn = op.get_bind()
    op.create_table(
        "lease",
        sa.Column("task_uid", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("task_uid", name="lease_pkey"),
        postgresql_with=_REWRITTEN,
    )
    op.create_index("lease_by_end", "lease", ["lease_until"])
    op.create_index("lease_by_owner", "lease", ["owner"])
    op.create_table(
        "executor",
        sa.Column("process_id", sa.Text, nullable=False),
        sa.Column("alive_until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("process_id", name="executor_pkey"),
        postgresql_with=_REWRITTEN,
    )
    conn.exec_driver_sql(
        "INSERT INTO lease (task_uid, owner, fence, lease_until)"
        " SELECT uid, lease_owner, fence, lease_until FROM task WHERE lease_owner IS NOT NULL"
    )
    for column in _INDEXES:
        op.drop_index(f"task_{column}", "task")
    if dialect_of(conn).name == "sqlite":
        _rebuild_task(conn, (_OWNER + _UNTIL, _OWNER), (_BEFORE, _AFTER))
    else:
        op.drop_constraint(_NAME, "task")
        op.drop_column("task", "lease_until")
        op.create_check_constraint(_NAME, "task", _AFTER)


def downgrade() -> None:
    conn = op.get_bind()
    until = "(SELECT lease_until FROM lease WHERE task_uid = uid)"
    if dialect_of(conn).name == "sqlite":
        _rebuild_task(conn, (_OWNER, _OWNER + _UNTIL), (_AFTER, _BEFORE), added=("lease_until", until))
    else:
        op.drop_constraint(_NAME, "task")
        op.add_column("task", sa.Column("lease_until", sa.BigInteger))
        conn.exec_driver_sql(f"UPDATE task SET lease_until = {until} WHERE lease_owner IS NOT NULL")
        op.create_check_constraint(_NAME, "task", _BEFORE)
    for column in _INDEXES:
        condition = sa.text(f"{column} IS NOT NULL")
        op.create_index(f"task_{column}", "task", [column], sqlite_where=condition, postgresql_where=condition)
    op.drop_table("executor")
    op.drop_table("lease")


def _rebuild_task(conn: sa.Connection, *replaced: tuple[str, str], added: tuple[str, str] | None = None) -> None:
    """Make the table anew with the second of each pair for the first, and copy every task into it.

    `added`: a column that it has then, and its value.
    """
    made = _definitions(conn, "table")[0]
    for before, after in replaced:
        if before not in made:
            raise ValueError("the table of tasks is not as the version before made it")
        made = made.replace(before, after)
    indexes = _definitions(conn, "index")
    columns = {str(row[1]): str(row[1]) for row in conn.exec_driver_sql("PRAGMA table_info(task)")}
    if added is None:
        del columns["lease_until"]
    else:
        columns[added[0]] = added[1]
    for (name,) in conn.exec_driver_sql(f"SELECT name {_OF_TASK} AND type = 'index'").all():
        op.drop_index(name, "task")
    conn.exec_driver_sql("ALTER TABLE task RENAME TO task_before")
    conn.exec_driver_sql(made)
    names, values = ", ".join(columns), ", ".join(columns.values())
    conn.exec_driver_sql(f"INSERT INTO task ({names}) SELECT {values} FROM task_before")
    conn.exec_driver_sql("DROP TABLE task_before")
    for index in indexes:
        conn.exec_driver_sql(index)


def _definitions(conn: sa.Connection, kind: str) -> list[str]:
    return [str(sql) for (sql,) in conn.exec_driver_sql(f"SELECT sql {_OF_TASK} AND type = '{kind}' ORDER BY name")]
