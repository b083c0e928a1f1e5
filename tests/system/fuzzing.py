"""Requests made at random from a seed: for every route and every JSON-RPC method valid ones, and ones with faults in
their bodies, headers, queries, paths and framing."""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.system.junk import JUNK, TEXTS, Pairs, dumped, nested

from taskplane.gateway.methods import METHODS
from taskplane.gateway.routes import ROUTES

Json = dict[str, Any]

# What the demo agent does at once.
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
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
# Members of answers that are ids, and what they are the ids of.
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
    """Ids of what is there, taken from answers, and the newest exported session."""

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
            for each in value[-3:]:
                self._learn(each)
        if not isinstance(value, dict):
            return
        for name, each in value.items():
            if name in _KINDS and isinstance(each, str):
                self._ids[_KINDS[name]].append(each)
            elif name == "id" and not value.keys().isdisjoint(("status", "agent_id")):
                self._ids["task" if "status" in value else "session"].append(each)
            else:
                self._learn(each)

    def any(self, random: Random, kind: str) -> str:
        """An id of this kind, usually of something that is there."""
        return random.choice(self._ids[kind if kind in self._ids else "task"])


@dataclass
class Case:
    """A request. `left`: the client leaves in mid-request, so that there may be no answer; `framed`: as HTTP has it, or
    the server may answer by itself that it is not."""

    number: int
    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    left: bool = False
    framed: bool = True
    version: bytes = b"1.1"
    sent: bytes = field(default=b"", repr=False)

    def wire(self) -> bytes:
        """The bytes that are sent."""
        if not self.sent:
            head = b"%s %s HTTP/%s\r\n" % (self.method.encode(), self.target, self.version)
            self.sent = head + b"".join(b"%s: %s\r\n" % each for each in self.headers) + b"\r\n" + self.body
        return self.sent


class Requests:
    """The requests of one seed, by their number."""

    def __init__(self, seed: str, pool: Pool) -> None:
        self._seed = seed
        self.pool = pool

    def make(self, number: int) -> Case:
        """Make a request; with the same answers before it, the same for the same seed and number."""
        return _Maker(Random(f"{self._seed}-{number}"), self.pool).make(number)


class _Maker:
    def __init__(self, random: Random, pool: Pool) -> None:
        self._random = random
        self._pool = pool

    def make(self, number: int) -> Case:
        random = self._random
        route = random.choice(ROUTES)
        if random.random() < 0.3:
            route = next(each for each in ROUTES if (each.method, each.path) == ("POST", "/"))
        path = _PARAMETER.sub(lambda found: self._segment(found[1]), route.path)
        body = self._body(f"{route.method} {route.path}")
        query = {name: self._parameter(name) for name in _PARAMETERS if random.random() < 0.06}
        if route.path.endswith("/import"):
            query["id"] = f"i{random.getrandbits(20)}"
        headers = {"Host": "127.0.0.1", **{name: self._header(name) for name in _HEADERS if random.random() < 0.06}}
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson" if route.path.endswith("/import") else "application/json"
        content = b"" if body is None else body if isinstance(body, bytes) else dumped(body)
        case = Case(number, route.method, self._target(path, query), _encoded(headers), content)
        for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
            faults = (self._tree, self._bytes, self._head, self._aim, self._verb)
            (fault,) = random.choices(faults, (6, 2, 2, 2, 1))
            body = fault(case, body)
        _sized(case)
        if random.random() < 0.06:
            random.choice(_FRAMES)(case, random)
        return case

    # What is valid.

    def _segment(self, name: str) -> str:
        if name in ("agent", "namespace"):
            return "demo"
        return quote(self._pool.any(self._random, name), safe="")

    def _parameter(self, name: str) -> str:
        random = self._random
        if random.random() < 0.4:
            return random.choice(TEXTS)
        valid = _PARAMETERS[name]
        return random.choice(valid) if valid else self._pool.any(random, _PAGES.get(name, "token"))

    def _header(self, name: str) -> str:
        random = self._random
        if random.random() < 0.3:
            return random.choice(TEXTS)
        valid = _HEADERS[name]
        return random.choice(valid) if valid else self._pool.any(random, "cursor")

    def _target(self, path: str, query: Mapping[str, str]) -> bytes:
        text = "&".join(f"{name}={quote(value, safe='', errors='replace')}" for name, value in query.items())
        return (path + (f"?{text}" if text else "")).encode()

    def _body(self, at: str) -> Any:
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
            params = self._send("/" in method)
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

    def _send(self, old: bool) -> Json:
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
        """An event of a runtime, which is JSON or text that has JSON."""
        random = self._random
        actions: Json = {"stateDelta": {"a": 1, "user:b": [2], "app:c": {"d": None}, "temp:e": 1}}
        actions["artifactDelta"] = {"file": 1}
        if random.random() < 0.3:
            actions["rewindBeforeInvocationId"] = self.id("turn")
        content = {"role": "model", "parts": [{"text": "x"}, {"functionCall": {"id": "1", "name": "f", "args": {}}}]}
        event: Json = {"id": f"e{self.number()}", "invocationId": self.id("turn"), "author": "demo", "timestamp": 1.5}
        event |= {"actions": actions, "content": content, "longRunningToolIds": ["1"], "partial": False}
        if random.random() < 0.4:
            event = self._changed(event)
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
        """An exported session, perhaps with faults or with lines too many or too few, and with an end that says so."""
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
                    lines[at] = dumped(self._changed(json.loads(lines[at]))) + b"\n"
        counts = {name: sum(b'"type":"%s"' % kind in line for line in lines) for name, kind in _COUNTED.items()}
        end = {"type": "end", **counts, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
        return b"".join(lines) + dumped(end) + b"\n"

    # What is not.

    def _tree(self, case: Case, body: Any) -> Any:
        """Put a fault into the JSON of the body."""
        if body is None or isinstance(body, bytes):
            return self._bytes(case, body)
        body = self._changed(body)
        case.body = dumped(body)
        return body

    def _changed(self, body: Any) -> Any:
        random = self._random
        places: list[tuple[Any, Any]] = []
        _walk(body, places)
        if not places:
            return self._junk()
        within, key = random.choice(places)
        fault = random.randrange(10)
        if fault < 6:
            within[key] = self._junk()
        elif fault == 6:
            del within[key]
        elif fault == 7 and isinstance(within, dict):
            within["" if random.random() < 0.2 else key + random.choice(TEXTS)] = self._junk()
        elif fault == 8:
            within[key] = [within[key]] * random.choice((0, 1, 2, 101, 1_001))
        elif isinstance(within[key], dict):
            within[key] = Pairs([*within[key].items(), *[(name, self._junk()) for name in within[key]]])
        elif isinstance(within[key], str):
            within[key] += random.choice(TEXTS)
        else:
            within[key] = {"a": within[key]}
        return body

    def _junk(self) -> Any:
        # A copy, since a second fault may change it.
        return deepcopy(self._random.choice(JUNK))

    def _bytes(self, case: Case, body: Any) -> Any:
        """Put a fault into the bytes of the body."""
        random, content = self._random, bytearray(case.body)
        fault = random.randrange(7)
        if fault == 0:
            del content[random.randrange(len(content) + 1) :]
        elif fault == 1:
            content[:0] = random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b" \n", b"//", b"[" * 2_000, b"\0"))
        elif fault == 2:
            content += random.choice((b"\0", b"}", b"\n{}", bytes(content), b" " * 9_000))
        elif fault == 3 and content:
            content[random.randrange(len(content))] = random.randrange(256)
        elif fault == 4 and content:
            at = random.randrange(len(content))
            content[at:at] = random.choice((b"\xc3\x28", b"\xed\xa0\x80", b"\0", b'"', b"\\", b"\\ud800", b"9" * 400))
        elif fault == 5:
            content[:] = random.choice((b"", b"null", b"[]", b"{}", b'""', b"0", b"NaN", nested(500), b"[" * 100_000))
        else:
            content[:] = dumped(self._junk())
        case.body = bytes(content)
        return body

    def _head(self, case: Case, body: Any) -> Any:
        """Add a header with a fault, or take one away."""
        random = self._random
        if case.headers and random.random() < 0.2:
            del case.headers[random.randrange(len(case.headers))]
            return body
        name = random.choice(["Content-Type", "Host", "X-User-Id", "Last-Event-ID", "Idempotency-Key", *_HEADERS])
        value = random.choice((*_ODD, *TEXTS)).encode("utf-8", "replace")
        case.headers.append((name.encode(), value))
        # Some bytes cannot be in a header.
        case.framed = case.framed and not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value) and len(value) < 8_000
        return body

    def _aim(self, case: Case, body: Any) -> Any:
        """Put a fault into path or query."""
        random = self._random
        piece = random.choice((*_ESCAPES, *(quote(text, safe="", errors="replace") for text in TEXTS))).encode()
        path, mark, query = case.target.partition(b"?")
        fault = random.randrange(4)
        if fault == 0:
            segments = path.split(b"/")
            segments[random.randrange(1, len(segments))] = piece
            path = b"/".join(segments)
        elif fault == 1:
            path += random.choice((b"/", b"//", b"/" + piece, piece))
        elif fault == 2:
            name = random.choice(list(_PARAMETERS)).encode()
            mark, query = b"?", query + b"&" + name + b"=" + piece
        else:
            mark, query = b"?", piece + random.choice((b"", b"=", b"&", b"=%zz", b"=1&limit=1&limit=2"))
        case.target = (path or b"/") + mark + query
        case.framed = case.framed and len(case.target) < 8_000 and not re.search(rb"[^\x21-\x7e]", case.target)
        return body

    def _verb(self, case: Case, body: Any) -> Any:
        """Use another method."""
        case.method = self._random.choice(_VERBS)
        case.framed = case.framed and case.method.isupper() and case.method not in _STRANGE
        return body


_VERBS: Final = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "BREW",
    "get",
    "CONNECT",
)
_STRANGE: Final = {"BREW", "CONNECT"}
_PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    "limit": ("1", "2", "1000"),
    "before": (),
    "after": ("2026-01-01T00:00:00Z",),
    "page_token": (),
    "kind": ("status-message", "message"),
    "include": ("superseded",),
    "latest": ("any", "incomplete"),
    "order": ("asc", "desc"),
    "q": ("hello", "%"),
    "id": ("import-1", "import-2"),
    "user_id": ("local",),
    "A2A-Version": ("1.0", "0.3"),
}
_COUNTED: Final = {"entries": b"entry", "tasks": b"task", "events": b"event"}
_PAGES: Final = {"before": "message", "page_token": "token"}
_HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "A2A-Version": ("1.0", "0.3", "1.0.0", "2.0"),
    "A2A-Extensions": ("https://example.com/x",),
    "Accept": ("application/json", "text/event-stream", "*/*"),
    "Authorization": ("Bearer a.b", "Basic YTpi"),
    "Idempotency-Key": ("k1", "k2", "k3"),
    "If-Match": ('"1"', '"2"', "*", 'W/"3"'),
    "If-None-Match": ('"1"', "*"),
    "Last-Event-ID": (),
    "Origin": ("http://127.0.0.1",),
    "Range": ("bytes=0-1",),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",),
    "tracestate": ("a=b",),
    "X-Agent-Name": ("demo",),
    "X-API-Key": ("a.b",),
    "X-Request-Id": ("r-1",),
    "X-User-Id": ("local",),
}
_ODD: Final = (
    *(
        "text/plain",
        "application/xml",
        "application/json; charset=utf-16",
        "multipart/form-data",
        "application/a2a+json",
    ),
    *("-1", "0", "1", "99999999999999999999", '"-1"', '"99999999999999999999"', 'W/""', '"a","b"', "aaaaaaaa-1", "a-0"),
    *("127.0.0.1", "evil.example", "[::1]", "[", ":0", "null", "file://", "00-zz", "x" * 300),
)
_ESCAPES: Final = (
    *("%", "%%", "%0", "%zz", "%00", "%2F", "%2f%2e%2e", "..", ".", "%2e%2e", "%C0%AF", "%ED%A0%80", "%FF", "%u0041"),
    *("%0d%0aX: y", "%E2%80%AE", ";", "~", "*", "+", "a" * 300, "%41" * 300, "{task}", "%7Btask%7D", "\\", "|"),
)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    clean = {name: re.sub(r"[\x00-\x1f\x7f]", "", value) for name, value in headers.items()}
    return [(name.encode(), value.encode("utf-8", "replace")[:4_000]) for name, value in clean.items()]


def _walk(value: Any, places: list[tuple[Any, Any]]) -> None:
    """Gather each member and each element, with what it is in."""
    if isinstance(value, dict | list) and not isinstance(value, Pairs):
        for key in list(value) if isinstance(value, dict) else range(min(len(value), 20)):
            places.append((value, key))
            _walk(value[key], places)


def _sized(case: Case) -> None:
    if case.body or case.method not in ("GET", "HEAD", "DELETE"):
        case.headers.append((b"Content-Length", b"%d" % len(case.body)))


def _cut(case: Case, random: Random) -> None:
    """Leave before the body has been sent."""
    if case.body:
        case.body = case.body[: random.randrange(len(case.body))]
        case.left = True


def _cut_head(case: Case, random: Random) -> None:
    """Leave before the head has been sent."""
    whole = case.wire()
    case.sent = whole[: random.randrange(1, whole.index(b"\r\n\r\n") + 2)]
    case.left, case.framed = True, False


def _unsized(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [each for each in headers if each[0] != b"Content-Length"]


def _chunked(case: Case, random: Random) -> None:
    """Send the body in chunks."""
    pieces: list[bytes] = []
    rest = case.body
    while rest:
        size = random.randrange(1, len(rest) + 1)
        pieces.append(b"%x\r\n%s\r\n" % (size, rest[:size]))
        rest = rest[size:]
    case.body = b"".join(pieces) + b"0\r\n\r\n"
    case.headers = [*_unsized(case.headers), (b"Transfer-Encoding", b"chunked")]


def _framed_wrongly(case: Case, random: Random) -> None:
    """Send lengths or chunks that are none."""
    odd = ((b"Content-Length", b"-1"), (b"Content-Length", b"1x"), (b"Transfer-Encoding", b"chunked"), (b"A b", b"c"))
    case.headers.append(random.choice((*odd, (b"Content-Length", b"9" * 30), (b"", b"x"), (b"X", b"y" * 70_000))))
    case.left, case.framed = True, False


def _old(case: Case, random: Random) -> None:
    """Speak another version of HTTP."""
    case.version = random.choice((b"1.0", b"2.0", b"0.9", b"x"))
    case.framed = case.framed and case.version == b"1.0"


def _expecting(case: Case, random: Random) -> None:
    """Ask whether to send the body."""
    case.headers.append((b"Expect", random.choice((b"100-continue", b"the unexpected"))))


def _absolute(case: Case, random: Random) -> None:
    """Name the server in the target, as for a proxy."""
    case.target = random.choice((b"http://127.0.0.1", b"http://evil.example", b"//", b"*")) + case.target
    case.framed = False


_FRAMES: Final[Sequence[Callable[[Case, Random], None]]] = (
    *(_cut, _cut_head, _chunked, _chunked, _framed_wrongly, _old, _expecting, _absolute),
)

# The bodies of routes that take another one than a document; of a route that is not here, documents.
_BODIES: Final[Mapping[str, Callable[[_Maker], Any]]] = {
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
