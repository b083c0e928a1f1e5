"""The messages of a task that a conversation shows."""

from collections.abc import Iterable, Iterator

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import KIND, STATUS_TEXT
from taskplane.gateway.translate.documents import is_partial
from taskplane.runtime.json_values import text_in


def kind_of(message: a2a.Message) -> str:
    """Return `metadata.kind` of a message; empty where it has none."""
    return text_in(message.metadata, KIND)


def shown_messages(task: a2a.Task) -> Iterator[a2a.Message]:
    """Yield the messages of a task that a conversation shows: its history, then its status message unless that is
    partial, a status text, or part of the history already."""
    yield from task.history
    if task.status.HasField("message"):
        last = task.status.message
        if not is_partial(last) and kind_of(last) != STATUS_TEXT and not _has(task.history, last.message_id):
            yield last


def _has(history: Iterable[a2a.Message], message_id: str) -> bool:
    return bool(message_id) and any(message.message_id == message_id for message in history)
