"""Entries of a session that more than one part of the executor writes, and the title of a new session."""

import secrets
from typing import Final

from taskplane.agents.agent import text_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.executor.session_log import SessionLog
from taskplane.runtime import titles
from taskplane.runtime.errors import NotFound, Refused
from taskplane.runtime.retry import retry_briefly

TASK_DELETED: Final = "TASK_DELETED"
"""The reason of a refusal: the task of a turn was deleted, and nothing more is stored of it."""
OPENING: Final = 2
"""Entries with which a turn begins that becomes a task."""


async def void(log: SessionLog, context_id: str, invocation_id: str) -> None:
    """Void a turn without a result."""
    await _mark(log, context_id, invocation_id, off=False)


async def unvoid(log: SessionLog, context_id: str, invocation_id: str, request_hash: bytes = b"") -> bool:
    """Take back the void of a turn; return whether it had one. `request_hash`: the turn is tried again and may be
    voided again."""
    void = await log.is_void(context_id, invocation_id)
    if void:
        await _mark(log, context_id, invocation_id, off=True, request_hash=request_hash)
    return void


async def _mark(log: SessionLog, context_id: str, invocation_id: str, *, off: bool, request_hash: bytes = b"") -> None:
    entry = pb.Entry(
        id=f"{invocation_id}-void-{secrets.token_hex(4)}",
        kind=pb.ENTRY_KIND_VOID,
        invocation_id=invocation_id,
        request_hash=request_hash,
        target=invocation_id,
        off=off,
    )
    try:
        await retry_briefly(lambda: log.append(context_id, [entry]))
    except NotFound:
        return
    except Refused as error:
        # The void of a deleted task is not taken back.
        if error.reason != TASK_DELETED:
            raise


def title_of(message: a2a.Message) -> str:
    """Return the title of the session that a message begins: its first words, at most 60 characters."""
    return titles.title_of(text_of(message))
