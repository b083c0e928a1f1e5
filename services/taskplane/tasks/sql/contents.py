"""The content of tasks: the stored snapshot and the events after it, read in one statement for any number of tasks."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import BigInteger, Cast, Column, Connection, case, cast, func, null, select, union_all

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.storage.lists import table_of
from taskplane.tasks.domain.documents import shown_document, unpack_turns
from taskplane.tasks.domain.fold import Said, fold, text_so_far
from taskplane.tasks.domain.kinds import ARTIFACT, STATUS
from taskplane.tasks.domain.snapshots import Tail
from taskplane.tasks.domain.task import Event, Row
from taskplane.tasks.sql.packing import unpack
from taskplane.tasks.sql.statements import EVENT_COLUMNS, IN_UIDS, to_event
from taskplane.tasks.sql.texts import has_nul
from taskplane.tasks.tables import event, task


def _nothing(column: Column[Any]) -> Cast[Any]:
    """Return null, or 0, "" or false where the column may not be null."""
    return cast(null() if column.nullable else column.type.python_type(), column.type)


# The snapshot has the shape of an event, with generation 0; its invocation is the cut turns of a document that is shown
# without them. A document hidden as a whole is shown whole on request. Nothing is sorted here: payloads are
# large and the order inside a task is the index's.
_IN_SNAPSHOTS: Final[Mapping[Any, Any]] = {
    event.c.payload: task.c.snapshot,
    event.c.invocation_id: case((task.c.superseded, null()), else_=task.c.cut_turns),
}
_SNAPSHOTS: Final = select(
    task.c.uid,
    cast(0, BigInteger).label("generation"),
    *(_IN_SNAPSHOTS.get(column, _nothing(column)) for column in EVENT_COLUMNS[2:]),
).where(IN_UIDS)
_TAILS: Final = (
    select(*EVENT_COLUMNS)
    .join(task, (task.c.uid == event.c.task_uid) & (event.c.generation > task.c.snapshot_generation))
    .where(IN_UIDS)
)
_CONTENTS: Final = union_all(_SNAPSHOTS, _TAILS)
_TALKS: Final = union_all(_SNAPSHOTS, _TAILS.where(event.c.kind != ARTIFACT))

_NEWEST_TURNS: Final = (
    select(task.c.uid, event.c.invocation_id)
    .join(event, (event.c.task_uid == task.c.uid) & (event.c.generation == task.c.input_generation))
    .where(IN_UIDS)
)
_SAID_UNDER_FENCE: Final = (
    select(event.c.task_uid, event.c.payload)
    .join(task, (task.c.uid == event.c.task_uid) & (event.c.fence == task.c.fence))
    .where(IN_UIDS, event.c.kind == STATUS, event.c.speaks)
    .order_by(event.c.task_uid, event.c.generation)
)
_FINAL_MESSAGE: Final = (
    select(task.c.uid, event.c.payload)
    .join(event, (event.c.task_uid == task.c.uid) & (event.c.generation == task.c.message_generation))
    .where(IN_UIDS, event.c.kind == STATUS, event.c.fence == task.c.fence)
)

_OPEN_TEXTS: Final = (
    select(*EVENT_COLUMNS)
    .join(task, (task.c.uid == event.c.task_uid) & (event.c.generation >= task.c.partial_generation))
    .where(IN_UIDS, event.c.kind == STATUS, event.c.speaks.is_(False))
    .order_by(event.c.task_uid, event.c.generation)
)
_is_piece: Final = event.c.kind == ARTIFACT
# Pieces may be stored compressed. Only for uncompressed pieces is the size known without reading them.
_PIECES: Final = (
    select(
        task.c.uid,
        func.count(case((_is_piece, 1))),
        func.coalesce(func.sum(case((_is_piece, 0), else_=func.length(event.c.payload))), 0),
        func.count(event.c.artifact_id),
        func.count(event.c.artifact_id.distinct()),
    )
    .join(event, (event.c.task_uid == task.c.uid) & (event.c.generation > task.c.snapshot_generation))
    .where(IN_UIDS)
    .group_by(task.c.uid)
)

_wanted: Final = table_of("wanted", "uid", "artifact_id")
_newest: Final = select(func.max(event.c.generation)).where(
    event.c.task_uid == _wanted.c.uid,
    event.c.artifact_id == _wanted.c.artifact_id,
    event.c.artifact_id.is_not(None),
)
_restart: Final = select(task.c.restart_generation).where(task.c.uid == _wanted.c.uid)
_ARTIFACTS: Final = select(_wanted.c.uid, _wanted.c.artifact_id).where(
    _newest.correlate(_wanted).scalar_subquery() > _restart.correlate(_wanted).scalar_subquery()
)

# Keys of one statement.
_AT_ONCE: Final = 1000


@dataclass(slots=True)
class Content:
    """The content of a task: its stored snapshot, and the events after it.

    `said`: see `fold`. `cut`: the turns of a document that are not shown.
    """

    snapshot: bytes
    tail: list[Event]
    said: dict[int, Said]
    cut: Set[str] = frozenset()

    def folded(self, events: Sequence[Event] = (), said: Mapping[int, Said] | None = None) -> a2a.Task:
        """Return the task for clients, after further `events`. `said`: see `fold`."""
        task = self.stored(events, said)
        return shown_document(task, self.cut) if self.cut else task

    def stored(self, events: Sequence[Event] = (), said: Mapping[int, Said] | None = None) -> a2a.Task:
        """Return the whole stored task, after further `events`. `said`: see `fold`."""
        task = a2a.Task.FromString(unpack(self.snapshot))
        return fold(task, (*self.tail, *events), {**self.said, **(said or {})})


def contents(conn: Connection, uids: Iterable[str], *, artifacts: bool = True) -> dict[str, Content]:
    """Return the present tasks, by one statement.

    A task that does not exist is left out. Without `artifacts`, artifacts after the snapshot are left out.
    """
    snapshots: dict[str, bytes] = {}
    cut: dict[str, Set[str]] = {}
    tails: dict[str, list[Event]] = {}
    for values in conn.execute(_CONTENTS if artifacts else _TALKS, {"uids": uids}):
        found = to_event(values)
        if found.generation == 0:
            snapshots[found.task_uid] = found.payload
            if found.invocation_id is not None:
                cut[found.task_uid] = unpack_turns(found.invocation_id)
        else:
            tails.setdefault(found.task_uid, []).append(found)
    return {
        uid: Content(snapshot, sorted(tails.get(uid, ()), key=_generation), {}, cut.get(uid, frozenset()))
        for uid, snapshot in snapshots.items()
    }


def open_texts(conn: Connection, rows: Mapping[str, Row]) -> Mapping[str, a2a.Message]:
    """Return the text that is open on each of these tasks, by uid, without the rest of the task. One statement."""
    pieces: dict[str, list[Event]] = {}
    for values in conn.execute(_OPEN_TEXTS, {"uids": rows.keys()}):
        found = to_event(values)
        pieces.setdefault(found.task_uid, []).append(found)
    texts = {uid: text_so_far(events, rows[uid].partial_id or "") for uid, events in pieces.items()}
    return {uid: text for uid, text in texts.items() if text is not None}


def said_under_fence(conn: Connection, uids: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the ids of the final messages that each task's executor sent under the present fence of the task, in
    order."""
    said: dict[str, list[str]] = {}
    for uid, payload in conn.execute(_SAID_UNDER_FENCE, {"uids": uids}):
        message = a2a.StreamResponse.FromString(payload).status_update.status.message
        said.setdefault(uid, []).append(message.message_id)
    return said


def final_message(conn: Connection, uids: Iterable[str]) -> Mapping[str, a2a.TaskStatusUpdateEvent]:
    """Return the newest message of each task if its executor sent it under the present fence of the task."""
    found = conn.execute(_FINAL_MESSAGE, {"uids": uids})
    return {uid: a2a.StreamResponse.FromString(payload).status_update for uid, payload in found}


def tails(conn: Connection, uids: Iterable[str]) -> Mapping[str, Tail]:
    """Return the contents of the tails of tasks. A tail without events is left out. No payload is read."""
    found = conn.execute(_PIECES, {"uids": uids})
    return {uid: Tail(pieces, int(others), begun, artifacts) for uid, pieces, others, begun, artifacts in found}


def newest_turns(conn: Connection, uids: Iterable[str]) -> Mapping[str, str]:
    """Return the invocation of each task's newest user message."""
    return dict(conn.execute(_NEWEST_TURNS, {"uids": uids}).all())


def artifacts_among(conn: Connection, keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs (task uid, artifact id) that exist: begun, and not in an attempt that was lost since.

    One statement, which reads one entry of an index for each pair; without pairs there is no statement.
    """
    asked = sorted(key for key in keys if not has_nul(*key))
    found: list[tuple[str, str]] = []
    for first in range(0, len(asked), _AT_ONCE):
        uids, artifact_ids = zip(*asked[first : first + _AT_ONCE], strict=True)
        rows = conn.execute(_ARTIFACTS, {"uid": uids, "artifact_id": artifact_ids})
        found += [(uid, artifact_id) for uid, artifact_id in rows]
    return found


def _generation(one: Event) -> int:
    return one.generation
