"""The turns of a task, read with the other documents of its session."""

from typing import Final

from sqlalchemy import Connection, bindparam, select

from taskplane.tasks.domain.kinds import TURNS
from taskplane.tasks.domain.task import DOCUMENT, Row, Scope
from taskplane.tasks.domain.turns import TurnsOfTask, of_document, of_managed
from taskplane.tasks.sql.contents import contents
from taskplane.tasks.sql.conversation import documents_of_session
from taskplane.tasks.sql.reads import get_row
from taskplane.tasks.tables import event

_BEGUN: Final = (
    select(event.c.invocation_id)
    .where(
        event.c.task_uid == bindparam("uid"),
        event.c.kind.in_(sorted(TURNS)),
        event.c.invocation_id.is_not(None),
    )
    .order_by(event.c.generation)
)


def list_turns(conn: Connection, scope: Scope, task_id: str) -> tuple[Row, TurnsOfTask]:
    """Implement `TaskLog.turns`."""
    row = get_row(conn, scope, task_id)
    task = contents(conn, [row.uid], artifacts=False)[row.uid].stored()
    if row.origin != DOCUMENT:
        return row, of_managed(task, conn.execute(_BEGUN, {"uid": row.uid}).scalars())
    others = documents_of_session(conn, scope, row.context_id, without=row.uid)
    return row, of_document(task, row.invocation_id, others)
