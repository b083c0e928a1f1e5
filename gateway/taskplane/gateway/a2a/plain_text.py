"""Streams for clients that know nothing of growing texts: each text is sent once, when it is whole."""

from collections.abc import Sequence
from typing import TypeVar

from taskplane.api import growing_text
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.a2a.follow import Item
from taskplane.gateway.translate.dialect import Payload
from taskplane.gateway.translate.documents import is_partial

Told = TypeVar("Told", a2a.Task, a2a.TaskStatusUpdateEvent)


class PlainText:
    """A filter of the elements of one stream.

    The pieces of a growing text are left out. The last message of a run is in the log twice, whole and with the status
    that ends the run; the first of the two waits for the event after it, and is not sent if that is the second. If
    something comes between them, the second is sent without the message. A stream that is cut goes on before the
    message that waits.
    """

    def __init__(self) -> None:
        self._held: Item | None = None
        # The id of the message that was sent though it comes again.
        self._sent = ""

    def take(self, items: Sequence[Item]) -> list[Item]:
        """Return the elements to send."""
        sent: list[Item] = []
        for item in items:
            cursor, payload = item
            held, self._held = self._held, None
            if held is not None and not _repeats(payload, _message_id(held[1])):
                sent.append(held)
                self._sent = _message_id(held[1])
            if isinstance(payload, a2a.Task):
                sent.append((cursor, _without_message(payload) if is_partial(payload.status.message) else payload))
            elif isinstance(payload, a2a.TaskStatusUpdateEvent) and is_partial(payload.status.message):
                continue
            elif isinstance(payload, a2a.TaskStatusUpdateEvent) and growing_text.ENDS in payload.metadata.fields:
                self._held = item
            elif isinstance(payload, a2a.TaskStatusUpdateEvent) and _repeats(payload, self._sent):
                sent.append((cursor, _without_message(payload)))
            else:
                sent.append(item)
        return sent

    def rest(self) -> list[Item]:
        """Return the rest of the text at the end of the stream."""
        held, self._held = self._held, None
        return [] if held is None else [held]


def _message_id(payload: Payload) -> str:
    return payload.status.message.message_id if isinstance(payload, a2a.TaskStatusUpdateEvent) else ""


def _repeats(payload: Payload, message_id: str) -> bool:
    return message_id != "" and _message_id(payload) == message_id


def _without_message(payload: Told) -> Told:
    """Return a task or a status update without the message of its status."""
    copy = type(payload)()
    copy.MergeFrom(payload)
    copy.status.ClearField("message")
    return copy
