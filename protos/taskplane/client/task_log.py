"""A client of the log of a task, under `/api/tasks`."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from taskplane.client.answers import members, parsed
from taskplane.client.events import Event, FullTask, StatusUpdate, classify
from taskplane.client.failures import Unreachable, failure_of_event
from taskplane.client.http import Http
from taskplane.client.pauses import GIVE_UP_AFTER, Pauses
from taskplane.client.sse import SseEvent
from taskplane.client.states import TERMINAL, State


@dataclass(frozen=True, slots=True)
class Logged:
    """An event of a task's log. `record` is its JSON; `event` is None for kinds that show nothing."""

    cursor: str
    generation: int
    record: dict[str, Any]
    event: Event | None
    resumed_after: str | None = None
    """The cursor after which a log that broke goes on with this event; empty: from the beginning. None: the stream did
    not break before this event."""

    @property
    def state(self) -> State | None:
        """Return the state that the event gave the task; None if it gave none."""
        return self.event.state if isinstance(self.event, FullTask | StatusUpdate) else None


class TaskLog:
    """The logs of the tasks of one server."""

    def __init__(self, http: Http, *, give_up_after: float = GIVE_UP_AFTER) -> None:
        """Read through `http`, inside its `async with`. A stream that cannot be opened again for `give_up_after`
        seconds raises `Unreachable`."""
        self._http = http
        self._give_up_after = give_up_after

    async def events(self, task_id: str, *, after: str = "") -> AsyncGenerator[Logged]:
        """Yield the log of a task, after the cursor `after` or from its first event, until the task has ended.

        A stream that breaks is resumed after its last event: none is missing, none comes twice. Raise `Missing`,
        `Unreachable`, `Unauthorized`.
        """
        path = f"/api/tasks/{quote(task_id, safe='')}/events"
        pauses = Pauses(self._give_up_after)
        cursor = after
        resumed = False
        while True:
            try:
                async with self._http.stream(
                    "GET", path, headers={"Last-Event-ID": cursor} if cursor else {}
                ) as stream:
                    if stream.nothing_left:
                        return
                    ended = False
                    async with aclosing(self._logged(stream.events, pauses)) as events:
                        async for logged in events:
                            pauses.reset()
                            yielded = replace(logged, resumed_after=cursor) if resumed else logged
                            resumed = False
                            cursor = logged.cursor or cursor
                            ended = logged.state in TERMINAL
                            yield yielded
                if ended:
                    return
                await pauses.wait(Unreachable("The server closed the stream before the end.", reason="STREAM_CLOSED"))
            except Unreachable as error:
                await pauses.wait(error)
            resumed = True

    async def _logged(self, events: AsyncIterator[SseEvent], pauses: Pauses) -> AsyncGenerator[Logged]:
        url = self._http.url
        with pauses.open_stream():
            async for event in events:
                record = members(url, parsed(url, event.data))
                if event.name == "error":
                    raise failure_of_event(record)
                inner = members(url, record, "generation", "time").get("event")
                yield Logged(event.id, int(record.get("generation") or 0), record, classify(inner) if inner else None)
