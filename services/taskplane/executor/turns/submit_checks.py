"""Validation of requests before anything is saved: a refusal leaves nothing behind in either store."""

from collections.abc import Iterator
from typing import Final

from google.protobuf.struct_pb2 import Struct, Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.executor.turns import rewind_messages
from taskplane.runtime.errors import Invalid
from taskplane.runtime.nesting import MOST_NESTED, has_groups, readable_within
from taskplane.runtime.services import MAX_REQUEST
from taskplane.runtime.struct_values import DEPTH, WRAPPERS
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
    if size > MOST_NESTED and has_groups(request.request):
        raise Invalid("the unknown fields of the request must not contain groups", reason="TOO_DEEP")
    if not all(readable_within(value, WRAPPERS) for value in _values(request.request)):
        raise Invalid(
            f"the data of the request is nested too deeply: at most {DEPTH}",
            reason="TOO_DEEP",
            suggestion="send the data with fewer levels or as a file",
        )


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
    wrong.ids({f"message.metadata.{rewind_messages.REWIND_BEFORE}": rewind_messages.before(message)})
    if not message.context_id:
        wrong.add("message.context_id", "is required: it names the session to rewind")
    if message.task_id not in ("", message.context_id):
        wrong.add("message.task_id", "must be empty or the id of the context: a rewind affects the whole session")


def _values(request: a2a.SendMessageRequest) -> Iterator[Struct | Value]:
    if request.HasField("metadata"):
        yield request.metadata
    if request.message.HasField("metadata"):
        yield request.message.metadata
    for part in request.message.parts:
        if part.HasField("metadata"):
            yield part.metadata
        if part.HasField("data"):
            yield part.data
