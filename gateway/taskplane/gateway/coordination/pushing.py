"""Histories that replace another one, with the turns of documents, which the log of the session cannot know."""

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.coordination.applying import apply_session
from taskplane.gateway.limits import check_size
from taskplane.gateway.plane import Plane
from taskplane.runtime import message_times
from taskplane.runtime.ids import new_id


async def push(plane: Plane, context_id: str, pushed: sb.Messages, expected_version: int) -> None:
    """Replace the effective history of a session, and hide the tasks that this cuts.

    Raise Conflict `VERSION_MISMATCH` if the session does not have the expected version, which is not 0; NotFound;
    Invalid.
    """
    check_size(pushed)
    await name_turns(plane, context_id, pushed)
    entry = sb.Entry(id=new_id(), kind=sb.ENTRY_KIND_PUSHED, pushed=pushed)
    asked = sb.AppendEntriesRequest(context_id=context_id, entries=[entry], expected_version=expected_version)
    check_size(asked)
    await plane.sessions.AppendEntries(asked)
    await apply_session(plane, context_id)


async def name_turns(plane: Plane, context_id: str, pushed: sb.Messages) -> None:
    """Add to a pushed history the turns and times of messages of documents, and the turns of documents that it has a
    part of. Turns that it names already stay."""
    found = await plane.tasks.CompareDocuments(
        pb.CompareDocumentsRequest(context_id=context_id, messages=pushed.messages)
    )
    pushed.reduced_invocation_ids.extend(found.reduced_invocation_ids)
    named = list(pushed.invocation_ids) or [""] * len(pushed.messages)
    turns = [name or one.invocation_id for name, one in zip(named, found.messages, strict=True)]
    if any(turns):
        pushed.invocation_ids[:] = turns
    for message, known in zip(pushed.messages, found.messages, strict=True):
        if known.time:
            message.metadata.fields[message_times.KEY].string_value = known.time
