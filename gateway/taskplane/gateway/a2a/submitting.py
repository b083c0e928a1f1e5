"""The hand-over of a message to the executor."""

import logging
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.refusals import no_push
from taskplane.gateway.limits import MAX_GROWTH, MAX_REQUEST_BYTES, check_key, check_size
from taskplane.gateway.plane import Plane
from taskplane.gateway.translate.metadata import EXPECTED_GENERATION, EXPECTED_VERSION
from taskplane.gateway.translate.rewinds import expected
from taskplane.runtime.errors import NotFound
from taskplane.runtime.validation import invalid

_DEADLINE: Final = 30.0
_MINTED: Final = (
    "leave taskId out to begin a task; for 0.3 clients that create task ids, start the gateway with "
    "TASKPLANE_GATEWAY_CLIENT_TASK_IDS=create"
)

_log = logging.getLogger(__name__)


def submission(call: Call, request: a2a.SendMessageRequest) -> xb.SubmitRequest:
    """Return the send with agent, idempotency key and expected version from what stands beside the request. Raise
    Invalid."""
    settings = call.plane.settings
    sent = xb.SubmitRequest(request=request, extensions=call.extensions)
    if request.message.HasField("metadata"):
        sent.expected_version = expected(request.message, EXPECTED_VERSION)
        sent.expected_generation = expected(request.message, EXPECTED_GENERATION)
    if call.path:
        sent.agent = call.agent.name if call.agent is not None else call.path
    if call.key:
        sent.idempotency_key = call.key
    elif settings.idempotent_messages:
        sent.idempotency_key = request.message.message_id
        sent.key_is_message_id = True
    if call.rules.client_task_ids and settings.client_task_ids == "create":
        sent.create_unknown_task = True
    if call.if_match:
        sent.expected_version = _agreed(sent.expected_version, call.expected_version)
    return sent


async def submit(plane: Plane, sent: xb.SubmitRequest, size: int) -> xb.SubmitResponse:
    """Submit a message. `size` is the size of the client's request in bytes. Raise Refused
    `PUSH_NOTIFICATION_NOT_SUPPORTED`, and as `sending.send` does."""
    request = sent.request
    if request.configuration.HasField("task_push_notification_config"):
        raise no_push()
    check_key(sent.idempotency_key)
    if size * MAX_GROWTH > MAX_REQUEST_BYTES:
        check_size(request)
    try:
        reply = await plane.executor.Submit(sent, timeout=_DEADLINE)
    except NotFound as error:
        if error.reason == "TASK_NOT_FOUND" and request.message.task_id and not sent.create_unknown_task:
            error.suggestion = _MINTED
        raise
    if _log.isEnabledFor(logging.DEBUG) and reply.HasField("task") and not request.message.task_id:
        _log.debug("created task %s of session %s", reply.task.task_id, reply.task.context_id)
    return reply


def _agreed(by_metadata: int, by_header: int) -> int:
    if by_metadata and by_header and by_metadata != by_header:
        what = "must be the same version as in the metadata of the message"
        raise invalid({"If-Match": what})
    return by_metadata or by_header
