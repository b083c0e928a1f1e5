"""The unary send. The answer is a message of the agent, or the task in the state that the client waits for."""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a import tasks
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.cursors import check_none
from taskplane.gateway.a2a.follow import TERMINAL, States, cursor_of, state_values
from taskplane.gateway.a2a.history import bounded
from taskplane.gateway.a2a.input_modes import check_parts
from taskplane.gateway.a2a.recipient import recipient
from taskplane.gateway.a2a.rewinding import rewound_task
from taskplane.gateway.a2a.submitting import submission, submit
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Answer, Wait
from taskplane.gateway.translate.rewinds import is_rewind
from taskplane.runtime.backoff import Backoff
from taskplane.runtime.errors import Unavailable


def _watch_until(states: Iterable[int]) -> bytes:
    """Return a serialized request to wait for one of these states; parsing it is faster than building it for each
    call."""
    return pb.WatchTaskRequest(stop_at=state_values(states), end_only=True).SerializeToString()


_PAUSED: Final[States] = frozenset({a2a.TASK_STATE_INPUT_REQUIRED, a2a.TASK_STATE_AUTH_REQUIRED})
AT_REST: Final[States] = TERMINAL | _PAUSED
_UNTIL_AT_REST: Final = _watch_until(AT_REST)
_UNTIL_BEGUN: Final = _watch_until(AT_REST | {a2a.TASK_STATE_WORKING})


async def send(call: Call, request: a2a.SendMessageRequest) -> Answer:
    """Send a message. Return the direct answer of the agent, or the task in the state that the client waits for.

    A rewind returns the task of its new turn. Without a new turn, a rewind returns the session task with its whole
    history. A refused rewind returns a failed task.

    A client that stops waiting does not affect the task. Raise NotFound; Refused `TERMINAL`, `NOT_MANAGED`,
    `SUPERSEDED`, `KEY_REUSED` or `EXTENSION_SUPPORT_REQUIRED`; Conflict `VERSION_MISMATCH` or `REWIND_IN_FLIGHT`;
    Invalid; Exhausted; Unavailable.
    """
    # A rewind without a new turn needs no agent. Only the executor knows whether there is a new turn.
    if call.missing is not None and not is_rewind(request.message):
        raise call.missing
    if call.cursor or call.starting_after or request.HasField("metadata"):
        check_none(call, request.metadata)
    wait = call.wait
    if wait is None:
        wait = Wait.EXISTS if request.configuration.return_immediately else Wait.AT_REST
    waits = wait is Wait.AT_REST
    async with call.waiting() if waits else nullcontext():
        submitted = submission(call, request)
        submitted.waits = waits
        check_parts(call, await recipient(call, request.message), request.message)
        reply = await submit(call.plane, submitted, call.size)
        if reply.HasField("message"):
            return Answer(reply.message)
        reference = reply.task
        if reply.HasField("rewound"):
            if not reply.rewound.HasField("next"):
                return Answer(await rewound_task(call.plane, reply.rewound))
            reference = reply.rewound.next
        task, cursor = await _wait_for_task(call, wait, reference)
    configuration = request.configuration
    if configuration.HasField("history_length"):
        task = bounded(task, configuration.history_length)
    return Answer(task, cursor, numbered=call.numbered)


async def _wait_for_task(call: Call, wait: Wait, reference: xb.TaskReference) -> tuple[a2a.Task, str]:
    plane = call.plane
    if wait is Wait.EXISTS:
        if reference.HasField("task"):
            return reference.task, reference.cursor
        return await _task_now(plane, reference.task_id)
    if wait is Wait.AT_REST:
        return await _wait_until(plane, reference, _UNTIL_AT_REST)
    try:
        async with asyncio.timeout_at(call.grace_end):
            return await _wait_until(plane, reference, _UNTIL_BEGUN)
    except TimeoutError:
        return await _task_now(plane, reference.task_id)


async def _task_now(plane: Plane, task_id: str) -> tuple[a2a.Task, str]:
    record = await tasks.read(plane, task_id)
    return record.task, cursor_of(record)


async def _wait_until(plane: Plane, reference: xb.TaskReference, end: bytes) -> tuple[a2a.Task, str]:
    """Wait until the task is in one of the states of `end`, a request made by `_watch_until`, and return it with its
    cursor. Raise Unavailable if the store cannot be reached for `store_patience` seconds."""
    request = pb.WatchTaskRequest.FromString(end)
    request.task_id = reference.task_id
    request.cursor = reference.cursor
    backoff = Backoff(patience=plane.settings.store_patience)
    while True:
        lost = Unavailable("the task store has shut down and is not reachable again yet")
        call = plane.tasks.WatchTask(request)
        try:
            async for response in call:
                backoff.reset()
                if response.HasField("end"):
                    if response.end.record.HasField("task"):
                        return response.end.record.task, response.end.cursor
                    return await _task_now(plane, reference.task_id)
        except Unavailable as error:
            lost = error
        finally:
            call.cancel()
        # The store restarts, or the connection has reached its maximum age.
        if not await backoff.wait():
            raise lost
