"""The newest events of one task, as they are sent."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain.task import CREATED, MESSAGE, STATUS, Event

_STATEFUL: Final = frozenset({CREATED, MESSAGE, STATUS})
Render = Callable[[Event], pb.Event]


class Step:
    """One event of a log, made into its message when somebody first wants it; the message is shared, never changed."""

    __slots__ = ("_message", "event")

    def __init__(self, event: Event) -> None:
        self.event = event
        self._message: pb.Event | None = None

    def message(self, render: Render) -> pb.Event:
        """The event as it is sent."""
        if self._message is None:
            self._message = render(self.event)
        return self._message

    def state(self, render: Render) -> int:
        """The state that the event puts its task in, or finds it in; 0 where it says nothing about it."""
        if self.event.kind not in _STATEFUL:
            return 0
        response = self.message(render).event
        kind = response.WhichOneof("payload")
        if kind == "status_update":
            return int(response.status_update.status.state)
        return int(response.task.status.state) if kind == "task" else 0

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.event.payload) + 128


class Ring:
    """The newest events of one task, without a gap; at most `max_events` and `max_bytes`."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._steps: deque[Step] = deque()
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._batch: tuple[int, int, pb.WatchTaskResponse] | None = None
        self.size = 0

    def add(self, events: Sequence[Event]) -> None:
        """What was just committed. What does not follow the last one starts the ring anew."""
        steps = self._steps
        if steps and events and events[0].generation != steps[-1].event.generation + 1:
            self._clear()
        for event in events:
            step = Step(event)
            steps.append(step)
            self.size += step.size
        while steps and (len(steps) > self._max_events or self.size > self._max_bytes):
            self.size -= steps.popleft().size
        self._batch = None

    def _clear(self) -> None:
        self._steps.clear()
        self.size = 0

    def after(self, place: int, max_bytes: int) -> Sequence[Step]:
        """The events that follow `place`, at most `max_bytes` but at least one; empty if they are not all here."""
        steps = self._steps
        if not steps:
            return ()
        skipped = place + 1 - steps[0].event.generation
        if not 0 <= skipped < len(steps):
            return ()
        chosen = list(islice(steps, skipped, None)) if skipped else list(steps)
        if self.size > max_bytes:
            taken = 0
            for index, step in enumerate(chosen):
                taken += step.size
                if taken > max_bytes and index:
                    return chosen[:index]
        return chosen

    def batch(self, steps: Sequence[Step], render: Render) -> pb.WatchTaskResponse:
        """The steps as one message; watchers that go together share it."""
        first, last = steps[0].event.generation, steps[-1].event.generation
        if self._batch is None or self._batch[:2] != (first, last):
            self._batch = (first, last, batch(steps, render))
        return self._batch[2]


def batch(steps: Sequence[Step], render: Render) -> pb.WatchTaskResponse:
    """The steps as one message."""
    response = pb.WatchTaskResponse()
    response.events.events.extend([step.message(render) for step in steps])
    return response
