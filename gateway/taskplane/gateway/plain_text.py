"""Streams for clients that know nothing of growing texts: each text is sent once, when it is whole."""

from collections.abc import Sequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.follow import Item
from taskplane.gateway.translate.documents import is_partial
from taskplane.runtime import growing_text


class PlainText:
    """A filter of the elements of one stream.

    The pieces of a growing text are left out. The last message of a run is in the log twice, whole and with the status
    that ends the run; the first of the two waits for the second and is sent only if that is another one. A stream that
    is cut meanwhile goes on before it.
    """

    def __init__(self) -> None:
        self._held: Item | None = None

    def take(self, items: Sequence[Item]) -> list[Item]:
        """Return the elements to send."""
        sent: list[Item] = []
        for item in items:
            cursor, payload = item
            held, self._held = self._held, None
            if held is not None and not _repeats(payload, held):
                sent.append(held)
            if isinstance(payload, a2a.Task):
                sent.append((cursor, _without_piece(payload)))
            elif isinstance(payload, a2a.TaskStatusUpdateEvent) and is_partial(payload.status.message):
                continue
            elif isinstance(payload, a2a.TaskStatusUpdateEvent) and growing_text.ENDS in payload.metadata.fields:
                self._held = item
            else:
                sent.append(item)
        return sent

    def rest(self) -> list[Item]:
        """Return what still waits at the end of the stream."""
        held, self._held = self._held, None
        return [] if held is None else [held]


def _repeats(payload: object, held: Item) -> bool:
    said = held[1]
    return (
        isinstance(payload, a2a.TaskStatusUpdateEvent)
        and isinstance(said, a2a.TaskStatusUpdateEvent)
        and payload.status.message.message_id == said.status.message.message_id
    )


def _without_piece(task: a2a.Task) -> a2a.Task:
    """Return the task without the text that grows at the moment."""
    if not is_partial(task.status.message):
        return task
    copy = a2a.Task()
    copy.CopyFrom(task)
    copy.status.ClearField("message")
    return copy
