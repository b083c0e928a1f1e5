"""The calls of a turn to the plane, on behalf of its caller."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from taskplane.agents import agent as port
from taskplane.agents.changes import MAX_MESSAGE_BYTES
from taskplane.agents.states import TERMINAL
from taskplane.agents.turn_session import EventIdTaken
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.executor.artifact_reading import read_artifact
from taskplane.executor.runs.ports import Ports
from taskplane.runtime.errors import NotFound, Refused
from taskplane.runtime.ids import new_id
from taskplane.runtime.json_values import to_dict
from taskplane.runtime.principal import Principal, acting_as
from taskplane.runtime.retry import retry_until_reachable
from taskplane.runtime.storable import dumped

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of one turn. They wait for a store that is away; the lease of the run bounds that."""

    ports: Ports
    caller: Principal
    context_id: str
    invocation_id: str
    # Ids of the tasks that the message of the turn refers to.
    references: Sequence[str]
    read: Callable[[], Awaitable[list[port.Message]]]
    # Empty while a Router decides.
    task_id: str = ""
    # The turn that created the task.
    task_invocation_id: str = ""

    async def incoming(self) -> list[port.Message]:
        """Implement `TurnCalls.incoming`."""
        return await self.read()

    async def referenced(self) -> list[port.Task]:
        """Implement `TurnCalls.referenced`."""
        found: list[port.Task] = []
        for task_id in dict.fromkeys(self.references):
            get = partial(self.ports.store.GetTask, tasks.GetTaskRequest(task_id=task_id))
            try:
                response = await self._as_caller(get)
            except NotFound:
                continue
            found.append(response.record.task)
        return found

    async def ended(self) -> bool:
        """Implement `TurnCalls.ended`."""
        get = partial(self.ports.store.GetTask, tasks.GetTaskRequest(task_id=self.task_id, history_length=0))
        try:
            response = await self._as_caller(get)
        except NotFound:
            return True
        return response.record.state in TERMINAL

    async def session_events(self) -> list[dict[str, Any]]:
        """Implement `TurnCalls.session_events`."""
        try:
            entries = await self._as_caller(lambda: self.ports.sessions.runtime_events(self.context_id))
        except NotFound:
            return []
        return [event for entry in entries if (event := _object(entry.data)) is not None]

    async def append_session_event(self, event: Mapping[str, Any]) -> None:
        """Implement `TurnCalls.append_session_event`."""
        given = dict(event)
        event_id = given.setdefault("id", new_id())
        if not isinstance(event_id, str) or not event_id:
            raise ValueError(f"the id of an event must be a str, not {event_id!r}")
        entry = sessions.Entry(
            id=event_id,
            kind=sessions.ENTRY_KIND_EVENT,
            invocation_id=self.invocation_id,
            task_id=self.task_id,
            task_invocation_id=self.task_invocation_id,
            actor=self.ports.actor,
            data=_encoded(given),
        )
        taken = f"the session already has another entry with the id {event_id!r}"
        try:
            stored = await self._as_caller(lambda: self.ports.sessions.append(self.context_id, [entry]))
        except Refused as error:
            if error.reason != "KEY_REUSED":
                raise
            raise EventIdTaken(taken) from error
        if any(known.data != entry.data for known in stored.known):
            raise EventIdTaken(taken)
        if stored.unapplied:
            await self._as_caller(lambda: self.ports.reconciler.apply(self.context_id))

    async def session_state(self) -> dict[str, Any]:
        """Implement `TurnCalls.session_state`."""
        try:
            return to_dict(await self._as_caller(lambda: self.ports.sessions.state(self.context_id)))
        except NotFound:
            return {}

    async def artifact(self, task_id: str, artifact_id: str, having: Mapping[str, Any]) -> port.Artifact | None:
        """Implement `TurnCalls.artifact`."""
        try:
            return await self._as_caller(lambda: read_artifact(self.ports.store, task_id, artifact_id, having))
        except NotFound:
            return None

    async def _as_caller(self, call: Callable[[], Awaitable[T]]) -> T:
        with acting_as(Principal(self.caller.tenant, self.caller.owner, self.ports.actor, service=True)):
            return await retry_until_reachable(call)


def _encoded(event: Mapping[str, Any]) -> str:
    try:
        data = dumped(event)
        size = len(data.encode())
    except (TypeError, RecursionError) as error:
        raise ValueError(f"an event must be a JSON object: {error}") from error
    if size > MAX_MESSAGE_BYTES:
        raise ValueError("an event must have at most 3 MiB")
    return data


def _object(data: str) -> dict[str, Any] | None:
    """Return the JSON object of an event; None if another runtime wrote another value."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]
