"""What an operation on a session concerns: which tasks, and what of each it is about."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from taskplane.tasks.domain import operations as ops
from taskplane.tasks.domain.operations import Operation
from taskplane.tasks.sql import statements as sql

# Keys of one statement, well below the parameters that an engine takes.
AT_ONCE: Final = 4096
# Of the tasks of one session, by uid: whether they have an invocation that was cut.
Session = Mapping[str, bool]


def session_of(op: Operation) -> Hashable:
    """Names the session that an operation concerns as a whole; None: it does not."""
    if type(op) is ops.MarkSuperseded:
        return "session", op.scope.tenant, op.scope.owner, op.context_id
    return None


def sessions(conn: Connection, operations: Sequence[Operation]) -> dict[int, Session]:
    """The tasks of each operation on a session, by its place. As a rule there is none, and nothing is read."""
    return {index: _behind(conn, op) for index, op in enumerate(operations) if type(op) is ops.MarkSuperseded}


def _behind(conn: Connection, op: ops.MarkSuperseded) -> Session:
    tenant, owner, _ = op.scope
    place = {"tenant": tenant, "owner": owner, "context_id": op.context_id, "seq": op.steered_seq}
    tasks = dict.fromkeys(conn.execute(sql.BEHIND, place).scalars(), False)
    cut = sorted(op.cut)
    for first in range(0, len(cut) if tasks else 0, AT_ONCE):
        for of_tenant, of_owner, uid in sql.TASKS_OF_TURNS.all(conn, cut[first : first + AT_ONCE], [tenant]):
            if (of_tenant, of_owner) == (tenant, owner) and uid in tasks:
                tasks[uid] = True
    return tasks
