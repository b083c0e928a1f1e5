"""The session service of ADK for one turn: the session of the turn, and no other."""

from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session

from taskplane.agents.adapters.adk import events
from taskplane.agents.agent import AgentError, Turn
from taskplane.agents.turn_session import EventIdTaken

_USER_STATE = "user:"


class TurnSessions(BaseSessionService):
    """The session of a turn, as ADK reads and writes it. It begins with the events in effect."""

    def __init__(self, turn: Turn, session: Session, stored: list[events.Stored]) -> None:
        self._turn = turn
        self._session = session
        self.stored = stored
        # Events that got another id.
        self._renamed = 0

    @classmethod
    async def of(cls, turn: Turn, app_name: str, author: str) -> "TurnSessions":
        """Read the session of a turn. `author`: the author of answers that have no ADK events."""
        stored = list(events.unpack(await turn.session.events(), turn))
        state = await turn.session.state()
        known = events.events_for(turn, stored, author)
        session = Session(id=turn.context_id, app_name=app_name, user_id=turn.caller.owner, state=state, events=known)
        return cls(turn, session, stored)

    def waiting_calls(self) -> list[events.Call]:
        """Return the calls of long-running tools with which the task waits for its user, oldest first."""
        return list(events.waiting_calls(self._session.events))

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Raise AlreadyExistsError: the session is there, and a turn makes no other."""
        raise AlreadyExistsError(f"session {self._session.id} exists, and a turn has only one session")

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return the session of the turn; None for another session."""
        if session_id != self._session.id:
            return None
        if config is None:
            return self._session
        kept = self._session.events
        if config.after_timestamp is not None:
            kept = [event for event in kept if event.timestamp >= config.after_timestamp]
        if config.num_recent_events is not None:
            kept = kept[max(0, len(kept) - config.num_recent_events) :]
        return self._session.model_copy(update={"events": list(kept)})

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Return the session of the turn, without its events."""
        return ListSessionsResponse(sessions=[self._session.model_copy(update={"events": []})])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Raise ValueError: sessions are deleted by their users."""
        raise ValueError("an agent cannot delete the session of its turn")

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of the user, by keys without `user:`."""
        state: dict[str, Any] = self._session.state
        return {key.removeprefix(_USER_STATE): state[key] for key in state if key.startswith(_USER_STATE)}

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event in the turn unless it is partial. An event with a used id gets a new id.

        AgentError: it is too large, or not JSON.
        """
        if event.partial:
            return event
        # This drops the temporary state from the event, and keeps it in the session.
        event = await super().append_event(session, event)
        if session is not self._session:
            # `session` is a copy, see `get_session`; both share their state.
            self._session.events.append(event)
        try:
            await self._keep(event)
        except ValueError as error:
            raise AgentError(f"The session cannot store an event of {event.author}: {error}.") from error
        return event

    async def _keep(self, event: Event) -> None:
        try:
            await self._turn.session.append(events.pack_event(event, self._turn))
        except EventIdTaken:
            self._renamed += 1
            event.id = f"{self._turn.invocation_id}-{self._turn.fence}-event-{self._renamed}"
            await self._turn.session.append(events.pack_event(event, self._turn))
