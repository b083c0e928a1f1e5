"""Bodies of clients, with existing ids."""

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from tests.system.junk import changed, dumped

from taskplane.gateway.bindings.jsonrpc import METHODS

Json = dict[str, Any]

# Words that the demo agent answers at once.
_SAID: Final = (
    "hello",
    "message hi",
    "artifact",
    "tool",
    "ask Which?",
    "auth",
    "fail",
    "reject",
    "chunks 9 9",
    "flood 3",
)
_REWIND: Final = "kagent_rewind_before_invocation_id"
_VERSION: Final = "taskplane.dev/expected_version"
# Members of answers that are ids, and the kind of thing that they name.
_KINDS: Final[Mapping[str, str]] = {
    "taskId": "task",
    "contextId": "session",
    "artifactId": "artifact",
    "messageId": "message",
    "kagent_invocation_id": "turn",
    "taskplane.dev/cursor": "cursor",
    "next_page_token": "token",
    "nextPageToken": "token",
    "before": "message",
}
_KEPT: Final = 100
_LONG: Final = 100_000


class Pool:
    """Existing ids, taken from answers, and the newest exported session."""

    def __init__(self) -> None:
        self._ids: dict[str, deque[str]] = {kind: deque(["none"], _KEPT) for kind in _KINDS.values()}
        self.file = b""

    def learn(self, body: bytes) -> None:
        """Take over the ids in an answer, the newest for the oldest."""
        if b'"type":"end"' in body[-300:]:
            self.file = body
        for line in body.splitlines()[:20]:
            text = line.removeprefix(b"data: ")
            if text.startswith(b"{") and len(text) < _LONG:
                with suppress(ValueError):
                    self._learn(json.loads(text))

    def _learn(self, value: Any) -> None:
        if isinstance(value, list):
            elements: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            for each in elements[-3:]:
                self._learn(each)
        if not isinstance(value, dict):
            return
        members: Json = value  # pyright: ignore[reportUnknownVariableType]
        for name, each in members.items():
            if name in _KINDS and isinstance(each, str):
                self._ids[_KINDS[name]].append(each)
            elif name == "id" and isinstance(each, str) and not members.keys().isdisjoint(("status", "agent_id")):
                self._ids["task" if "status" in members else "session"].append(each)
            else:
                self._learn(each)

    def any(self, random: Random, kind: str) -> str:
        """An id of this kind, usually of something that is there."""
        return random.choice(self._ids[kind if kind in self._ids else "task"])


class Bodies:
    """The bodies of one request."""

    def __init__(self, random: Random, pool: Pool) -> None:
        self._random = random
        self._pool = pool

    def of(self, at: str) -> Any:
        verb, _, path = at.partition(" ")
        if path == "/" or "{agent}" in path:
            return None if verb == "GET" else self._call()
        if at in _BODIES:
            return _BODIES[at](self)
        return None if verb in ("GET", "DELETE") else self._document()

    def _call(self) -> Json:
        random = self._random
        sends = [name for name in METHODS if name.startswith(("Send", "message/"))]
        method = random.choice(sends if random.random() < 0.4 else list(METHODS))
        if method in sends:
            params = self.send("/" in method)
        elif method == "ListTasks":
            params = {
                "contextId": self.id("session"),
                "pageSize": random.choice((1, 50, 100)),
                "includeArtifacts": True,
            }
            if random.random() < 0.3:
                params |= {"pageToken": self.id("token"), "status": "TASK_STATE_COMPLETED", "historyLength": 1}
        else:
            params = {"id": self.id("task"), "historyLength": random.choice((0, 1, 100)), "metadata": {"a": 1}}
        return {"jsonrpc": "2.0", "id": random.choice((1, "r", None, 1.5)), "method": method, "params": params}

    def send(self, old: bool) -> Json:
        """The params of a send, in the form of JSON-RPC of either version."""
        random = self._random
        message = self.message(old)
        if random.random() < 0.2:
            message["metadata"] = self.metadata()
        message["contextId"] = self.id("session") if random.random() < 0.7 else f"fuzz-{random.randrange(50)}"
        if random.random() < 0.3:
            message["taskId"] = self.id("task")
        if random.random() < 0.1:
            message["metadata"] = {**self.metadata(), _REWIND: self.id("turn"), _VERSION: random.randrange(9)}
        if random.random() < 0.1:
            message |= {"referenceTaskIds": [self.id("task")], "extensions": ["https://example.com/x"]}
        waits = {"blocking": random.random() < 0.5} if old else {"returnImmediately": random.random() < 0.5}
        more = {"acceptedOutputModes": ["text/plain"], "historyLength": random.choice((0, 2, 50))}
        return {"message": message, "configuration": {**waits, **more}, "metadata": {"b": [1, None]}}

    def message(self, old: bool = True) -> Json:
        """A message of the user."""
        random = self._random
        text = random.choice(_SAID)
        message_id = f"m{random.getrandbits(40)}" if random.random() < 0.9 else self.id("message")
        if old:
            parts: list[Json] = [{"kind": "text", "text": text}]
            if random.random() < 0.2:
                parts += [{"kind": "data", "data": {"a": [1, {"b": None}]}}]
                parts += [{"kind": "file", "file": {"bytes": "AAAA", "mimeType": "text/plain", "name": "a.txt"}}]
            return {"kind": "message", "messageId": message_id, "role": "user", "parts": parts}
        parts = [{"text": text}]
        if random.random() < 0.2:
            parts += [
                {"data": {"a": [1]}, "mediaType": "application/json"},
                {"raw": "AAAA", "filename": "a"},
                {"url": "x:y"},
            ]
        return {"messageId": message_id, "role": "ROLE_USER", "parts": parts}

    def metadata(self) -> Json:
        """Metadata with the keys that the plane and the runtimes of others read."""
        random = self._random
        found: Json = {"kagent_invocation_id": self.id("turn"), "adk_invocation_id": self.id("turn"), "a": {"b": [1.5]}}
        found |= {"kind": "status-message", "kagent_adk_partial": random.random() < 0.5, "kagent_type": "function_call"}
        found |= {"taskplane.dev/time": "2026-01-01T00:00:00Z", "taskplane.dev/cursor": self.id("cursor")}
        return {name: value for name, value in found.items() if random.random() < 0.4}

    def event(self) -> Any:
        """Returns an event of a runtime: JSON, or text with JSON."""
        random = self._random
        actions: Json = {"stateDelta": {"a": 1, "user:b": [2], "app:c": {"d": None}, "temp:e": 1}}
        actions["artifactDelta"] = {"file": 1}
        if random.random() < 0.3:
            actions["rewindBeforeInvocationId"] = self.id("turn")
        content: Json = {
            "role": "model",
            "parts": [{"text": "x"}, {"functionCall": {"id": "1", "name": "f", "args": {}}}],
        }
        event: Json = {"id": f"e{self.number()}", "invocationId": self.id("turn"), "author": "demo", "timestamp": 1.5}
        event |= {"actions": actions, "content": content, "longRunningToolIds": ["1"], "partial": False}
        if random.random() < 0.4:
            event = changed(random, event)
        return event if random.random() < 0.5 else dumped(event).decode("utf-8", "replace")

    def id(self, kind: str) -> str:
        """An id of something that is there."""
        return self._pool.any(self._random, kind)

    def _document(self) -> Json:
        random = self._random
        document: Json = {
            "id": f"doc-{random.randrange(200)}",
            "contextId": self.id("session"),
            "kind": "task",
            "status": {"state": random.choice(("working", "completed", "input-required", "submitted"))},
            "history": [self.message() for _ in range(random.randrange(3))],
            "metadata": self.metadata(),
        }
        parts = [{"kind": "text", "text": "x"}]
        document["artifacts"] = [
            {"artifactId": f"a{at}", "name": "n", "parts": parts} for at in range(random.randrange(3))
        ]
        document["status"] |= {"timestamp": "2026-01-01T00:00:00Z", "message": self.message()}
        return document

    def version(self) -> int:
        """A version that a session may have."""
        return self._random.randrange(12)

    def number(self) -> int:
        """A small number."""
        return self._random.randrange(1_000)

    def file(self) -> bytes:
        """Returns an exported session, sometimes with faults or a wrong number of lines, and with an end that
        matches."""
        random = self._random
        lines = self._pool.file.splitlines(keepends=True)[:-1] or [b'{"type":"header"}\n']
        for _ in range(random.choice((0, 1, 1, 2))):
            at = random.randrange(len(lines))
            change = random.randrange(6)
            if change == 0:
                del lines[at]
                lines = lines or [b"\n"]
            elif change == 1:
                lines.insert(at, lines[at])
            else:
                with suppress(ValueError):
                    lines[at] = dumped(changed(random, json.loads(lines[at]))) + b"\n"
        counts = {name: sum(b'"type":"%s"' % kind in line for line in lines) for name, kind in _COUNTED.items()}
        end = {"type": "end", **counts, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
        return b"".join(lines) + dumped(end) + b"\n"


_COUNTED: Final = {"entries": b"entry", "tasks": b"task", "events": b"event"}

# The bodies of routes; a route without an entry takes documents.
_BODIES: Final[Mapping[str, Callable[[Bodies], Any]]] = {
    "POST /api/sessions": lambda make: {"id": f"s{make.number()}", "name": "n", "agent_ref": "demo", "source": "x"},
    "POST /api/sessions/import": lambda make: make.file(),
    "PUT /api/sessions/{session}": lambda make: {"name": "renamed", "agent_ref": "demo"},
    "PATCH /api/sessions/{session}": lambda make: {"name": "renamed"},
    "PUT /api/sessions/{session}/effective_history": lambda make: {
        "messages": [{**make.message(), "metadata": make.metadata()}, make.message()],
        **({"expectedVersion": make.version()} if make.version() < 4 else {}),
    },
    "POST /api/sessions/{session}/rewind": lambda make: {"before": make.id("turn")},
    "POST /api/sessions/{session}/undo_rewind": lambda make: {"expectedVersion": make.version()},
    "POST /api/sessions/{session}/fork": lambda make: {
        "before": make.id("turn"),
        "id": f"f{make.number()}",
        "name": "n",
    },
    "POST /api/sessions/{session}/events": lambda make: {"id": f"e{make.number()}", "data": make.event()},
}
