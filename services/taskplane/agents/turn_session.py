"""The part of the port of agents by which a turn reaches its session; `agent` has it, too."""

from collections.abc import Mapping
from typing import Any, Protocol

from taskplane.api.a2a.v1.a2a_pb2 import Artifact, Message, Task


class EventIdTaken(ValueError):
    """Another event, or anything else that the user's sessions keep, has the id of an event."""


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
    """The session of a turn: its events, which agent runtimes keep there, and its state."""

    def __init__(self, context_id: str, calls: TurnCalls) -> None:
        self.id = context_id
        self._calls = calls

    async def events(self) -> list[dict[str, Any]]:
        """Return the events in effect, oldest first, as they were appended: JSON objects."""
        return await self._calls.session_events()

    async def append(self, event: Mapping[str, Any]) -> None:
        """Append an event, a JSON object of at most 3 MiB, to this turn. One is made for an event without an `id`.

        Its `actions.state_delta` changes the state. It is cut by a rewind as the turn is, and it is no message:
        changes for clients are yielded. The same event again changes nothing. ValueError: it is no JSON. EventIdTaken:
        another one has its id. PlaneError: it could not be stored.
        """
        await self._calls.append_session_event(event)

    async def state(self) -> dict[str, Any]:
        """Return the state: that of the session, of its user (keys `user:...`) and of the agent (keys `app:...`)."""
        return await self._calls.session_state()

    async def artifact(
        self, task_id: str, artifact_id: str, having: Mapping[str, Any] | None = None
    ) -> Artifact | None:
        """Return an artifact of a task of the caller, whole: its newest version, or the newest one with metadata that
        has the values `having`. None: there is none, or it is an older version and the log of the task was trimmed."""
        return await self._calls.artifact(task_id, artifact_id, having or {})

    async def update_state(self, **delta: Any) -> None:
        """Change the state by an event of its own with a new id; None deletes a key, `temp:` is not stored."""
        await self._calls.append_session_event({"actions": {"state_delta": delta}})
