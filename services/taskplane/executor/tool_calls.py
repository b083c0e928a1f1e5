"""Tool calls in a conversation. Models refuse a history with a call that has no result."""

from collections.abc import Container, Iterable, Iterator

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.message_metadata import TOOL_KEYS


def results(messages: Iterable[a2a.Message]) -> Iterator[str]:
    """Yield the ids of the calls whose results are among the messages."""
    return (_id(part) for message in messages for part in message.parts if _is(part, "function_response"))


def without_open_calls(message: a2a.Message, answered: Container[str]) -> a2a.Message | None:
    """Return the message without calls that are not `answered`; None if nothing else is in it."""
    open_calls = [part for part in message.parts if _is(part, "function_call") and _id(part) not in answered]
    if not open_calls:
        return message
    if len(open_calls) == len(message.parts):
        return None
    shorter = a2a.Message()
    shorter.CopyFrom(message)
    for part in open_calls:
        shorter.parts.remove(part)
    return shorter


def _is(part: a2a.Part, kind: str) -> bool:
    if not (part.HasField("data") and part.HasField("metadata")):
        return False
    # To ask a map for a key that is not there would put it there.
    marks = part.metadata.fields
    return any(key in marks and marks[key].string_value == kind for key in TOOL_KEYS)


def _id(part: a2a.Part) -> str:
    fields = part.data.struct_value.fields
    key = "id" if "id" in fields else "name"
    return fields[key].string_value if key in fields else ""
