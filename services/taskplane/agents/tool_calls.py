"""Tool calls in a conversation. Models refuse a history with a call that has no result."""

from collections.abc import Container, Iterable, Iterator

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import TOOL_KEYS
from taskplane.runtime.json_values import text_in


def kind_of(message: a2a.Message, part: a2a.Part) -> str:
    """Return how a data part of an agent's message is marked: `function_call`, `function_response` or otherwise.

    Empty: it is not marked, or a user said it. Marks in messages of users are ignored.
    """
    return "" if message.role == a2a.ROLE_USER else mark_of(part)


def mark_of(part: a2a.Part) -> str:
    """Return the mark of a data part, of a user or an agent; "" without a mark."""
    if not (part.HasField("data") and part.HasField("metadata")):
        return ""
    return text_in(part.metadata, *TOOL_KEYS)


def results(messages: Iterable[a2a.Message]) -> Iterator[str]:
    """Yield the ids of the calls with results among the messages."""
    return (
        _id(part) for message in messages for part in message.parts if kind_of(message, part) == "function_response"
    )


def without_open_calls(message: a2a.Message, answered: Container[str]) -> a2a.Message | None:
    """Return the message without calls that are not in `answered`; None if no part is left."""
    open_calls = [
        part for part in message.parts if kind_of(message, part) == "function_call" and _id(part) not in answered
    ]
    if not open_calls:
        return message
    if len(open_calls) == len(message.parts):
        return None
    shorter = a2a.Message()
    shorter.CopyFrom(message)
    for part in open_calls:
        shorter.parts.remove(part)
    return shorter


def _id(part: a2a.Part) -> str:
    fields = part.data.struct_value.fields
    key = "id" if "id" in fields else "name"
    return fields[key].string_value if key in fields else ""
