"""The operations that stream: a send, and a subscription to a task."""

import logging
from collections.abc import AsyncGenerator
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a import rewinding, tasks
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.cursors import take as take_cursor
from taskplane.gateway.a2a.follow import TERMINAL, Item, States, follow
from taskplane.gateway.a2a.history import bounded
from taskplane.gateway.a2a.input_modes import check_parts
from taskplane.gateway.a2a.recipient import recipient
from taskplane.gateway.a2a.streams import PayloadStream, prepend, single
from taskplane.gateway.a2a.submitting import submission, submit
from taskplane.gateway.coordination import conversation
from taskplane.gateway.translate.dialect import Payload
from taskplane.gateway.translate.rewinds import is_rewind
from taskplane.runtime.errors import Invalid, Refused

# The stream of a send ends when the agent is done or waits for the user, and stays open while it waits for a login.
_SEND_ENDS: Final[States] = TERMINAL | {a2a.TASK_STATE_INPUT_REQUIRED}

_log = logging.getLogger(__name__)


async def send(call: Call, request: a2a.SendMessageRequest) -> PayloadStream:
    """Send a message and return the result as a stream: one direct answer, or the task and its events, or after a
    rewind the session task and the events of the next task.

    A repeated send continues after the cursor of the call. Raise as `sending.send` does, and Invalid for a cursor
    without an idempotency key. While this process drains, raise Unavailable `SHUTTING_DOWN` and send nothing.
    """
    if call.missing is not None and not is_rewind(request.message):
        raise call.missing
    cursor = take_cursor(call, request.metadata)
    submitted = submission(call, request)
    if cursor and not submitted.idempotency_key:
        raise Invalid(
            "a cursor on a send needs an Idempotency-Key; without one the message would be sent again",
            reason="CURSOR_WITHOUT_KEY",
            fields={"Last-Event-ID": "needs an Idempotency-Key"},
        )
    check_parts(call, await recipient(call, request.message), request.message)
    call.plane.streams.check_open()
    reply = await submit(call.plane, submitted, call.size)
    asked = request.configuration
    history_length = asked.history_length if asked.HasField("history_length") else call.rules.stream_history
    flow = await _answering(call, reply, cursor, history_length)
    if not cursor:
        await flow.prime()
    return flow


async def subscribe(call: Call, request: a2a.SubscribeToTaskRequest) -> PayloadStream:
    """Return a task and its further events, or with the cursor of the call only the events after it, until the task
    ends.

    One that is stored in place of the session task comes first with all messages of the session. Raise Refused
    `UNSUPPORTED_OPERATION` if it has ended and there is no cursor; NotFound; Invalid.
    """
    plane, task_id, cursor = call.plane, request.id, take_cursor(call)
    history_length = call.rules.stream_history
    patience = plane.settings.store_patience
    flow = _stream(
        call, follow(plane.tasks, task_id, cursor, TERMINAL, patience=patience, history_length=history_length)
    )
    if cursor:
        # A watch of a silent task would not report that the task belongs to another owner.
        record = (await plane.tasks.ListEvents(pb.ListEventsRequest(task_id=task_id, limit=1))).record
        _log.info("resubscribed to task %s of session %s after %s", task_id, record.context_id, cursor)
        return flow
    try:
        first = await flow.prime()
        first[:] = [(place, await _in_its_place(call, payload)) for place, payload in first]
        for _, payload in first:
            if isinstance(payload, a2a.Task) and payload.status.state in TERMINAL:
                raise Refused(
                    "the task has ended; get the task instead, or resume with Last-Event-ID",
                    reason="UNSUPPORTED_OPERATION",
                    metadata={"taskId": task_id},
                )
            if isinstance(payload, a2a.Task):
                _log.info("resubscribed to task %s of session %s", task_id, payload.context_id)
    except BaseException:
        await flow.aclose()
        raise
    return flow


async def _answering(call: Call, reply: xb.SubmitResponse, cursor: str, history_length: int | None) -> PayloadStream:
    """Return the stream of what became of a send."""
    if reply.HasField("message"):
        return _whole(call, reply.message)
    if reply.HasField("rewound"):
        return await _rewind_stream(call, reply.rewound, cursor, history_length)
    reference = reply.task
    if cursor:
        return _stream(call, _events(call, reference.task_id, cursor, history_length))
    begin = reference.task if reference.cursor and reference.HasField("task") else None
    place = reference.cursor if begin is not None else ""
    return _stream(call, _events(call, reference.task_id, place, history_length, begin=begin))


def _stream(call: Call, batches: AsyncGenerator[list[Item], None]) -> PayloadStream:
    return PayloadStream(batches, growing_text=call.growing_text, numbered=call.numbered)


def _whole(call: Call, *payloads: Payload) -> PayloadStream:
    return PayloadStream(single(*payloads), growing_text=call.growing_text, numbered=call.numbered, whole=True)


def _events(
    call: Call,
    task_id: str,
    cursor: str,
    history_length: int | None,
    *,
    begin: a2a.Task | None = None,
    task_sent: bool = False,
) -> AsyncGenerator[list[Item], None]:
    plane = call.plane
    return follow(
        plane.tasks,
        task_id,
        cursor,
        _SEND_ENDS,
        patience=plane.settings.store_patience,
        begin=begin,
        task_sent=task_sent,
        history_length=history_length,
    )


async def _rewind_stream(call: Call, rewound: xb.Rewound, cursor: str, history_length: int | None) -> PayloadStream:
    """Return the session task after a rewind, with its whole history, then the new task from its first event on. With
    a cursor, which belongs to the new task, only the events after it."""
    plane = call.plane
    if not rewound.HasField("next"):
        return _whole(call, *rewinding.shown(await rewinding.rewound_task(plane, rewound)))
    task_id = rewound.next.task_id
    place = cursor or await rewinding.first_cursor(plane, rewound.next)
    events = _events(call, task_id, place, history_length, task_sent=True)
    if not cursor:
        events = prepend(await conversation.with_documents(plane, rewound.task), events)
    return _stream(call, events)


async def _in_its_place(call: Call, payload: Payload) -> Payload:
    """Return the session task for a task that is stored in its place."""
    if not isinstance(payload, a2a.Task) or payload.id != payload.context_id:
        return payload
    return bounded((await tasks.read(call.plane, payload.id)).task, call.rules.stream_history)
