"""The turns of documents in a history that replaces another one, which the log of the session cannot know."""

from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.plane import Plane
from taskplane.runtime import message_times


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
