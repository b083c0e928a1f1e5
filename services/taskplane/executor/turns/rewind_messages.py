"""The control message: a rewind that is sent as a message to an agent. The agent never sees the request. If the message
has other content, the agent sees a copy without the request."""

from typing import Final

from google.protobuf.struct_pb2 import Value

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, REWIND_BEFORE
from taskplane.executor.derived_ids import derived
from taskplane.runtime.json_values import text_in

_EMPTY: Final = Value(string_value="")


def is_rewind(message: a2a.Message) -> bool:
    """Return whether the metadata of a message requests a rewind, valid or not. Null or "" requests none."""
    if not message.HasField("metadata") or REWIND_BEFORE not in message.metadata.fields:
        return False
    value = message.metadata.fields[REWIND_BEFORE]
    return value.WhichOneof("kind") != "null_value" and value != _EMPTY


def before(message: a2a.Message) -> str:
    """Return the first invocation that the rewind cuts; "" if the value in the metadata is not a text."""
    return message.metadata.fields[REWIND_BEFORE].string_value


def says_something(message: a2a.Message) -> bool:
    """Return whether the message has content for a new turn. A blank text does not count."""
    return any(part.WhichOneof("content") != "text" or part.text.strip() for part in message.parts)


def as_turn(message: a2a.Message, invocation_id: str) -> a2a.Message:
    """Return the message of the turn `invocation_id`: a copy without the request of a rewind."""
    turn = a2a.Message()
    turn.CopyFrom(message)
    del turn.metadata.fields[REWIND_BEFORE]
    turn.metadata.fields[INVOCATION].string_value = invocation_id
    return turn


def leave_out(conversation: a2a.Task, invocation_id: str) -> None:
    """Remove a turn and all later ones from the history, so that a repeated turn sees only earlier turns."""
    for index, message in enumerate(conversation.history):
        if text_in(message.metadata, INVOCATION) == invocation_id:
            del conversation.history[index:]
            return


def refusal(message: a2a.Message, invocation_id: str) -> a2a.Task:
    """Return a failed task, the answer to a rewind that names an unknown invocation. It is not stored.

    `invocation_id`: the invocation of the rewind. The status message has no invocation id in its metadata, so that
    nobody can rewind to it.
    """
    task = a2a.Task(id=derived(invocation_id, "refusal"), context_id=message.context_id)
    task.status.state = a2a.TASK_STATE_FAILED
    told = task.status.message
    told.message_id = derived(invocation_id, "refusal-message")
    told.role = a2a.ROLE_AGENT
    told.task_id, told.context_id = task.id, task.context_id
    told.parts.add().text = (
        f"The session was not rewound: invocation {before(message)} is not in effect in this session."
    )
    told.metadata.fields["reason"].string_value = "INVOCATION_NOT_FOUND"
    return task
