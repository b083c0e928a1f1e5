"""Validation of requests before anything is saved: a refusal leaves nothing behind in either store."""

from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.message_metadata import REWIND_BEFORE
from taskplane.executor.turns import rewind_messages
from taskplane.runtime import nesting
from taskplane.runtime.errors import Invalid
from taskplane.runtime.services import MAX_REQUEST
from taskplane.runtime.validation import NO_NUL, WrongFields

MAX_REFERENCES: Final = 100
# The events of a send carry ids and marks beside it, and must fit into a request, too.
MAX_SEND_BYTES: Final = MAX_REQUEST - 48 * 1024


def submit(request: pb.SubmitRequest) -> None:
    """Check a Submit request.

    Invalid with the fields that are wrong, or with reason `TOO_DEEP` or `REQUEST_TOO_LARGE`.
    """
    message = request.request.message
    wrong = WrongFields()
    if rewind_messages.is_rewind(message):
        _rewind(wrong, message)
    elif not message.parts:
        wrong.add("message.parts", "must not be empty")
    for index, part in enumerate(message.parts):
        if part.WhichOneof("content") is None:
            wrong.add(f"message.parts[{index}]", "must have content")
        elif "\0" in part.text:
            wrong.add(f"message.parts[{index}].text", NO_NUL)
    ids = {
        "message.message_id": message.message_id,
        "message.context_id": message.context_id,
        "message.task_id": message.task_id,
    }
    wrong.ids(ids, required=False)
    if not message.task_id:
        wrong.segment("message.context_id", message.context_id)
    if len(message.reference_task_ids) > MAX_REFERENCES:
        wrong.add("message.reference_task_ids", f"must have at most {MAX_REFERENCES:,} elements")
    wrong.check()
    size = request.ByteSize()
    if size > MAX_SEND_BYTES:
        raise Invalid(
            f"the request has {size} bytes; at most {MAX_SEND_BYTES:,} are allowed", reason="REQUEST_TOO_LARGE"
        )
    nesting.check("request", request.request)


def rewind(request: pb.RewindSessionRequest) -> None:
    """Check a RewindSession request. Invalid with the fields that are wrong."""
    wrong = WrongFields()
    wrong.ids({"context_id": request.context_id, "before_invocation_id": request.before_invocation_id})
    wrong.check()


def session(context_id: str) -> None:
    """Check a request that names a session only. Invalid."""
    wrong = WrongFields()
    wrong.ids({"context_id": context_id})
    wrong.check()


def _rewind(wrong: WrongFields, message: a2a.Message) -> None:
    wrong.ids({f"message.metadata.{REWIND_BEFORE}": rewind_messages.before(message)})
    if not message.context_id:
        wrong.add("message.context_id", "is required: it names the session to rewind")
    if message.task_id not in ("", message.context_id):
        wrong.add("message.task_id", "must be empty or the id of the context: a rewind affects the whole session")
