"""The calls of the runtime: each goes through a client of kagent or the runner of ADK."""

import asyncio
import importlib.metadata
import json
import logging
import socket
from typing import Any

import httpx
import uvicorn
from a2a.server.context import ServerCallContext
from a2a.types import AgentCapabilities, AgentCard, Task
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from kagent.adk import KAgentApp
from kagent.adk._session_service import KAgentSessionService
from kagent.adk._token import KAgentTokenService
from kagent.core.a2a import KAgentTaskStore
from model import SEEN, Recorder, remember

APP = "kagent__NS__recorder"
PACKAGES = ("kagent-adk", "kagent-core", "google-adk", "a2a-sdk")
Json = dict[str, Any]


def agent() -> LlmAgent:
    """The agent: our model, one tool."""
    return LlmAgent(name="recorder", model=Recorder(model="recorder"), tools=[remember])


class Calls:
    """The calls by name. They are made with the clients as `KAgentApp` makes them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._requests: list[Json] = []
        self._token = KAgentTokenService(APP)
        self._http = httpx.AsyncClient(base_url=url, event_hooks=self._token.event_hooks())
        self._listen()
        self._store = KAgentTaskStore(self._http)
        self._sessions = KAgentSessionService(self._http)
        self._runner = Runner(
            app_name=APP,
            agent=agent(),
            session_service=self._sessions,
            artifact_service=InMemoryArtifactService(),
        )
        self._served: tuple[uvicorn.Server, asyncio.Task[None]] | None = None

    async def close(self) -> None:
        """Stops everything that was started."""
        if self._served is not None:
            server, task = self._served
            server.should_exit = True
            await task
        await self._http.aclose()

    async def versions(self) -> dict[str, str]:
        """The versions of the tested packages."""
        return {name: importlib.metadata.version(name) for name in PACKAGES}

    async def requests(self) -> list[Json]:
        """The requests since the last call of this method."""
        made, self._requests = self._requests, []
        return made

    async def use_token(self, token: str) -> None:
        """Sets the token, as if kagent's file had this text."""
        self._token.token = token

    async def save_task(self, task: Json, user: str = "") -> None:
        await self._store.save(Task.model_validate(task), context(user))

    async def get_task(self, task_id: str, user: str = "") -> Json | None:
        task = await self._store.get(task_id, context(user))
        return None if task is None else task.model_dump(mode="json", exclude_none=True)

    async def delete_task(self, task_id: str, user: str = "") -> None:
        await self._store.delete(task_id, context(user))

    async def create_session(self, user: str, session_id: str | None = None, state: Json | None = None) -> Json:
        return whole(
            await self._sessions.create_session(app_name=APP, user_id=user, session_id=session_id, state=state)
        )

    async def get_session(
        self, user: str, session_id: str, recent: int | None = None, after: float | None = None
    ) -> Json | None:
        config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
        session = await self._sessions.get_session(app_name=APP, user_id=user, session_id=session_id, config=config)
        return None if session is None else whole(session)

    async def list_sessions(self, user: str) -> list[Json]:
        found = await self._sessions.list_sessions(app_name=APP, user_id=user)
        return [whole(session) for session in found.sessions]

    async def delete_session(self, user: str, session_id: str) -> None:
        await self._sessions.delete_session(app_name=APP, user_id=user, session_id=session_id)

    async def append_event(self, user: str, session_id: str, event: Json, app: str = APP) -> Json:
        """Appends with a session object that has only its names, like one kept since the creation of the session."""
        session = Session(id=session_id, user_id=user, app_name=app)
        await self._sessions.append_event(session, Event.model_validate(event))
        return whole(session)

    async def turn(self, user: str, session_id: str, text: str, stream: bool = False) -> Json:
        """One turn of the runner: its invocation, whether its events were partial, and the input of the model."""
        SEEN.clear()
        told: list[Event] = []
        message = types.Content(role="user", parts=[types.Part(text=text)])
        config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        async for event in self._runner.run_async(
            user_id=user, session_id=session_id, new_message=message, run_config=config
        ):
            told.append(event)
        return {
            "invocation": told[-1].invocation_id,
            "partial": [bool(event.partial) for event in told],
            "seen": list(SEEN),
        }

    async def rewind(self, user: str, session_id: str, before: str) -> None:
        await self._runner.rewind_async(user_id=user, session_id=session_id, rewind_before_invocation_id=before)

    async def seen(self) -> list[Any]:
        """The inputs of the model since the last call of this method."""
        found = list(SEEN)
        SEEN.clear()
        return found

    async def serve(self, stream: bool) -> str:
        """Starts kagent's whole application around the agent, and returns its address."""
        listening = socket.create_server(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        card = AgentCard(
            name="recorder",
            description="Records.",
            version="1",
            url=address,
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text"],
            default_output_modes=["text"],
            skills=[],
        )
        app = KAgentApp(agent, card, self._url, APP, stream=stream).build()
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level=logging.WARNING))
        self._served = (server, asyncio.create_task(server.serve(sockets=[listening])))
        while not server.started:
            await asyncio.sleep(0.01)
        return address

    def _listen(self) -> None:
        """Records every request to the plane, of any client, and changes none."""
        send = httpx.AsyncClient.send

        async def noted(client: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
            response = await send(client, request, **options)
            if str(request.url).startswith(self._url):
                self._requests.append(described(request, response))
            return response

        httpx.AsyncClient.send = noted


def described(request: httpx.Request, response: httpx.Response) -> Json:
    """A request with its answer."""
    return {
        "method": request.method,
        "path": request.url.path,
        "query": dict(request.url.params),
        "headers": {name: value for name, value in request.headers.items() if name.startswith("x-")},
        "body": json.loads(request.content or b"null"),
        "status": response.status_code,
    }


def context(user: str) -> ServerCallContext | None:
    """The context in which kagent's server calls its task store for a user; without a user, none."""
    return ServerCallContext(state={"headers": {"x-user-id": user}}) if user else None


def whole(session: Session) -> Json:
    """A session with its state and events as JSON."""
    return session.model_dump(mode="json", exclude_none=True, by_alias=False)
