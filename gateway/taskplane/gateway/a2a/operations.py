"""The A2A operations over protobuf, one function each, independent of the binding.

The principal of the calls decides which tasks are visible; no rule about tasks is implemented here.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from google.protobuf.struct_pb2 import Struct

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.a2a.follow import (
    TERMINAL,
    PayloadStream,
    States,
    cursor_of,
    follow,
    prepend,
    single,
    state_values,
)
from taskplane.gateway.a2a.reconnect import ReconnectPolicy
from taskplane.gateway.a2a.waiting import tell_waiting
from taskplane.gateway.coordination import conversation
from taskplane.gateway.coordination.touching import touch_session
from taskplane.gateway.limits import MAX_GROWTH, MAX_REQUEST_BYTES, check_cursor, check_key, check_size
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.dialect import Listing, Payload, Send, Wait
from taskplane.runtime.errors import Invalid, NotFound, Refused, Unavailable


def _watch_until(states: Iterable[int]) -> bytes:
    """Return a serialized request to wait for one of these states; parsing it is faster than building it for each
    call."""
    return pb.WatchTaskRequest(stop_at=state_values(states), end_only=True).SerializeToString()


_PAUSED: Final[States] = frozenset({a2a.TASK_STATE_INPUT_REQUIRED, a2a.TASK_STATE_AUTH_REQUIRED})
AT_REST: Final[States] = TERMINAL | _PAUSED
_UNTIL_AT_REST: Final = _watch_until(AT_REST)
_UNTIL_BEGUN: Final = _watch_until(AT_REST | {a2a.TASK_STATE_WORKING})
# The stream of a send ends when the agent is done or waits for the user, and stays open while it waits for a login.
_SEND_ENDS: Final[States] = TERMINAL | {a2a.TASK_STATE_INPUT_REQUIRED}

_SUBMIT_DEADLINE: Final = 30.0
_MINTED: Final = (
    "leave taskId out to begin a task; for 0.3 clients that create task ids, start the gateway with "
    "TASKPLANE_GATEWAY_CLIENT_TASK_IDS=create"
)

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The response to a send. `cursor`: that of a task; empty for one that is in no log. `whole`: it is the result of a
    rewind and written with its whole history, whatever `historyLength` is."""

    payload: a2a.Task | a2a.Message
    cursor: str = ""
    whole: bool = False


async def send(plane: Plane, sent: Send, size: int, accepted: float) -> Answer:
    """Send a message and return the agent's direct answer, or the task once it is as far as `sent.wait` asks. A rewind
    returns the task of the turn after it or, without one, the session task.

    `size` is the size of the request's JSON in bytes; `accepted` is the time of the request by the loop's clock. A
    client that stops waiting does not affect the task. Raise NotFound; Refused `TERMINAL`, `NOT_MANAGED`, `SUPERSEDED`
    or `KEY_REUSED`; Conflict `VERSION_MISMATCH` or `REWIND_IN_FLIGHT`; Invalid; Exhausted; Unavailable.
    """
    sent.submit.waits = sent.wait is Wait.AT_REST
    reply = await _submit(plane, sent, size)
    if reply.HasField("message"):
        return Answer(reply.message)
    reference = reply.task
    if reply.HasField("rewound"):
        if not reply.rewound.HasField("next"):
            return Answer(await _rewound_task(plane, reply.rewound), whole=True)
        reference = reply.rewound.next
    return await _wait_for_task(plane, sent.wait, reference, accepted)


async def _wait_for_task(plane: Plane, wait: Wait, reference: xb.TaskReference, accepted: float) -> Answer:
    if wait is Wait.EXISTS:
        if reference.HasField("task"):
            return Answer(reference.task, reference.cursor)
        return await _answer_now(plane, reference.task_id)
    if wait is Wait.AT_REST:
        return await _wait_until(plane, reference, _UNTIL_AT_REST)
    until = accepted + plane.settings.v03_send_grace_ms / 1000
    try:
        async with asyncio.timeout_at(until):
            return await _wait_until(plane, reference, _UNTIL_BEGUN)
    except TimeoutError:
        return await _answer_now(plane, reference.task_id)


async def _answer_now(plane: Plane, task_id: str) -> Answer:
    record = await get(plane, task_id, None)
    return Answer(record.task, cursor_of(record))


async def stream(plane: Plane, sent: Send, size: int, cursor: str = "") -> PayloadStream:
    """Send a message and return the result as a stream: one direct answer, or the task and its events, or after a
    rewind the session task and the events of the next task.

    A repeated send continues after `cursor`. `size` is as in `send`. Raise as `send` does, and Invalid for a cursor
    without an idempotency key.
    """
    check_cursor(cursor)
    if cursor and not sent.submit.idempotency_key:
        raise Invalid(
            "Last-Event-ID on a send needs an Idempotency-Key; without one the message would be sent again",
            reason="CURSOR_WITHOUT_KEY",
            fields={"Last-Event-ID": "needs an Idempotency-Key"},
        )
    reply = await _submit(plane, sent, size)
    if reply.HasField("message"):
        return PayloadStream(single(reply.message))
    if reply.HasField("rewound"):
        return await _rewind_stream(plane, reply.rewound, cursor)
    reference = reply.task
    patience = plane.settings.store_patience
    if cursor:
        return PayloadStream(follow(plane.tasks, reference.task_id, cursor, _SEND_ENDS, patience=patience))
    begin = reference.task if reference.cursor and reference.HasField("task") else None
    place = reference.cursor if begin is not None else ""
    flow = PayloadStream(follow(plane.tasks, reference.task_id, place, _SEND_ENDS, patience=patience, begin=begin))
    await flow.prime()
    return flow


async def _rewind_stream(plane: Plane, rewound: xb.Rewound, cursor: str) -> PayloadStream:
    """Return the session task after a rewind, then the new task from its first event on. With a cursor, which belongs
    to the new task, only the events after it."""
    if not rewound.HasField("next"):
        return PayloadStream(single(*_told(await _rewound_task(plane, rewound))), whole=True)
    task_id = rewound.next.task_id
    place = cursor or await _first_cursor(plane, rewound.next)
    events = follow(plane.tasks, task_id, place, _SEND_ENDS, patience=plane.settings.store_patience, task_sent=True)
    if cursor:
        return PayloadStream(events)
    return PayloadStream(prepend(await conversation.with_documents(plane, rewound.task), events), whole=True)


async def _rewound_task(plane: Plane, rewound: xb.Rewound) -> a2a.Task:
    """Return the session task after a rewind without a next turn, or the refusal of the rewind as it is."""
    if rewound.task.status.state == a2a.TASK_STATE_FAILED:
        return rewound.task
    return await conversation.with_documents(plane, rewound.task)


def _told(task: a2a.Task) -> Sequence[Payload]:
    """Return the result of a rewind. A refusal is told by a status update, too: clients take a Task without history for
    the beginning of a turn, and would show no reason."""
    if task.status.state != a2a.TASK_STATE_FAILED:
        return [task]
    return [task, a2a.TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)]


async def _first_cursor(plane: Plane, reference: xb.TaskReference) -> str:
    """Return the cursor before the first event of a task."""
    incarnation = reference.cursor.rpartition("-")[0]
    if not incarnation:
        asked = pb.ListEventsRequest(task_id=reference.task_id, limit=1)
        incarnation = (await plane.tasks.ListEvents(asked)).record.incarnation
    return f"{incarnation}-0"


async def get(plane: Plane, task_id: str, history_length: int | None) -> pb.TaskRecord:
    """Return a task or, under the id of a session, its session task, with at most `history_length` messages of its
    history. Raise NotFound."""
    try:
        record = (await plane.tasks.GetTask(pb.GetTaskRequest(task_id=task_id, history_length=history_length))).record
        if record.id != record.context_id or record.origin != pb.ORIGIN_DOCUMENT:
            tell_waiting(record)
            return record
        record = await conversation.shown_record(plane, record)
    except NotFound as missing:
        try:
            task = await conversation.session_task(plane, task_id)
        except NotFound:
            raise missing from None
        record = pb.TaskRecord(id=task.id, context_id=task.context_id, task=task)
    if history_length is not None:
        del record.task.history[: max(len(record.task.history) - history_length, 0)]
    return record


async def list_tasks(plane: Plane, asked: a2a.ListTasksRequest) -> Listing:
    """Return a page of the caller's tasks, newest state change first (A2A 1.0 section 3.1.4). Raise Invalid for a bad
    page token."""
    request = pb.ListTasksRequest(
        context_id=asked.context_id,
        state=asked.status,
        page_size=asked.page_size,
        page_token=asked.page_token,
        include_artifacts=asked.include_artifacts,
        history_length=asked.history_length if asked.HasField("history_length") else None,
    )
    if asked.HasField("status_timestamp_after"):
        request.status_after.CopyFrom(asked.status_timestamp_after)
    page = await plane.tasks.ListTasks(request)
    tasks = [(record.task, cursor_of(record)) for record in page.records]
    return Listing(tasks, page.next_page_token, page.page_size, page.total_size)


async def cancel(plane: Plane, task_id: str, metadata: Struct | None) -> a2a.Task:
    """Cancel a task and return it. Raise Refused `TASK_NOT_CANCELABLE` if it has ended or no executor runs it;
    NotFound."""
    try:
        record = (await plane.tasks.CancelTask(pb.CancelTaskRequest(task_id=task_id, metadata=metadata))).record
    except Refused as error:
        if error.reason in {"TERMINAL", "NOT_MANAGED"}:
            raise Refused(error.message, reason="TASK_NOT_CANCELABLE", metadata=error.metadata) from error
        raise
    await touch_session(plane, record.context_id)
    return record.task


async def subscribe(plane: Plane, task_id: str, cursor: str) -> PayloadStream:
    """Return a task and its further events, or with `cursor` only the events after it, until the task ends.

    One that is stored in place of the session task comes first with all messages of the session. Raise Refused
    `UNSUPPORTED_OPERATION` if it has ended and there is no cursor; NotFound; Invalid.
    """
    check_cursor(cursor)
    flow = PayloadStream(follow(plane.tasks, task_id, cursor, TERMINAL, patience=plane.settings.store_patience))
    if cursor:
        # A watch of a silent task would not report that the task belongs to another owner.
        record = (await plane.tasks.ListEvents(pb.ListEventsRequest(task_id=task_id, limit=1))).record
        _log.info("resubscribed to task %s of session %s after %s", task_id, record.context_id, cursor)
        return flow
    try:
        first = await flow.prime()
        first[:] = [(place, await _in_its_place(plane, payload)) for place, payload in first]
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


async def _in_its_place(plane: Plane, payload: Payload) -> Payload:
    """Return the session task for a task that is stored in its place."""
    if not isinstance(payload, a2a.Task) or payload.id != payload.context_id:
        return payload
    return (await get(plane, payload.id, None)).task


async def _submit(plane: Plane, sent: Send, size: int) -> xb.SubmitResponse:
    if sent.has_push_config:
        raise Refused("push notifications are not supported", reason="PUSH_NOTIFICATION_NOT_SUPPORTED")
    request = sent.submit
    check_key(request.idempotency_key)
    if size * MAX_GROWTH > MAX_REQUEST_BYTES:
        check_size(request.request)
    try:
        reply = await plane.executor.Submit(request, timeout=_SUBMIT_DEADLINE)
    except NotFound as error:
        if error.reason == "TASK_NOT_FOUND" and request.request.message.task_id and not request.create_unknown_task:
            error.suggestion = _MINTED
        raise
    if _log.isEnabledFor(logging.DEBUG) and reply.HasField("task") and not request.request.message.task_id:
        _log.debug("created task %s of session %s", reply.task.task_id, reply.task.context_id)
    return reply


async def _wait_until(plane: Plane, reference: xb.TaskReference, end: bytes) -> Answer:
    """Wait until the task is in one of the states of `end`, a request made by `_watch_until`, and return it. Raise
    Unavailable if the store cannot be reached for `store_patience` seconds."""
    request = pb.WatchTaskRequest.FromString(end)
    request.task_id = reference.task_id
    request.cursor = reference.cursor
    reconnect = ReconnectPolicy(plane.settings.store_patience)
    while True:
        lost = Unavailable("the task store is shutting down and did not come back")
        call = plane.tasks.WatchTask(request)
        try:
            async for response in call:
                reconnect.reset()
                if response.HasField("end"):
                    if response.end.record.HasField("task"):
                        return Answer(response.end.record.task, response.end.cursor)
                    return await _answer_now(plane, reference.task_id)
        except Unavailable as error:
            lost = error
        finally:
            call.cancel()
        # The store restarts, or the connection has reached its age.
        if not await reconnect.wait():
            raise lost
