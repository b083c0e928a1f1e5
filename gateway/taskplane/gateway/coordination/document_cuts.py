"""A document under the id of its session: the whole conversation as its runtime has it.

A runtime that rewinds by itself stores such a document without the cut turns; it then acts like a pushed history.
The history is stored first, and the document after it, so that a crash in between shows the document's content. A
runtime that keeps one task for a session stores such a document in each turn, which cuts nothing.
"""

from collections.abc import Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination.conversation import open_conversation
from taskplane.gateway.coordination.pushing import name_turns
from taskplane.gateway.coordination.shown_messages import shown_messages
from taskplane.gateway.limits import check_size
from taskplane.gateway.plane import Plane
from taskplane.runtime.errors import Conflict, NotFound
from taskplane.runtime.ids import new_id

_TRIES: Final = 20
_PAGE: Final = 1_000
_ACTIVE: Final = frozenset({a2a.TASK_STATE_UNSPECIFIED, a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING})


async def cut(plane: Plane, asked: pb.PutTaskRequest, session: sb.Session) -> tuple[int, str]:
    """Replace the history of a session by a document that is to be stored, if it leaves out a message in effect.

    Return the `steered_seq` that the session has then and, if its history was replaced, the invocation of the entry
    that did it. A document that names no turn gets a new one then. Raise the errors of the store for the document;
    Conflict if others write to the session all the time.
    """
    checking = pb.PutTaskRequest(validate_only=True)
    checking.MergeFrom(asked)
    for _ in range(_TRIES):
        found = await plane.tasks.PutTask(checking)
        pushed = await _history(plane, found, session)
        if pushed is None:
            return session.steered_seq, ""
        invocation_id = new_id()
        entry = sb.Entry(
            id=invocation_id,
            kind=sb.ENTRY_KIND_PUSHED,
            invocation_id=invocation_id,
            task_id=session.context_id,
            pushed=pushed,
        )
        append = sb.AppendEntriesRequest(
            context_id=session.context_id, entries=[entry], expected_version=session.version
        )
        check_size(append)
        try:
            stored = await plane.sessions.AppendEntries(append)
        except Conflict as error:
            if error.reason != "VERSION_MISMATCH":
                raise
            asked_again = sb.GetSessionRequest(context_id=session.context_id)
            session = (await plane.sessions.GetSession(asked_again)).session
            continue
        if not any(found.message_invocation_ids):
            asked.own_turn = new_id()
        return stored.entry_count, invocation_id
    raise Conflict(
        f"session {session.context_id} was changed by other writers each time",
        reason="SESSION_BUSY",
        suggestion="store the task again",
        metadata={"version": str(session.version)},
    )


async def take_back(plane: Plane, context_id: str, invocation_id: str) -> None:
    """Take back the history of a document that was refused."""
    void = sb.Entry(
        id=f"{invocation_id}-void", kind=sb.ENTRY_KIND_VOID, invocation_id=invocation_id, target=invocation_id
    )
    await plane.sessions.AppendEntries(sb.AppendEntriesRequest(context_id=context_id, entries=[void]))


async def _history(plane: Plane, found: pb.PutTaskResponse, session: sb.Session) -> sb.Messages | None:
    """Return the history that a document makes of its session; None if it changes nothing that is shown.

    Messages of the document in turns cut by a rewind stay cut. Messages cut by its own runtime may come back.
    """
    document = found.record.task
    # The turns are those of the history, then that of the status; the history may have its message already.
    said = list(zip(shown_messages(document), found.message_invocation_ids, strict=False))
    ids = {message.message_id for message, _ in said}
    shown = await _shown(plane, session)
    gone, own = await _cut_turns(plane, session)
    comes_back = own and any(turn in gone and message.message_id not in shown for message, turn in said)
    if shown <= ids and not comes_back:
        return None
    kept = [(message, turn) for message, turn in said if own or turn not in gone]
    pushed = sb.Messages(messages=[message for message, _ in kept], invocation_ids=[turn for _, turn in kept])
    await name_turns(plane, session.context_id, pushed)
    return pushed


async def _shown(plane: Plane, session: sb.Session) -> set[str]:
    """Return the ids of the messages in effect, without that of a status which its runtime is about to replace."""
    conversation = await open_conversation(plane, session.context_id)
    page = await conversation.page(_PAGE)
    ids = _ids(page.messages)
    while page.more:
        page = await conversation.page(_PAGE, page.messages[0].message_id)
        ids |= _ids(page.messages)
    asked = pb.GetTaskRequest(task_id=session.context_id, history_length=0)
    try:
        before = (await plane.tasks.GetTask(asked)).record.task
    except NotFound:
        return ids
    return ids - ({before.status.message.message_id} if before.status.state in _ACTIVE else set())


def _ids(messages: Sequence[a2a.Message]) -> set[str]:
    return {message.message_id for message in messages}


async def _cut_turns(plane: Plane, session: sb.Session) -> tuple[set[str], bool]:
    """Return the turns that are not in effect, and whether the document itself was the last to change which are."""
    if not session.steered_seq:
        return set(), False
    cut_turns = await plane.sessions.ListCut(sb.ListCutRequest(context_id=session.context_id))
    newest = sb.ListEntriesRequest(
        context_id=session.context_id, kinds=[sb.ENTRY_KIND_PUSHED], newest_first=True, page_size=1
    )
    entries = (await plane.sessions.ListEntries(newest)).entries
    own = any((one.seq, one.task_id) == (session.steered_seq, session.context_id) for one in entries)
    return set(cut_turns.invocation_ids), own
