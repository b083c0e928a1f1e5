"""Random requests of A2A over JSON-RPC and REST, in both versions: valid ones, and ones with faults."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast
from urllib.parse import quote

from tests.system.fuzz_bodies import Bodies, Pool
from tests.system.fuzz_cases import FRAMES, Case, sized
from tests.system.fuzz_faults import Faults
from tests.system.fuzzing import encoded
from tests.system.junk import TEXTS, changed, dumped, junk

from taskplane.api import growing_text
from taskplane.gateway.bindings import rest, rest_v0_3
from taskplane.gateway.bindings.jsonrpc import METHODS

Json = dict[str, Any]

FORMS: Final = ("jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3")
"""The bindings over HTTP, each of one version."""
KEY: Final = "fuzz"
"""The name of the mark in the metadata of a message."""
MARK: Final = re.compile(rb"fuzz-[0-9]+-mark")
"""The mark of a request in its message, by which stores are searched."""

_SENDS: Final = ("SendMessage", "SendStreamingMessage")
_SERVED: Final = ("GetTask", "ListTasks", "CancelTask", "SubscribeToTask")
_PATHS: Final = {"rest-1.0": rest.PATHS, "rest-0.3": rest_v0_3.PATHS}
_BASES: Final = ("", "", "", "/agents/demo", "/api/a2a/ns/demo")
_TENANTS: Final = ("default", "demo", "elsewhere", "tasks", "v1", "api", "..", "%2e", "a%2Fb", "x" * 300)
_HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "A2A-Version": ("1.0", "0.3", "1.0.1", "0.3.0", "", "99.0"),
    "A2A-Extensions": (growing_text.EXTENSION, "https://example.com/x,,https://example.com/y"),
    "X-A2A-Extensions": (growing_text.EXTENSION,),
    "Accept": ("application/json", "application/a2a+json", "text/event-stream", "*/*", "application/json;q=0"),
    "Idempotency-Key": ("k1", "k2", "k3", "k4"),
    "If-Match": ('"1"', '"2"', "*", 'W/"3"'),
    "Last-Event-ID": (),
    "X-Request-Id": ("r-1",),
}
_PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    "historyLength": ("0", "1", "100", "-1", "1.0", "1e2"),
    "history_length": ("0", "1", "100"),
    "pageSize": ("1", "50", "100", "0", "101"),
    "page_size": ("1",),
    "pageToken": (),
    "contextId": (),
    "status": ("TASK_STATE_COMPLETED", "3", "99", "completed"),
    "includeArtifacts": ("true", "false", "1", "TRUE"),
    "statusTimestampAfter": ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00"),
    "tenant": ("default", "demo", "elsewhere"),
    "starting_after": (),
    "A2A-Version": ("1.0", "0.3", "99.0"),
}
_KINDS: Final = {"contextId": "session", "pageToken": "token"}
# Members that may be written in another way without a difference.
_SNAKE: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


@dataclass
class Sent:
    """A request. `form` and `operation`: what its answer is to be read as; empty if a fault may have changed them."""

    case: Case
    form: str
    operation: str
    mark: bytes


class A2ARequests:
    """The requests of one seed, by number."""

    def __init__(self, seed: str, pool: Pool) -> None:
        self._seed = seed
        self.pool = pool

    def make(self, number: int) -> Sent:
        """Make a request: the same for the same seed, number and earlier answers."""
        return _Maker(Random(f"a2a-{self._seed}-{number}"), self.pool).make(number)


class _Maker:
    def __init__(self, random: Random, pool: Pool) -> None:
        self._random = random
        self._pool = pool
        self._bodies = Bodies(random, pool)
        self._faults = Faults(random, tuple(_HEADERS), tuple(_PARAMETERS))

    def make(self, number: int) -> Sent:
        random = self._random
        form = FORMS[number % len(FORMS)]
        mark = f"fuzz-{number}-mark"
        if form in _PATHS:
            verb, target, operation, body = self._rest(form, mark)
        else:
            verb, target = "POST", random.choice(_BASES) or random.choice(("/", "/jsonrpc"))
            operation, body = self._rpc(form, mark)
        if random.random() < 0.3:
            body = self._spelled(body)
        target += self._query(form, verb)
        headers = {"Host": "127.0.0.1", **{name: self._header(name) for name in _HEADERS if random.random() < 0.03}}
        if body is not None:
            headers["Content-Type"] = random.choice(("application/json", "application/json", "application/a2a+json"))
        case = Case(number, verb, target.encode(), encoded(headers), b"" if body is None else dumped(body))
        for _ in range(random.choice((0, 0, 0, 0, 1, 1, 2))):
            body = self._fault(case, body)
        sized(case)
        if random.random() < 0.06:
            random.choice(FRAMES)(case, random)
        if case.target.partition(b"?")[0] != target.encode().partition(b"?")[0] or case.method != verb:
            form, operation = "", ""
        return Sent(case, form, operation, mark.encode())

    # Valid requests.

    def _rpc(self, form: str, mark: str) -> tuple[str, Json]:
        random = self._random
        old = form.endswith("0.3")
        methods = {name: operation.name for name, (operation, _) in METHODS.items() if old == ("/" in name)}
        method = self._weighted(methods)
        operation = methods[method]
        body: Json = {"jsonrpc": "2.0", "id": random.choice((1, "r", None, 1.5, "\u2603" * 50)), "method": method}
        body["params"] = self._params(operation, old, mark)
        if random.random() < 0.05:
            del body["id"]
        return operation, body

    def _rest(self, form: str, mark: str) -> tuple[str, str, str, Json | None]:
        random = self._random
        old = form.endswith("0.3")
        at: int = self._weighted({index: path[2].operation.name for index, path in enumerate(_PATHS[form])})
        verb, path, handler = _PATHS[form][at]
        operation = handler.operation.name
        for name in ("task", "config"):
            path = path.replace(f"{{{name}}}", quote(self._pool.any(random, name), safe=""))
        tenant = f"/{random.choice(_TENANTS[:2])}" if not old and random.random() < 0.15 else ""
        body: Json | None = None
        if verb == "POST":
            body = self._params(operation, old, mark)
            if operation in _SENDS:
                body = self._protojson(body) if old else body
            elif random.random() < 0.4:
                body = None
        return verb, random.choice(_BASES) + tenant + path, operation, body

    def _weighted(self, operations: Mapping[Any, str]) -> Any:
        """Any of these, most often a send, and seldom one that is always refused."""
        random = self._random
        sends = [name for name, operation in operations.items() if operation in _SENDS]
        served = [name for name, operation in operations.items() if operation in _SERVED]
        share = random.random()
        return random.choice(sends if share < 0.5 else served if share < 0.92 else list(operations))

    def _params(self, operation: str, old: bool, mark: str) -> Json:
        random = self._random
        if operation not in _SENDS:
            found: Json = {"id": self._pool.any(random, "task"), "historyLength": random.choice((0, 1, 100))}
            found |= {"taskId": self._pool.any(random, "task"), "metadata": {"a": 1}}
            if operation == "ListTasks":
                found = {"contextId": self._pool.any(random, "session"), "pageSize": random.choice((1, 50, 100))}
                found |= {"includeArtifacts": random.random() < 0.5, "pageToken": self._pool.any(random, "token")}
        else:
            found = self._bodies.send(old)
            if "taskId" in found["message"] and random.random() < 0.7:
                del found["message"]["contextId"]
            found["message"]["metadata"] = {**found["message"].get("metadata", {}), KEY: mark}
            if random.random() < 0.1:
                found["metadata"] = {"taskplane.dev/cursor": self._pool.any(random, "cursor")}
        if random.random() < 0.1:
            found["tenant"] = random.choice(("default", "demo", "elsewhere", 5))
        return found

    def _protojson(self, params: Json) -> Json:
        """The params of a send as REST of 0.3 has them, by any of the names in use."""
        random = self._random
        message: Json = dict(params["message"])
        if random.random() < 0.8:
            message["role"] = random.choice(("ROLE_USER", 1))
            parts = [self._part(part) for part in message.pop("parts")]
            message["content" if random.random() < 0.8 else "parts"] = parts
            message.pop("kind")
        found = {name: value for name, value in params.items() if name != "message"}
        return {random.choice(("message", "request")): message, **found}

    def _part(self, part: Json) -> Json:
        if part["kind"] == "file":
            file = part["file"]
            return {"file": {"fileWithBytes": file["bytes"], "mimeType": file["mimeType"], "name": file["name"]}}
        return {"data": {"data": part["data"]}} if part["kind"] == "data" else {"text": part["text"]}

    def _spelled(self, body: Any) -> Any:
        """A body in snake case, except within metadata and data, and with members that nobody knows."""
        if isinstance(body, list):
            elements: list[Any] = body  # pyright: ignore[reportUnknownVariableType]
            return [self._spelled(each) for each in elements]
        if not isinstance(body, dict):
            return body
        members: Json = body  # pyright: ignore[reportUnknownVariableType]
        kept = ("metadata", "data")
        found = {
            name if name in kept else _SNAKE.sub(lambda at: "_" + at[1].lower(), name): (
                value if name in kept else self._spelled(value)
            )
            for name, value in members.items()
        }
        if self._random.random() < 0.2:
            name = self._random.choice(("unknown", "x-y", "\u2603", "kindOf"))
            found[name] = self._random.choice((None, 1, {"a": list[Any]()}))
        return found

    def _query(self, form: str, verb: str) -> str:
        share = 0.1 if verb == "GET" else 0.01
        found = {name: self._parameter(name) for name in _PARAMETERS if self._random.random() < share}
        text = "&".join(f"{name}={quote(value, safe='', errors='replace')}" for name, value in found.items())
        return f"?{text}" if text else ""

    def _parameter(self, name: str) -> str:
        random = self._random
        if random.random() < 0.1:
            return random.choice(TEXTS)
        valid = _PARAMETERS[name]
        return random.choice(valid) if valid else self._pool.any(random, _KINDS.get(name, "cursor"))

    def _header(self, name: str) -> str:
        random = self._random
        if random.random() < 0.2:
            return random.choice(TEXTS)
        valid = _HEADERS[name]
        return random.choice(valid) if valid else self._pool.any(random, "cursor")

    # Invalid requests.

    def _fault(self, case: Case, body: Any) -> Any:
        random = self._random
        if random.random() < 0.15:
            return self._misplaced(case, body)
        if isinstance(body, dict) and random.random() < 0.4:
            return self._member(case, cast("Json", body))
        return self._faults.any(case, body)

    def _misplaced(self, case: Case, body: Any) -> Any:
        """Put a tenant, a reserved name, a verb or an odd character into the path."""
        path, mark, query = case.target.decode("latin-1").partition("?")
        change = self._random.randrange(4)
        if change == 0:
            path = f"/{self._random.choice(_TENANTS)}{path}"
        elif change == 1:
            path += self._random.choice((":cancel", ":subscribe", ":", ":x", "%3Acancel", "/v1", "/tasks", "//"))
        elif change == 2:
            path = path.replace("tasks", self._random.choice(("task", "Tasks", "tasks/tasks", "v1/tasks")))
        else:
            path = f"/v1{path}" if not path.startswith("/v1") else path[3:]
        case.target = (path + mark + query).encode()
        case.framed = case.framed and len(case.target) < 8_000
        return body

    def _member(self, case: Case, body: Json) -> Any:
        """Put a fault into the params themselves, rather than anywhere in the body."""
        random = self._random
        (params,) = _objects(body.get("params")) or [body]
        places = [each for each in _objects(params, params.get("message"), params.get("configuration")) if each]
        place = random.choice(places or [params])
        name = random.choice(list(place) or ["id"])
        change = random.randrange(4)
        if change == 0:
            place[name] = junk(random)
        elif change == 1:
            place.pop(name, None)
        elif change == 2:
            place[name] = None
        else:
            place = changed(random, place)
        case.body = dumped(body)
        return body


def _objects(*values: Any) -> list[Json]:
    return [cast("Json", each) for each in values if isinstance(each, dict)]


def shown(body: bytes) -> Any:
    """The JSON of an answer, with long integers as they can be read."""
    return json.loads(body, parse_int=lambda digits: int(digits[:4_000]))
