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
from taskplane.runtime.validation import id_problem, is_segment

MAX_REFERENCES: Final = 100
# The events of a send carry ids and marks beside it, and must fit into a request, too.
MAX_SEND_BYTES: Final = MAX_REQUEST - 48 * 1024


def submit(request: pb.SubmitRequest) -> None:
    """Check a Submit request.

    Invalid with the fields that are wrong, or with reason `TOO_DEEP` or `REQUEST_TOO_LARGE`.
    """
    message = request.request.message
    wrong: dict[str, str] = {}
    if rewind_messages.is_rewind(message):
        wrong |= _of_rewind(message)
    elif not message.parts:
        wrong["message.parts"] = "must not be empty"
    for index, part in enumerate(message.parts):
        if part.WhichOneof("content") is None:
            wrong[f"message.parts[{index}]"] = "must have content"
        elif "\0" in part.text:
            wrong[f"message.parts[{index}].text"] = "must not contain U+0000"
    for name in ("message_id", "context_id", "task_id"):
        if problem := id_problem(getattr(message, name)):
            wrong.setdefault(f"message.{name}", problem)
    if not message.task_id and not is_segment(message.context_id):
        wrong["message.context_id"] = "must not be . or .., which no URL path can contain"
    if len(message.reference_task_ids) > MAX_REFERENCES:
        wrong["message.reference_task_ids"] = f"must have at most {MAX_REFERENCES:,} elements"
    _refuse(wrong)
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
    names = ("context_id", "before_invocation_id")
    _refuse({name: problem for name in names if (problem := _of_required(getattr(request, name)))})


def session(context_id: str) -> None:
    """Check a request that names a session only. Invalid."""
    if problem := _of_required(context_id):
        _refuse({"context_id": problem})


def _of_rewind(message: a2a.Message) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if not rewind_messages.before(message):
        wrong[f"message.metadata.{rewind_messages.REWIND_BEFORE}"] = "must be the id of an invocation"
    elif problem := id_problem(rewind_messages.before(message)):
        wrong[f"message.metadata.{rewind_messages.REWIND_BEFORE}"] = problem
    if not message.context_id:
        wrong["message.context_id"] = "is required: it names the session to rewind"
    if message.task_id not in ("", message.context_id):
        wrong["message.task_id"] = "must be empty or the id of the context: a rewind affects the whole session"
    return wrong


def _of_required(value: str) -> str:
    return id_problem(value) if value else "must not be empty"


def _refuse(wrong: dict[str, str]) -> None:
    if wrong:
        text = "; ".join(f"{field} {problem}" for field, problem in wrong.items())
        raise Invalid(f"the request is not valid: {text}", fields=wrong)


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
