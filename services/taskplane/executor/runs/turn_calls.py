"""The calls of a turn to the plane."""

from collections.abc import Mapping
from typing import Any

from taskplane.executor import agent as port
from taskplane.executor.runs.inputs import Inputs


class Calls:
    """The calls of the turns of one run."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    async def incoming(self) -> list[port.Message]:
        """Implement `TurnCalls.incoming`."""
        return await self._inputs.incoming()

    async def referenced(self) -> list[port.Task]:
        """Implement `TurnCalls.referenced`."""
        raise NotImplementedError

    async def session_events(self) -> list[dict[str, Any]]:
        """Implement `TurnCalls.session_events`."""
        raise NotImplementedError

    async def append_session_event(self, event: Mapping[str, Any]) -> None:
        """Implement `TurnCalls.append_session_event`."""
        raise NotImplementedError

    async def session_state(self) -> dict[str, Any]:
        """Implement `TurnCalls.session_state`."""
        raise NotImplementedError
