"""Documents of external runtimes: each is stored in the task store, and its session knows of it.

The two stores share no transaction. The session is there before its first document, so that no document is stored which
nobody finds; whatever is missing after a crash is done by the repeat of the call. No executor is needed for that.
"""

import hashlib
import logging
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION_KEYS
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination import document_cuts
from taskplane.gateway.coordination.applying import apply_session
from taskplane.gateway.coordination.deletion import delete_written
from taskplane.gateway.limits import check_size
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.metadata import STEERED
from taskplane.runtime.errors import AlreadyExists, Conflict, Exhausted, Invalid, NotFound, PlaneError, Refused
from taskplane.runtime.failpoints import afp
from taskplane.runtime.titles import title_of
from taskplane.runtime.validation import is_id

T = TypeVar("T")

# Turns of a document of which its session is told at once: the newest ones.
_MOST_TURNS: Final = 1_000

_log = logging.getLogger(__name__)


async def put(plane: Plane, task: a2a.Task, *, agent: str, expected_generation: int) -> pb.PutTaskResponse:
    """Store a document and return the stored form. A session that does not exist is created for `agent`.

    Raise Refused `MANAGED` if an executor runs the task; AlreadyExists if the id belongs to another owner; Conflict
    `GENERATION_MISMATCH`, if `expected_generation` is not 0; Invalid. Nothing is changed then. The turns of deleted
    tasks are left out; Refused `TASK_DELETED`: nothing is left of it, and it is gone.
    """
    asked = pb.PutTaskRequest(task=task, expected_generation=expected_generation, agent=agent)
    check_size(asked)
    begin = sb.NewSession(agent=agent, title=_title(task))
    session = await _session(plane, task.context_id)
    if session is None:
        # A document that is refused begins no session.
        await _put(plane, _checking(asked))
        await _begin(plane, task.context_id, begin)
        await afp("document.after_session")
        session = await _session(plane, task.context_id)
    cut = ""
    if session is not None and task.id == task.context_id:
        cut = await _come_after(plane, asked, session)
    while True:
        try:
            stored = await _put(plane, asked)
        except (AlreadyExists, Conflict, Exhausted, Invalid, Refused):
            # It was checked before, so another call was faster. After any other failure a repeat does the rest.
            if cut:
                await document_cuts.take_back(plane, task.context_id, cut)
            raise
        await afp("document.after_put")
        record = stored.record
        try:
            begun = await _tell(plane, record, stored.invocation_ids, begin)
        except Refused as error:
            # A deletion of a task writes to the session first. So of a write and a deletion at once, one sees the
            # other.
            asked = await _without_deleted(plane, asked, stored, error)
            continue
        if cut:
            await apply_session(plane, record.context_id)
        elif begun or stored.created:
            await _keep_in_line(plane, record.context_id)
        return stored


async def _without_deleted(
    plane: Plane, asked: pb.PutTaskRequest, stored: pb.PutTaskResponse, refusal: Refused
) -> pb.PutTaskRequest:
    """Return the request for a document without the turns of deleted tasks. If nothing is left, delete it and raise
    Refused `TASK_DELETED`."""
    cut = await plane.sessions.ListCut(sb.ListCutRequest(context_id=stored.record.context_id))
    if _names_turns(stored.record.task) and not set(stored.invocation_ids) <= set(cut.deleted_invocation_ids):
        left = pb.PutTaskRequest(without_invocation_ids=cut.deleted_invocation_ids)
        left.MergeFrom(asked)
        left.expected_generation = 0
        left.task.id = stored.record.id
        return left
    with suppress(NotFound, Conflict):
        await delete_written(plane, stored.record)
    refusal.suggestion = "leave its messages out, and store the following ones under another task id"
    raise refusal


async def _come_after(plane: Plane, asked: pb.PutTaskRequest, session: sb.Session) -> str:
    """Mark a document under the id of its session as newer than the last change of the session's history, and cut
    the turns that it leaves out if it is `completed`; return the invocation of the entry that cut it, or nothing."""
    steered, invocation_id = session.steered_seq, ""
    if asked.task.status.state == a2a.TASK_STATE_COMPLETED:
        steered, invocation_id = await _refusing(asked, document_cuts.cut(plane, asked, session))
        await afp("document.after_cut")
    if steered:
        asked.task.metadata.fields[STEERED].number_value = steered
    return invocation_id


async def _put(plane: Plane, asked: pb.PutTaskRequest) -> pb.PutTaskResponse:
    return await _refusing(asked, plane.tasks.PutTask(asked))


async def _refusing(asked: pb.PutTaskRequest, call: Awaitable[T]) -> T:
    """Wait for a call that stores or checks a document, and add a suggestion if it is a task run here."""
    try:
        return await call
    except Refused as error:
        if error.reason != "MANAGED":
            raise
        raise Refused(
            f"task {asked.task.id} is run by this server and cannot be replaced",
            reason="MANAGED",
            suggestion="send it a message instead, or store your own task under another id",
        ) from error


def _checking(asked: pb.PutTaskRequest) -> pb.PutTaskRequest:
    """Return the request as one that writes nothing."""
    checking = pb.PutTaskRequest(validate_only=True)
    checking.MergeFrom(asked)
    return checking


async def _session(plane: Plane, context_id: str) -> sb.Session | None:
    try:
        return (await plane.sessions.GetSession(sb.GetSessionRequest(context_id=context_id))).session
    except NotFound:
        return None


async def _begin(plane: Plane, context_id: str, begin: sb.NewSession) -> None:
    """Create a session; one that was created meanwhile stays as it is."""
    await plane.sessions.AppendEntries(sb.AppendEntriesRequest(context_id=context_id, create=begin))


def _title(task: a2a.Task) -> str:
    """Return the title of a session that a document begins: the first words of its user, or else its first words."""
    said = [*task.history, task.status.message]
    for message in sorted(said, key=lambda message: message.role != a2a.ROLE_USER):
        if title := title_of("\n".join([part.text for part in message.parts if part.HasField("text")])):
            return title
    return ""


async def _tell(plane: Plane, record: pb.TaskRecord, turns: Iterable[str], begin: sb.NewSession) -> bool:
    """Have the session know the turns of a document, so that rewinds and pushed histories cut them, and be listed by
    this change; return whether some turns are new.

    A session that was deleted meanwhile is created again. Another failure is logged only: the document is stored, and
    the missing steps are done when it is stored again. Raise Refused `TASK_DELETED` if one of its turns is deleted.
    """
    named = [turn for turn in turns if is_id(turn)][-_MOST_TURNS:]
    # One that names no turn, and was deleted before, has another turn of its own now: the session knows its id.
    deleted = "" if _names_turns(record.task) else record.id
    if deleted:
        await _touch(plane, record, deleted, begin)
    try:
        if named and await _learn(plane, record, named, begin):
            return True
    except PlaneError as error:
        if error.reason == "TASK_DELETED":
            raise
        _log.warning("session %s lacks turns of task %s: %s", record.context_id, record.id, error)
    if not deleted:
        await _touch(plane, record, "", begin)
    return False


def _names_turns(task: a2a.Task) -> bool:
    """Return whether a document names a turn, of its own or of a message."""
    metadata = [task.metadata, *(one.metadata for one in (task.status.message, *task.history))]
    return any(key in one.fields for one in metadata for key in INVOCATION_KEYS)


async def _touch(plane: Plane, record: pb.TaskRecord, task_id: str, begin: sb.NewSession) -> None:
    """Have a session listed by this change, and create one that was deleted meanwhile. Raise Refused `TASK_DELETED` if
    the task `task_id` was deleted from it; any other failure is logged only."""
    try:
        try:
            await plane.sessions.TouchSession(sb.TouchSessionRequest(context_id=record.context_id, task_id=task_id))
        except NotFound:
            await _begin(plane, record.context_id, begin)
    except PlaneError as error:
        if error.reason == "TASK_DELETED":
            raise
        _log.warning("the time of the last change of session %s is out of date in lists: %s", record.context_id, error)


async def _learn(plane: Plane, record: pb.TaskRecord, turns: Sequence[str], begin: sb.NewSession) -> bool:
    """Store in the session that turns of a document have begun; return whether some are new to it."""
    context_id = record.context_id
    # The ids of entries are those of the owner: a document that was in another session needs others.
    for place in ("", context_id):
        entries = [
            sb.Entry(
                id=_begun_id(record.uid, turn, place),
                kind=sb.ENTRY_KIND_OUTCOME,
                invocation_id=turn,
                task_id=record.id,
            )
            for turn in turns
        ]
        asked = sb.AppendEntriesRequest(context_id=context_id, entries=entries, create=begin)
        try:
            return (await plane.sessions.AppendEntries(asked)).appended > 0
        except Refused as error:
            if error.reason != "KEY_REUSED" or place:
                raise
    return False


def _begun_id(uid: str, turn: str, place: str) -> str:
    """Return the id of the entry that has the session know a turn of a document."""
    return hashlib.sha256("\0".join(filter(None, (uid, turn, place))).encode()).hexdigest()[:32]


async def _keep_in_line(plane: Plane, context_id: str) -> None:
    """Apply the session's rewinds to a document that was stored after them."""
    session = await _session(plane, context_id)
    if session is not None and session.steered_seq:
        await apply_session(plane, context_id)
