"""A client of the log of a task, under `/api/tasks`."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from taskplane.cli.client.a2a import Resumed
from taskplane.cli.client.answers import members, parsed
from taskplane.cli.client.events import Event, FullTask, StatusUpdate, classify
from taskplane.cli.client.failures import Unreachable, failure_of_http
from taskplane.cli.client.http import Http
from taskplane.cli.client.retry import GIVE_UP_AFTER, ReconnectPolicy
from taskplane.cli.client.sse import SseEvent
from taskplane.cli.client.states import TERMINAL, State


@dataclass(frozen=True, slots=True)
class Logged:
    """An event of a task's log. `record` is its JSON; `event` is None for kinds that show nothing."""

    cursor: str
    generation: int
    record: dict[str, Any]
    event: Event | None

    @property
    def state(self) -> State | None:
        """Return the state that the event gave the task; None if it gave none."""
        return self.event.state if isinstance(self.event, FullTask | StatusUpdate) else None


class TaskLog:
    """A client of the task logs of one server, to be used inside `async with` of its `Http`."""

    def __init__(self, http: Http, *, give_up_after: float = GIVE_UP_AFTER) -> None:
        """Create a client with streams that raise `Unreachable` after `give_up_after` seconds without any event."""
        self._http = http
        self._give_up_after = give_up_after

    async def events(self, task_id: str, *, after: str = "") -> AsyncGenerator[Logged | Resumed]:
        """Yield the log of a task, after the cursor `after` or from its first event, until the task has ended.

        A stream that breaks is resumed after its last event; `Resumed` reports this, with the cursor.
        """
        path = f"/api/tasks/{quote(task_id, safe='')}/events"
        reconnect = ReconnectPolicy(self._give_up_after)
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
                    async with aclosing(self._logged(stream.events)) as events:
                        async for logged in events:
                            reconnect.reset()
                            if resumed:
                                resumed = False
                                yield Resumed(cursor)
                            cursor = logged.cursor or cursor
                            ended = logged.state in TERMINAL
                            yield logged
                if ended:
                    return
                await reconnect.wait(Unreachable("The server closed the stream before the end.", code="STREAM_CLOSED"))
            except Unreachable as error:
                await reconnect.wait(error)
            resumed = True

    async def _logged(self, events: AsyncIterator[SseEvent]) -> AsyncGenerator[Logged]:
        url = self._http.url
        async for event in events:
            record = members(url, parsed(url, event.data))
            if event.name == "error":
                raise failure_of_http(503 if record.get("retryable") else 400, record, record.get("retryAfter"))
            inner = members(url, record, "generation", "time").get("event")
            yield Logged(event.id, int(record.get("generation") or 0), record, classify(inner) if inner else None)
