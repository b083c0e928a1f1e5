"""An A2A 1.0 client over JSON-RPC and server-sent events that loses nothing when connections break.

Every send has an idempotency key, so it can be repeated without a second effect. Every stream keeps the id of the last
event and resumes after it, on the same server or another one, also after the task has ended.
"""

import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from taskplane.api.growing_text import EXTENSION as GROWING_TEXT
from taskplane.api.message_metadata import REWIND_BEFORE
from taskplane.client.answers import members, not_understood, parsed
from taskplane.client.events import (
    FullTask,
    Message,
    Received,
    classify,
    read_message,
    read_task,
)
from taskplane.client.failures import Ended, Failure, Missing, Unreachable, failure_of_rpc
from taskplane.client.http import Http
from taskplane.client.messages import as_message
from taskplane.client.pauses import GIVE_UP_AFTER, Pauses
from taskplane.client.states import AT_REST, TERMINAL, State

_VERSION: Final = {"A2A-Version": "1.0"}


class A2AClient:
    """A client of one agent, to be used inside `async with` of its `Http`."""

    def __init__(
        self, http: Http, *, agent: str = "", growing_text: bool = False, give_up_after: float = GIVE_UP_AFTER
    ) -> None:
        """Create a client of the agent with this name, below `/agents/`; without a name, of the agent at the URL of
        `http`.

        `growing_text`: streams have the pieces of a text while it grows as well, in messages that are `partial`.
        A call or a stream without any success for `give_up_after` seconds raises `Unreachable`.
        """
        self._http = http
        self.growing_text = growing_text
        self._headers = {**_VERSION, "A2A-Extensions": GROWING_TEXT} if growing_text else _VERSION
        self._agent = agent
        # A slash would be another path.
        self._path = f"/agents/{quote(agent.replace('/', '__NS__'), safe='')}" if agent else ""
        self.give_up_after = give_up_after
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
                reason="AGENT_NOT_FOUND",
                suggestion="Name the agent. A server with API keys lists its agents only to callers with a key.",
            )
        return await self._http.data("GET", f"/api/agents/{quote(name, safe='')}", "warnings")

    async def agents(self) -> list[dict[str, Any]]:
        """Return the agents of the server: `{name, title, description, isDefault, skills}`."""
        config = await self._http.data("GET", "/api/ui-config", "agents")
        return [members(self._http.url, one, "name", "isDefault") for one in config["agents"]]

    async def send(
        self, message: str | Mapping[str, Any], *, key: str = "", session: str = "", task: str = ""
    ) -> FullTask | Message:
        """Send a message, wait until its task is terminal or paused, and return the task, or the direct answer.

        `message`: a text, to `session` and `task` as `user_message` takes them, or a whole message as A2A 1.0 JSON.
        `key`: the idempotency key; empty: a random one. A message is done once for each key, however often it is sent,
        by this program or a later one; a repeat of the same message returns the same task. Raise `Declined` for a key
        of another message, `Ended` for a task that takes no message, `BadUsage` for a key that is not of 1 to 255
        printable ASCII characters, `Unreachable`, `Missing`, `Unauthorized`.

        A task may take any time, so a server that vanishes without closing the connection is not noticed here; `stream`
        notices its silence.
        """
        key = key or secrets.token_hex(16)
        sent, headers = as_message(message, session, task, key), {"Idempotency-Key": key}
        pauses = Pauses(self.give_up_after)
        while True:
            try:
                result = await self._call("SendMessage", {"message": sent}, headers, timeout=None)
            except Unreachable as error:
                await pauses.wait(error)
                continue
            answer = classify(result)
            if not isinstance(answer, FullTask | Message):
                raise not_understood(self._http.url, "with neither a task nor a message")
            return answer

    async def stream(
        self, message: str | Mapping[str, Any], *, key: str = "", session: str = "", task: str = ""
    ) -> AsyncGenerator[Received]:
        """Send a message and yield the events of its task until the task is terminal or waits for the user.

        The arguments and failures are those of `send`. A stream that breaks is continued after its last cursor: no
        event is missing, none comes twice. Before the first event it is sent again under the same key. A server without
        cursors, or one whose log has lost the place, continues with the whole task: a `FullTask` that replaces the
        events so far.

        The response to a rewind is the session task, which has no cursor: a stream that breaks between it and the first
        event of the next turn is sent again as well, and yields the response once more.
        """
        key = key or secrets.token_hex(16)
        sent, headers = as_message(message, session, task, key), {"Idempotency-Key": key}
        pauses = Pauses(self.give_up_after)
        said = read_message(sent)
        position = _Position(goes_on=bool(said.text))
        while not position.task_id:
            position.rewinds = REWIND_BEFORE in said.metadata
            try:
                async with aclosing(self._stream("SendStreamingMessage", {"message": sent}, headers, pauses)) as events:
                    async for received in events:
                        pauses.reset()
                        position.note(received)
                        yield received
                        if position.done or position.state in AT_REST:
                            return
                await pauses.wait(_closed())
            except Unreachable as error:
                await pauses.wait(error)
        async with aclosing(self._follow(position, AT_REST, pauses)) as followed:
            async for received in followed:
                yield received

    async def resume(self, task_id: str, cursor: str = "") -> AsyncGenerator[Received]:
        """Yield the events of a task after `cursor` until the task is terminal, also if it has ended meanwhile.

        Without a cursor the first event is the whole task as it is. A stream that breaks is continued as in `stream`. A
        task that waits for the user keeps its stream open. Raise `Ended` for a terminal task without a cursor,
        `Missing`, `Unreachable`, `Unauthorized`.
        """
        async with aclosing(self._follow(_Position(task_id=task_id, cursor=cursor), TERMINAL)) as events:
            async for received in events:
                yield received

    async def get(self, task_id: str, *, history_length: int | None = None) -> FullTask:
        """Return a task as it is, with its last `history_length` messages; None: all. Raise `Missing`."""
        params: dict[str, Any] = {"id": task_id}
        if history_length is not None:
            params["historyLength"] = history_length
        return read_task(await self._call("GetTask", params))

    async def tasks(self, limit: int, **filters: Any) -> AsyncGenerator[FullTask]:
        """Yield the caller's tasks, newest state change first, at most `limit`; `filters` are parameters of
        `ListTasks`, such as `contextId` and `historyLength`."""
        token = ""
        while limit > 0:
            page = await self._call("ListTasks", {"pageSize": min(100, limit), **filters, "pageToken": token})
            for task in page.get("tasks", [])[:limit]:
                limit -= 1
                yield read_task(task)
            token = page.get("nextPageToken", "")
            if not token:
                return

    async def cancel(self, task_id: str) -> FullTask:
        """Cancel a task and return it. Raise `Ended` if it is terminal already, `Missing`."""
        return read_task(await self._call("CancelTask", {"id": task_id}))

    async def _follow(
        self, position: "_Position", until: frozenset[State], pauses: Pauses | None = None
    ) -> AsyncGenerator[Received]:
        pauses = pauses or Pauses(self.give_up_after)
        resumed = position.seen
        while True:
            headers = {"Last-Event-ID": position.cursor} if position.cursor else {}
            before = position.cursor
            refused: Failure = _closed()
            try:
                try:
                    params = {"id": position.task_id}
                    async with aclosing(self._stream("SubscribeToTask", params, headers, pauses)) as events:
                        async for received in events:
                            pauses.reset()
                            position.note(received)
                            yield replace(received, resumed_after=before) if resumed else received
                            resumed = False
                            if position.state in until:
                                return
                except Ended as error:
                    if not position.seen:
                        raise
                    refused = error
                task = await self.get(position.task_id)
                if task.state in until:
                    if not position.cursor or task.cursor != position.cursor:
                        # A server without cursors, which sends nothing of a task that has ended.
                        yield Received(task, {"task": task.json}, task.cursor)
                    return
                pauses.answered()
                raise refused
            except Unreachable as error:
                await pauses.wait(error)
            resumed = position.seen

    async def _stream(
        self, method: str, params: Mapping[str, Any], headers: Mapping[str, str], pauses: Pauses
    ) -> AsyncGenerator[Received]:
        body = self._envelope(method, params)
        async with self._http.stream("POST", self._path, body=body, headers={**self._headers, **headers}) as stream:
            with pauses.open_stream():
                async for event in stream.events:
                    result = self._result(parsed(self._http.url, event.data))
                    yield Received(classify(result), result, event.id)

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
            headers={**self._headers, **(headers or {})},
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


def _closed() -> Unreachable:
    return Unreachable("The server closed the stream before the end.", reason="STREAM_CLOSED")


@dataclass(slots=True)
class _Position:
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
        event = received.event
        if isinstance(event, FullTask) and self.rewinds:
            self.rewinds = False
            self.done = event.state != "completed" or not self.goes_on
        elif isinstance(event, Message):
            self.done = True
        else:
            self.task_id = received.task_id or self.task_id
            self.state = received.state or self.state
