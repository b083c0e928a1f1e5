"""Exceptions from the code of agents, as opposed to exceptions that only pass through it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from taskplane.agents import agent as port
from taskplane.agents.sources import described, place_of, said, trimmed
from taskplane.runtime import logs

log = logging.getLogger(__name__)

AGENT_ERROR: Final = "AGENT_ERROR"
"""The reason of most faults of agents."""
# Characters of an AgentError that clients see.
_MAX_ERROR: Final = 2_000


class AgentFailed(Exception):
    """The agent raised, or yielded a value other than a change, or its process died. The text and the code are for
    clients, `cause` is for operators."""

    def __init__(self, text: str, reason: str = AGENT_ERROR, cause: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        self.cause = cause


class AgentProcessDied(Exception):
    """The process of an agent ended while a run was at work in it; the text says how."""

    reason = "AGENT_PROCESS_DIED"


class AgentProcessGarbled(AgentProcessDied):
    """The process of an agent sent its executor unreadable data, and was killed; the text describes the data."""

    reason = "AGENT_PROCESS_GARBLED"

    def __init__(self, what: str) -> None:
        super().__init__(f"it sent {what}, and was killed")


async def shut(changes: AsyncIterator[port.Change]) -> None:
    """Close the iterator of an agent; exceptions are logged."""
    close = getattr(changes, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except asyncio.CancelledError:
        return
    except BaseException:
        log.exception("an agent raised an error while its run was closing")


async def thrown(changes: AsyncIterator[port.Change], error: BaseException) -> port.Change:
    """Raise `error` in the code of an agent at its `yield`; return its next change. Raises the exceptions of the
    agent."""
    if not isinstance(changes, AsyncGenerator):
        raise error
    change: port.Change = await changes.athrow(error)
    return change


def is_ours(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of the current task from outside, and not the agent's own."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failed(error: BaseException, task_id: str, at: str = "") -> AgentFailed:
    """Return the failure of a run for the exception `error` of its agent. `at`: `file:line` in the author's code, if
    the traceback does not have it.

    The text of an exception may contain secrets. It goes only to the log and to operators; clients see only the text of
    an AgentError.
    """
    if isinstance(error, AgentProcessDied):
        log.error("the process of the agent of task %s ended: %s", task_id, error)
        return AgentFailed(f"The process of the agent ended unexpectedly: {error}.", error.reason)
    at = at or place_of(error)
    place = f" at {at}" if at else ""
    cause = f"{described(error)}{place}"[:_MAX_ERROR]
    log.error(
        "the agent of task %s failed%s: %s",
        task_id,
        place,
        described(error),
        exc_info=(type(error), error, trimmed(error)),
    )
    if isinstance(error, port.AgentError) and (text := said(error)):
        return AgentFailed(text[:_MAX_ERROR], cause=cause)
    return AgentFailed(unexpected(task_id), cause=cause)


def unexpected(task_id: str) -> str:
    """Return the text for clients about a fault that only the log describes."""
    request = logs.request_id.get()
    where = f"request {request}" if request else f"task {task_id}"
    return f"The agent failed unexpectedly; its log has the cause under {where}."
