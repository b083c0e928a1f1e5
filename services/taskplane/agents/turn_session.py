"""The protocol by which a turn uses its session. `agents.agent` exports these names."""

from collections.abc import Mapping
from typing import Any, Protocol

from taskplane.api.a2a.v1.a2a_pb2 import Artifact, Message, Task


class EventIdTaken(ValueError):
    """The id of the event is used already, by another event or by another entry of the user."""


class TurnCalls(Protocol):
    """The calls of a turn to the plane. Agents use the methods of `Turn`."""

    async def incoming(self) -> list[Message]:
        """Implement `Turn.incoming`."""
        ...

    async def referenced(self) -> list[Task]:
        """Implement `Turn.referenced`."""
        ...

    async def ended(self) -> bool:
        """Implement `Turn.ended`."""
        ...

    async def session_events(self) -> list[dict[str, Any]]:
        """Implement `TurnSession.events`."""
        ...

    async def append_session_event(self, event: Mapping[str, Any]) -> None:
        """Implement `TurnSession.append`."""
        ...

    async def session_state(self) -> dict[str, Any]:
        """Implement `TurnSession.state`."""
        ...

    async def artifact(self, task_id: str, artifact_id: str, having: Mapping[str, Any]) -> Artifact | None:
        """Implement `TurnSession.artifact`."""
        ...


class TurnSession:
    """The session of a turn: its state, and the events that agent runtimes store in it."""

    def __init__(self, context_id: str, calls: TurnCalls) -> None:
        self.id = context_id
        self._calls = calls

    async def events(self) -> list[dict[str, Any]]:
        """Return the events in effect, oldest first, as they were appended: JSON objects."""
        return await self._calls.session_events()

    async def append(self, event: Mapping[str, Any]) -> None:
        """Append an event, a JSON object of at most 3 MiB, to this turn. An event without an `id` gets a new id.

        `actions.state_delta` of the event changes the state. A rewind of the turn also removes the event. Clients do
        not see the event; yield a change for them. To append the same event again changes nothing. ValueError: the
        event is not JSON. EventIdTaken: the id is used already. PlaneError: the event could not be stored.
        """
        await self._calls.append_session_event(event)

    async def state(self) -> dict[str, Any]:
        """Return the state of the session, of its user (keys `user:...`) and of the agent (keys `app:...`)."""
        return await self._calls.session_state()

    async def artifact(
        self, task_id: str, artifact_id: str, having: Mapping[str, Any] | None = None
    ) -> Artifact | None:
        """Return a whole artifact of a task of the caller: the newest version. `having`: return the newest version with
        these values in its metadata. None if there is no such artifact, or if that version was trimmed from the log."""
        return await self._calls.artifact(task_id, artifact_id, having or {})

    async def update_state(self, **delta: Any) -> None:
        """Change the state by a new event. None deletes a key. Keys that begin with `temp:` are not stored."""
        await self._calls.append_session_event({"actions": {"state_delta": delta}})
