"""Conversion between the domain and protobuf: sessions and entries to messages, requests to operations."""

from collections.abc import Sequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.runtime.times import micros, set_time
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.payload import listed, listed_deletion, message_id_in, pack, read_event, unpack
from taskplane.sessions.domain.session import EVENT, SAID, Entry, Scope, Session
from taskplane.sessions.domain.state import Delta, read_delta
from taskplane.sessions.operation_checks import check_deletion, check_payload
from taskplane.sessions.store import (
    EntryFilter,
    EntryPage,
    ExpiredSession,
    MessageIds,
    Remains,
    UnappliedSession,
    UnsettledPage,
)


def session(of: Session) -> pb.Session:
    """Convert a session."""
    message = pb.Session(
        context_id=of.context_id,
        owner=of.owner,
        agent=of.agent,
        title=of.title,
        source=of.source,
        version=of.version,
        entry_count=of.seq,
        has_session_task=of.has_session_task,
        steered_seq=of.steered_seq,
        applied_seq=of.applied_seq,
    )
    set_time(message.created_at, of.created_at)
    set_time(message.updated_at, of.updated_at)
    return message


def entry(stored: Entry) -> pb.Entry:
    """Convert an entry of the log; its payload is parsed here."""
    message = unpack(stored.payload, stored.created_at)
    message.seq = stored.seq
    message.id = stored.id
    message.kind = stored.kind  # type: ignore[assignment]
    message.invocation_id = stored.invocation_id
    message.task_id = stored.task_id
    message.task_invocation_id = stored.task_invocation_id
    message.generation = stored.generation
    message.actor = stored.actor
    message.request_hash = stored.request_hash or b""
    message.target = stored.target
    message.off = stored.off
    set_time(message.created_at, stored.created_at)
    return message


def entries(page: EntryPage) -> pb.Entries:
    """Convert a page of entries for a watch."""
    return pb.Entries(entries=map(entry, page.entries), version=page.session.version)


def appended(answer: commands.Appended) -> pb.AppendEntriesResponse:
    """Convert the answer to AppendEntries, without the entries that the caller has just sent."""
    of = answer.session
    response = pb.AppendEntriesResponse(
        version=of.version,
        entry_count=of.seq,
        appended=answer.appended,
        unapplied=of.unapplied,
        renamed=answer.renamed,
        answer_renamed=answer.answer_renamed,
    )
    set_time(response.updated_at, of.updated_at)
    if answer.known:
        response.known.extend(map(entry, answer.known))
    return response


def session_task(of: Session, history: Sequence[a2a.Message]) -> a2a.Task:
    """Return the session as one completed task."""
    task = a2a.Task(id=of.context_id, context_id=of.context_id, history=history)
    task.status.state = a2a.TASK_STATE_COMPLETED
    set_time(task.status.timestamp, of.updated_at)
    return task


def create(request: pb.CreateSessionRequest, scope: Scope, *, context_id: str) -> commands.Create:
    """Convert a CreateSession request. `context_id`: used if the request has no id."""
    return commands.Create(
        scope=scope,
        context_id=request.context_id or context_id,
        agent=request.agent,
        title=request.title,
        source=request.source,
    )


def update(request: pb.UpdateSessionRequest, scope: Scope) -> commands.Update:
    """Convert an UpdateSession request. A field that is not set stays None."""
    return commands.Update(
        scope=scope,
        context_id=request.context_id,
        title=request.title if request.HasField("title") else None,
        agent=request.agent if request.HasField("agent") else None,
        expected_version=request.expected_version,
    )


def append(request: pb.AppendEntriesRequest, scope: Scope) -> commands.Append:
    """Convert an AppendEntries request. Invalid: a payload does not fit its kind, or cannot be stored."""
    context_id, create = request.context_id, None
    deltas: dict[str, Delta] = {}
    if request.HasField("create"):
        new = request.create
        create = commands.NewSession(agent=new.agent, title=new.title, source=new.source)
    return commands.Append(
        scope=scope,
        context_id=context_id,
        entries=[_new_entry(index, given, context_id, scope, deltas) for index, given in enumerate(request.entries)],
        deltas=deltas,
        create=create,
        expected_version=request.expected_version,
        own_ids=_own_ids(request),
        openings=request.openings,
    )


def _own_ids(request: pb.AppendEntriesRequest) -> dict[str, str]:
    own_ids: dict[str, str] = {}
    for own, at in ((request.own_message_id, 0), (request.own_answer_id, -1)):
        if own and request.entries:
            own_ids[request.entries[at].id] = own
    return own_ids


def _new_entry(index: int, given: pb.Entry, context_id: str, scope: Scope, deltas: dict[str, Delta]) -> Entry:
    # The change of the state by an event goes to `deltas`.
    kind, which = int(given.kind), given.WhichOneof("payload")
    check_payload(f"entries[{index}]", kind, which)
    invocation_id, target, listing = given.invocation_id, given.target, ""
    if kind == EVENT:
        said = read_event(given.data)
        invocation_id, target = invocation_id or said.invocation_id, said.rewinds_before
        delta = read_delta(index, said.state_delta, said.artifact_delta)
        if delta is not None:
            deltas[given.id] = delta
    elif which == "pushed":
        listing = listed(given.pushed)
    elif which == "deleted":
        deleted = given.deleted
        check_deletion(f"entries[{index}]", given.task_id, deleted.invocation_ids, deleted.entry_ids, off=given.off)
        listing = listed_deletion(given)
    tenant, owner, actor = scope
    speaks = which == "message" and kind in SAID
    # By position, in the order of the table: a third of the time of keyword arguments.
    return Entry(
        tenant,
        owner,
        context_id,
        0,
        given.id,
        kind,
        invocation_id,
        given.task_id,
        given.task_invocation_id,
        given.generation,
        given.actor or actor,
        given.request_hash or None,
        target,
        given.off,
        speaks,
        listing,
        pack(given, which),
        0,
        message_id_in(given.message) if speaks else None,
    )


def rewind(request: pb.RewindRequest, scope: Scope) -> commands.Rewind:
    """Convert a Rewind request. Invalid: its message cannot be stored."""
    given = pb.Entry(
        id=request.id,
        kind=pb.ENTRY_KIND_REWIND,
        invocation_id=request.id,
        request_hash=request.request_hash,
        target=request.before_invocation_id,
    )
    if request.HasField("message"):
        given.message.CopyFrom(request.message)
    entry = _new_entry(0, given, request.context_id, scope, {})
    return commands.Rewind(
        scope=scope, context_id=request.context_id, entry=entry, expected_version=request.expected_version
    )


def undo(request: pb.UndoRequest, scope: Scope, *, entry_id: str) -> commands.Undo:
    """Convert an Undo request. `entry_id`: used if the request has no id."""
    own = request.id or entry_id
    given = pb.Entry(id=own, kind=pb.ENTRY_KIND_UNDO, invocation_id=own, request_hash=request.request_hash)
    entry = _new_entry(0, given, request.context_id, scope, {})
    return commands.Undo(
        scope=scope, context_id=request.context_id, entry=entry, expected_version=request.expected_version
    )


def fork(request: pb.ForkRequest, scope: Scope, *, context_id: str) -> commands.Fork:
    """Convert a Fork request. `context_id`: used if the request has no id for the new session."""
    return commands.Fork(
        scope=scope,
        context_id=request.context_id,
        new_context_id=request.new_context_id or context_id,
        before=request.before_invocation_id,
        title=request.title,
    )


def unapplied(sessions: Sequence[UnappliedSession]) -> pb.ListUnappliedResponse:
    """Convert sessions with changes that are not applied to their tasks."""
    response = pb.ListUnappliedResponse()
    for each in sessions:
        shown = response.sessions.add(tenant=each.tenant, owner=each.owner, context_id=each.context_id)
        set_time(shown.updated_at, each.updated_at)
    return response


def to_unapplied(shown: pb.UnappliedSession) -> UnappliedSession:
    """Convert the place after which such sessions are listed."""
    return UnappliedSession(shown.tenant, shown.owner, shown.context_id, micros(shown.updated_at))


def expired(sessions: Sequence[ExpiredSession]) -> pb.ListExpiredResponse:
    """Convert expired sessions."""
    response = pb.ListExpiredResponse()
    for each in sessions:
        shown = response.sessions.add(
            tenant=each.tenant, owner=each.owner, context_id=each.context_id, version=each.version
        )
        set_time(shown.created_at, each.created_at)
    return response


def to_expired(shown: pb.ExpiredSession) -> ExpiredSession:
    """Convert the expired session that a request names; the reverse of `expired`."""
    return ExpiredSession(shown.tenant, shown.owner, shown.context_id, micros(shown.created_at), shown.version)


def remains(found: Sequence[Remains]) -> pb.ListRemainsResponse:
    """Convert deleted sessions with tasks still to be deleted."""
    response = pb.ListRemainsResponse()
    for each in found:
        shown = response.remains.add(tenant=each.tenant, owner=each.owner, context_id=each.context_id)
        set_time(shown.tasks_until, each.tasks_until)
    return response


def message_ids(found: MessageIds) -> pb.ListMessageIdsResponse:
    """Convert the ids of a session's messages."""
    return pb.ListMessageIdsResponse(
        message_ids=found.ids,
        session=session(found.session),
        ends=found.ends,
        page_token=found.page_token,
        has_events=found.has_events,
    )


def unsettled(page: UnsettledPage) -> pb.ListUnsettledResponse:
    """Convert a page of unsettled turns."""
    turns = [pb.UnsettledTurn(**turn._asdict()) for turn in page.turns]
    response = pb.ListUnsettledResponse(turns=turns, more=page.more)
    if page.until is not None:
        set_time(response.until, page.until)
    return response


def entry_filter(request: pb.ListEntriesRequest, page_size: int) -> EntryFilter:
    """Return the filter of a ListEntries request. `page_size`: used if the request has none."""
    return EntryFilter(
        effective=request.effective,
        kinds=[int(kind) for kind in request.kinds],
        task_id=request.task_id,
        newest_first=request.newest_first,
        distinct=request.distinct,
        skip=request.skip,
        known=request.known,
        message_id=request.message_id,
        page_size=request.page_size or page_size,
        page_token=request.page_token,
    )
