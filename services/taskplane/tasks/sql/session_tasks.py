"""The tasks that an operation on a whole session concerns."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Operation
from taskplane.tasks.domain.task import INTERRUPT, PARALLEL
from taskplane.tasks.sql import statements as sql


@dataclass(slots=True)
class SessionTasks:
    """The session of one operation. `tasks`: by uid, whether they have a cut invocation. `busy`: see `Found`."""

    tasks: Mapping[str, bool] = field(default_factory=dict[str, bool])
    busy: int = 0


def session_of(op: Operation) -> Hashable:
    """Return the key of the session that an operation is about; None if the operation is about a task."""
    if type(op) is commands.MarkSuperseded or (type(op) is commands.Create and op.strategy > PARALLEL):
        return "session", op.scope.tenant, op.scope.owner, op.context_id
    return None


def session_tasks(conn: Connection, operations: Sequence[Operation], locking: sql.Locking) -> dict[int, SessionTasks]:
    """Return the session of each operation that is about a session, by index. Most batches have none; then nothing is
    read."""
    found = {index: op for index, op in enumerate(operations) if session_of(op) is not None}
    # Two processes must not begin tasks at once that exclude each other.
    for name in sorted({repr(session_of(op)) for op in found.values() if type(op) is commands.Create}):
        locking.exclusive(conn, name)
    return {index: _session(conn, op) for index, op in found.items()}


def _session(conn: Connection, op: Operation) -> SessionTasks:
    if type(op) is commands.MarkSuperseded:
        return SessionTasks(_behind(conn, op))
    if type(op) is not commands.Create:
        return SessionTasks()
    place = {
        "tenant": op.scope.tenant,
        "owner": op.scope.owner,
        "context_id": op.context_id,
        "agent": op.agent,
    }
    if op.strategy == INTERRUPT:
        return SessionTasks(dict.fromkeys(conn.execute(sql.ACTIVE_OF_SESSION, place).scalars(), False))
    return SessionTasks(busy=conn.execute(sql.NEWEST_ACTIVE, place).scalar_one() or 0)


def _behind(conn: Connection, op: commands.MarkSuperseded) -> Mapping[str, bool]:
    tenant, owner = op.scope.tenant, op.scope.owner
    place = {"tenant": tenant, "owner": owner, "context_id": op.context_id, "seq": op.steered_seq}
    tasks = {uid: turn in op.cut for uid, turn in conn.execute(sql.BEHIND, place)}
    if tasks and op.cut:
        for uid in conn.execute(sql.TASKS_OF_TURNS, {"turns": op.cut, "tenants": [tenant]}).scalars():
            # Others may have turns of the same name.
            if uid in tasks:
                tasks[uid] = True
    return tasks
