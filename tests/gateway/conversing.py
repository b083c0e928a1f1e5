"""Conversations over HTTP, in either version, streamed or not, and the ways in which clients read a session."""

from typing import Any, NamedTuple

from tests.gateway.plane import Event, Json, Plane, fresh

REWIND = "kagent_rewind_before_invocation_id"
INVOCATION = "kagent_invocation_id"


class Way(NamedTuple):
    """A version of A2A, and whether the answer is streamed."""

    version: str
    streams: bool

    @property
    def method(self) -> str:
        if self.version == "1.0":
            return "SendStreamingMessage" if self.streams else "SendMessage"
        return "message/stream" if self.streams else "message/send"

    def params(self, context: str, text: str, metadata: Json | None = None, **configuration: Any) -> Json:
        """Return the params of a send that waits for the end."""
        message: Json = {"messageId": fresh(), "contextId": context}
        if self.version == "1.0":
            message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
        else:
            message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
            configuration = {"blocking": True, **configuration}
        if metadata is not None:
            message["metadata"] = metadata
        return {"message": message, "configuration": configuration}


WAYS = [Way(version, streams) for version in ("0.3", "1.0") for streams in (False, True)]
STREAMS = [way for way in WAYS if way.streams]


def name_of(way: Way) -> str:
    return f"{way.version} {'stream' if way.streams else 'send'}"


def payload(result: Json) -> tuple[str, Json]:
    """Return the kind of a result, by the rule for clients (its wrapper key, else its `kind`), and its content."""
    for key, kind in (("statusUpdate", "status-update"), ("artifactUpdate", "artifact-update")):
        if key in result:
            return kind, result[key]
    for key in ("task", "message"):
        if key in result:
            return key, result[key]
    return result["kind"], result


def state_of(thing: Json) -> str:
    """Return the state of a task or status update in the spelling of 0.3."""
    state: str = thing["status"]["state"]
    return state.removeprefix("TASK_STATE_").lower().replace("_", "-")


def texts(messages: list[Json]) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]


async def responses(plane: Plane, way: Way, params: Json, **headers: str) -> list[tuple[str, Json]]:
    """Return every response to a send, in the form of `payload`."""
    if way.streams:
        return [payload(event.result) for event in await plane.streamed(way.method, params, **headers)]
    return [payload(await plane.result(way.method, params, **headers))]


async def events(plane: Plane, way: Way, params: Json, **headers: str) -> list[Event]:
    return await plane.streamed(way.method, params, **headers)


async def say(plane: Plane, way: Way, context: str, text: str) -> None:
    """Run a turn to its end."""
    found = await responses(plane, way, way.params(context, text))
    assert state_of(found[-1][1]) == "completed"


async def rewind(plane: Plane, way: Way, context: str, before: str, text: str = "", **headers: str) -> list[Any]:
    """Send a rewind as a message."""
    return await responses(plane, way, way.params(context, text, {REWIND: before}), **headers)


async def data(plane: Plane, path: str, status: int = 200, **headers: str) -> Any:
    reply = await plane.http.get(path, headers=headers)
    assert reply.status_code == status, reply.text
    return reply.json().get("data")


async def flat(plane: Plane, context: str) -> list[Json]:
    """Return the conversation that a client flattens from the session's tasks; of messages with one id, the first."""
    seen: set[str] = set()
    kept: list[Json] = []
    tasks: list[Json] = await data(plane, f"/api/sessions/{context}/tasks") or []
    for task in tasks:
        for message in task.get("history", []):
            if message["messageId"] not in seen:
                seen.add(message["messageId"])
                kept.append(message)
    return kept


async def shown(plane: Plane, context: str) -> list[str]:
    """Return the texts of the conversation, and check that all three routes agree."""
    messages = await flat(plane, context)
    page = await data(plane, f"/api/sessions/{context}/messages?limit=1000")
    assert page == {"messages": messages, "before": None}
    history = await data(plane, f"/api/sessions/{context}/effective_history")
    assert history["messages"] == messages
    return texts(messages)


def echo(*words: str) -> list[str]:
    """Return the conversation in which each of these words was sent and echoed."""
    return [word for word in words for _ in range(2)]


async def session_of(plane: Plane, way: Way, *words: str) -> str:
    context = fresh()
    for word in words:
        await say(plane, way, context, word)
    assert await shown(plane, context) == echo(*words)
    return context


async def invocation(plane: Plane, context: str, text: str) -> str:
    """Return the invocation of the turn that began with a text."""
    for message in await flat(plane, context):
        if message["role"] == "user" and texts([message]) == [text]:
            found: str = message["metadata"][INVOCATION]
            return found
    raise AssertionError(f"no turn began with {text}")


async def version(plane: Plane, context: str) -> int:
    found: int = (await data(plane, f"/api/sessions/{context}/effective_history"))["version"]
    return found
