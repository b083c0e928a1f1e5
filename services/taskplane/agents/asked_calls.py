"""The calls of a turn for an agent in another loop or process: each call is requested by name and arguments."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from taskplane.agents import agent as port

Ask = Callable[..., Awaitable[Any]]
"""Makes the call with this name and these arguments in the loop of the run; returns its result or raises."""


class AskedCalls:
    """The calls of a turn, made through `Ask`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def incoming(self) -> list[port.Message]:
        """Implement `TurnCalls.incoming`."""
        return await self._ask("incoming")  # type: ignore[no-any-return]

    async def referenced(self) -> list[port.Task]:
        """Implement `TurnCalls.referenced`."""
        return await self._ask("referenced")  # type: ignore[no-any-return]

    async def ended(self) -> bool:
        """Implement `TurnCalls.ended`."""
        return await self._ask("ended")  # type: ignore[no-any-return]

    async def session_events(self) -> list[dict[str, Any]]:
        """Implement `TurnCalls.session_events`."""
        return await self._ask("session_events")  # type: ignore[no-any-return]

    async def append_session_event(self, event: Mapping[str, Any]) -> None:
        """Implement `TurnCalls.append_session_event`."""
        await self._ask("append_session_event", event)

    async def session_state(self) -> dict[str, Any]:
        """Implement `TurnCalls.session_state`."""
        return await self._ask("session_state")  # type: ignore[no-any-return]

    async def artifact(self, task_id: str, artifact_id: str, having: Mapping[str, Any]) -> port.Artifact | None:
        """Implement `TurnCalls.artifact`."""
        return await self._ask("artifact", task_id, artifact_id, having)  # type: ignore[no-any-return]
