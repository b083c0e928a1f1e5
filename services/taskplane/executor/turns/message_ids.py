"""Ids of messages. Clients show each id once, so a second message must not be stored under a used id.

Of two simultaneous sends both may find the id unused; then both keep it.
"""

import asyncio
import logging
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.executor.derived_ids import derived
from taskplane.executor.session_log import SessionLog
from taskplane.runtime.errors import NotFound, PlaneError

log = logging.getLogger(__name__)

# Seconds that a send waits here for an unavailable session store; it waits again when the message is saved.
_PATIENCE: Final = 1.5


async def settle(session_log: SessionLog, message: a2a.Message, context_id: str, invocation_id: str) -> None:
    """Give a message a new id if its session has a message of another turn under its id.

    Call this before the message is written. If the session store does not answer, the message keeps its id.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            _, first = await session_log.first_said(context_id, message.message_id)
    except NotFound:
        return
    except (PlaneError, TimeoutError) as error:
        log.warning("unknown whether session %s has the id of a new message: %s", context_id, error)
        return
    keep_apart(message, first, invocation_id)


def keep_apart(message: a2a.Message, first: sessions.Entry | None, invocation_id: str) -> None:
    """Give a message an id of its own if `first`, the first one under its id, is of another turn.

    The id is derived from the invocation, so that a repeat has the same one.
    """
    if first is not None and first.invocation_id != invocation_id:
        message.message_id = derived(invocation_id, "message")
