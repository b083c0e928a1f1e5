"""The newest events of one task, and the messages in which they are sent."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain.task import Event

Render = Callable[[Event], pb.Event]
# The approximate size in bytes of an event without its payload.
_OVERHEAD = 128


class Ring:
    """The newest events of one task, without a gap; at most `max_events` and `max_bytes`.

    A message is made when it is first requested. It is shared and never changed.
    """

    __slots__ = ("_batch", "_events", "_max_bytes", "_max_events", "_messages", "size")

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._events: deque[Event] = deque()
        self._messages: dict[int, pb.Event] = {}
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._batch: tuple[int, int, pb.WatchTaskResponse] | None = None
        self.size = 0

    def add(self, new: Sequence[Event]) -> None:
        """Add the events of a commit. If they do not follow the last event, remove all earlier events."""
        events = self._events
        if events and new and new[0].generation != events[-1].generation + 1:
            self._clear()
        for event in new:
            self.size += len(event.payload) + _OVERHEAD
        events.extend(new)
        while events and (len(events) > self._max_events or self.size > self._max_bytes):
            oldest = events.popleft()
            self.size -= len(oldest.payload) + _OVERHEAD
            self._messages.pop(oldest.generation, None)
        self._batch = None

    def _clear(self) -> None:
        self._events.clear()
        self._messages.clear()
        self.size = 0

    def after(self, place: int, max_bytes: int) -> Sequence[Event]:
        """Return events after `place`, of at most `max_bytes` but at least one; empty if the next one is not here."""
        events = self._events
        if not events:
            return ()
        skipped = place + 1 - events[0].generation
        if not 0 <= skipped < len(events):
            return ()
        chosen = list(islice(events, skipped, None)) if skipped else list(events)
        if self.size > max_bytes:
            taken = 0
            for index, event in enumerate(chosen):
                taken += len(event.payload) + _OVERHEAD
                if taken > max_bytes and index:
                    return chosen[:index]
        return chosen

    def message(self, event: Event, render: Render) -> pb.Event:
        """Return the message for one of the events."""
        message = self._messages.get(event.generation)
        if message is None:
            message = self._messages[event.generation] = render(event)
        return message

    def batch(self, events: Sequence[Event], render: Render) -> pb.WatchTaskResponse:
        """Return some of the events as one response. Watchers at the same place share it."""
        first, last = events[0].generation, events[-1].generation
        if self._batch is None or self._batch[:2] != (first, last):
            response = pb.WatchTaskResponse()
            response.events.events.extend([self.message(event, render) for event in events])
            self._batch = (first, last, response)
        return self._batch[2]


def batch(events: Sequence[Event], render: Render) -> pb.WatchTaskResponse:
    """Return events as one response."""
    response = pb.WatchTaskResponse()
    response.events.events.extend([render(event) for event in events])
    return response
