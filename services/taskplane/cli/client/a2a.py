"""An A2A 1.0 client over JSON-RPC and server-sent events that loses nothing when connections break.

Every send has an idempotency key, so it can be repeated without a second effect. Every stream keeps the id of the last
event and resumes after it, on the same server or another one, also after the task has ended.
"""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from taskplane.cli.client.answers import members, parsed
from taskplane.cli.client.continuation import Continuation
from taskplane.cli.client.events import (
    REWIND_BEFORE,
    ArtifactUpdate,
    Event,
    FullTask,
    Message,
    StatusUpdate,
    classify,
    read_message,
)
from taskplane.cli.client.failures import Ended, Missing, Unreachable, failure_of_rpc
from taskplane.cli.client.http import Http
from taskplane.cli.client.retry import GIVE_UP_AFTER, ReconnectPolicy
from taskplane.cli.client.states import AT_REST, TERMINAL, State
from taskplane.runtime import growing_text

_HEADERS: Final = {"A2A-Version": "1.0", "A2A-Extensions": growing_text.EXTENSION}


@dataclass(frozen=True, slots=True)
class Received:
    """An event of a stream, with its cursor if the server sent one."""

    cursor: str
    data: Any
    event: Event


@dataclass(frozen=True, slots=True)
class Resumed:
    """A stream that broke and was resumed after `cursor`; empty: with a snapshot, or from the beginning."""

    cursor: str


def user_message(
    text: str, *, context_id: str = "", goes_to: Continuation | None = None, message_id: str = ""
) -> dict[str, Any]:
    """Return a user's message as A2A 1.0 JSON, with a random id unless `message_id` is given."""
    goes_to = goes_to or Continuation()
    message: dict[str, Any] = {
        "messageId": message_id or secrets.token_hex(16),
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    if context_id:
        message["contextId"] = context_id
    if goes_to.task_id:
        message["taskId"] = goes_to.task_id
    if goes_to.reference_task_ids:
        message["referenceTaskIds"] = list(goes_to.reference_task_ids)
    return message


def rewind_message(
    context_id: str, before: str, text: str = "", *, reference_task_ids: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a message that rewinds to before the turn `before`; a `text` becomes the next turn (R2, R6)."""
    message = user_message(
        text, context_id=context_id, goes_to=Continuation(reference_task_ids=reference_task_ids if text else ())
    )
    return {**message, "metadata": {REWIND_BEFORE: before}}


class A2AClient:
    """A client of one agent at one URL, to be used inside `async with` of its `Http`."""

    def __init__(self, http: Http, *, agent: str = "", give_up_after: float = GIVE_UP_AFTER) -> None:
        """Create a client of the agent with this name, below `/agents/`; without a name, of the agent at the URL of
        `http`.

        A stream that is broken for `give_up_after` seconds without any event raises `Unreachable`.
        """
        self._http = http
        self._agent = agent
        # A slash would be another path.
        self._path = f"/agents/{quote(agent.replace('/', '__NS__'), safe='')}" if agent else ""
        self._give_up_after = give_up_after
        self._calls = 0

    @property
    def endpoint(self) -> str:
        """Return the URL that messages to this agent are sent to."""
        return self._http.url + self._path

    async def described(self) -> dict[str, Any]:
        """Return the agent's public card and its warnings: `{name, isDefault, card, security,
        warnings}`. Raise `Missing`."""
        name = self._agent or next((str(one["name"]) for one in await self.agents() if one["isDefault"]), "")
        if not name:
            raise Missing(
                "The server has no default agent for this caller.",
                code="AGENT_NOT_FOUND",
                suggestion="Name the agent. A server with API keys lists its agents only to callers with a key.",
            )
        return await self._http.data("GET", f"/api/agents/{quote(name, safe='')}", "warnings")

    async def agents(self) -> list[dict[str, Any]]:
        """Return the agents of the server: `{name, title, description, isDefault, skills}`."""
        config = await self._http.data("GET", "/api/ui-config", "agents")
        return [members(self._http.url, one, "name", "isDefault") for one in config["agents"]]

    async def send(self, message: Mapping[str, Any], *, key: str = "") -> Event:
        """Send a message, wait until its task is terminal or paused, and return a `FullTask` or a direct `Message`.

        The call is repeated under one idempotency key while the server cannot be reached; it has one effect.
        """
        key = key or secrets.token_hex(16)
        reconnect = ReconnectPolicy(self._give_up_after)
        while True:
            try:
                result = await self._call("SendMessage", {"message": message}, {"Idempotency-Key": key}, timeout=None)
            except Unreachable as error:
                await reconnect.wait(error)
                continue
            return classify(result)

    async def stream(self, message: Mapping[str, Any], *, key: str = "") -> AsyncGenerator[Received | Resumed]:
        """Send a message and yield the events of its task until the task is terminal or waits for the user.

        A stream that breaks before its first event is sent again under the same key; later it is resumed. The response
        to a rewind is the session task, which has no cursor: a stream that breaks between it and the first event of the
        next turn is sent again as well, and yields the response once more.
        """
        key = key or secrets.token_hex(16)
        reconnect = ReconnectPolicy(self._give_up_after)
        said = read_message(message)
        place = _Place(goes_on=bool(said.text))
        while not place.task_id:
            place.rewinds = REWIND_BEFORE in said.metadata
            try:
                opened = self._stream("SendStreamingMessage", {"message": message}, {"Idempotency-Key": key})
                async with aclosing(opened) as sent:
                    async for received in sent:
                        reconnect.reset()
                        place.note(received)
                        yield received
                        if place.done or place.state in AT_REST:
                            return
                closed = Unreachable("The server closed the stream before the end.", code="STREAM_CLOSED")
                await reconnect.wait(closed)
            except Unreachable as error:
                await reconnect.wait(error)
        async with aclosing(self._follow(place, AT_REST, reconnect)) as followed:
            async for item in followed:
                yield item

    async def subscribe(self, task_id: str, *, after: str = "") -> AsyncGenerator[Received | Resumed]:
        """Yield the events of a task until it is terminal, after the cursor `after`, or a snapshot first.

        Raise `Ended` for a terminal task without a cursor.
        """
        async with aclosing(self._follow(_Place(task_id=task_id, cursor=after), TERMINAL)) as events:
            async for item in events:
                yield item

    async def task(self, task_id: str, *, history_length: int | None = None) -> dict[str, Any]:
        """Return a task as JSON."""
        params: dict[str, Any] = {"id": task_id}
        if history_length is not None:
            params["historyLength"] = history_length
        return await self._call("GetTask", params)

    async def tasks(self, limit: int, **filters: Any) -> AsyncGenerator[dict[str, Any]]:
        """Yield the caller's tasks, newest state change first, at most `limit`; `filters` are parameters of
        `ListTasks`."""
        token = ""
        while True:
            page = await self._call("ListTasks", {"pageSize": min(100, limit), **filters, "pageToken": token})
            for task in page.get("tasks", [])[:limit]:
                limit -= 1
                yield task
            token = page.get("nextPageToken", "")
            if not token or limit < 1:
                return

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """Cancel a task and return it. Raise `Ended` if it is terminal already."""
        return await self._call("CancelTask", {"id": task_id})

    async def _follow(
        self, place: "_Place", until: frozenset[State], reconnect: ReconnectPolicy | None = None
    ) -> AsyncGenerator[Received | Resumed]:
        reconnect = reconnect or ReconnectPolicy(self._give_up_after)
        resumed = place.seen
        while True:
            headers = {"Last-Event-ID": place.cursor} if place.cursor else {}
            before = place.cursor
            try:
                async with aclosing(self._stream("SubscribeToTask", {"id": place.task_id}, headers)) as events:
                    async for received in events:
                        reconnect.reset()
                        if resumed:
                            resumed = False
                            yield Resumed(before)
                        place.note(received)
                        yield received
                        if place.state in until:
                            return
                ended = await self._ended(place, until)
                if ended is not None:
                    yield ended
                    return
                await reconnect.wait(Unreachable("The server closed the stream before the end.", code="STREAM_CLOSED"))
            except Ended:
                ended = await self._ended(place, until) if place.seen else None
                if ended is None:
                    raise
                yield ended
                return
            except Unreachable as error:
                await reconnect.wait(error)
            resumed = place.seen

    async def _ended(self, place: "_Place", until: frozenset[State]) -> Received | None:
        """Return the task if it has reached a state in `until`, so that its stream has nothing more."""
        task = await self.task(place.task_id)
        event = classify({"task": task})
        return Received("", {"task": task}, event) if isinstance(event, FullTask) and event.state in until else None

    async def _stream(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncGenerator[Received]:
        body = self._envelope(method, params)
        async with self._http.stream("POST", self._path, body=body, headers={**_HEADERS, **headers}) as stream:
            async for event in stream.events:
                result = self._result(parsed(self._http.url, event.data))
                yield Received(event.id, result, classify(result))

    async def _call(
        self,
        method: str,
        params: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        timeout: float | None = 30.0,
    ) -> dict[str, Any]:
        response = await self._http.json(
            "POST",
            self._path,
            body=self._envelope(method, params),
            headers={**_HEADERS, **(headers or {})},
            timeout=timeout,
        )
        return self._result(response)

    def _envelope(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._calls += 1
        return {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params}

    def _result(self, response: object) -> dict[str, Any]:
        """Return the result of a JSON-RPC response. Every method that is called here has an object as its result."""
        url = self._http.url
        if (error := members(url, response).get("error")) is not None:
            raise failure_of_rpc(members(url, error))
        return members(url, members(url, response, "result")["result"])


@dataclass(slots=True)
class _Place:
    """The progress of a stream. `rewinds`: its first task is the response to a rewind and must not be followed."""

    task_id: str = ""
    cursor: str = ""
    state: State | None = None
    rewinds: bool = False
    goes_on: bool = False
    done: bool = False
    seen: bool = False

    def note(self, received: Received) -> None:
        self.seen = True
        self.cursor = received.cursor or self.cursor
        match received.event:
            case FullTask() as task if self.rewinds:
                self.rewinds = False
                self.done = task.state != "completed" or not self.goes_on
            case FullTask() as task:
                self.task_id, self.state = task.id, task.state
            case StatusUpdate() as update:
                self.task_id, self.state = update.task_id, update.state
            case ArtifactUpdate() as update:
                self.task_id = update.task_id
            case Message():
                self.done = True
            case _:
                pass
