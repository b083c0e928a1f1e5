"""Exceptions of the code of agents, told from what comes through it from outside."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from taskplane.executor import agent as port
from taskplane.runtime import logs

log = logging.getLogger(__name__)

# Characters of an AgentError that clients see.
_MAX_ERROR: Final = 2_000


class AgentFailed(Exception):
    """The agent raised, or yielded what is no change, or its process died; the text and the code are for clients."""

    def __init__(self, text: str, reason: str = "AGENT_ERROR") -> None:
        super().__init__(text)
        self.reason = reason


class AgentProcessDied(Exception):
    """The process of an agent ended while a run was at work in it; the text says how."""


async def shut(changes: AsyncIterator[port.Change]) -> None:
    """Close what an agent yields from; what it raises then is logged."""
    close = getattr(changes, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except BaseException as error:
        if is_ours(error):
            raise
        log.exception("an agent raised while its run was closed")


def is_ours(error: BaseException) -> bool:
    """Return whether an exception came through the code of an agent, but from outside: the run is canceled, or the
    process is interrupted."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def failed(error: BaseException, task_id: str) -> AgentFailed:
    """Return the failure of a run whose agent raised `error`; raise `error` if it came from outside.

    Its text may have secrets in it: it goes to the log, and to clients only that of an AgentError.
    """
    if is_ours(error):
        raise error
    if isinstance(error, AgentProcessDied):
        log.error("the process of the agent of task %s ended: %s", task_id, error)
        return AgentFailed(f"The process of the agent ended unexpectedly: {error}.", "AGENT_PROCESS_DIED")
    log.error("the agent of task %s failed", task_id, exc_info=error)
    if isinstance(error, port.AgentError) and str(error):
        return AgentFailed(str(error)[:_MAX_ERROR])
    request = logs.request_id.get()
    where = f"request {request}" if request else f"task {task_id}"
    return AgentFailed(f"The agent failed unexpectedly; its log has the cause under {where}.")
