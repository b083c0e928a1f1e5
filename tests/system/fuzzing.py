"""Random requests from a seed: for every route and every JSON-RPC method valid ones, and ones with faults in bodies,
headers, queries, paths and framing."""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final
from urllib.parse import quote

from tests.system.fuzz_bodies import Bodies, Pool
from tests.system.fuzz_cases import FRAMES, Case, sized
from tests.system.fuzz_faults import Faults
from tests.system.junk import TEXTS, dumped

from taskplane.gateway.routes import ROUTES

_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class Requests:
    """The requests of one seed, by number."""

    def __init__(self, seed: str, pool: Pool) -> None:
        self._seed = seed
        self.pool = pool

    def make(self, number: int) -> Case:
        """Make a request: the same for the same seed, number and earlier answers."""
        return _Maker(Random(f"{self._seed}-{number}"), self.pool).make(number)


class _Maker:
    def __init__(self, random: Random, pool: Pool) -> None:
        self._random = random
        self._pool = pool
        self._bodies = Bodies(random, pool)
        self._faults = Faults(random, tuple(_HEADERS), tuple(_PARAMETERS))

    def make(self, number: int) -> Case:
        random = self._random
        route = random.choice(ROUTES)
        if random.random() < 0.3:
            route = next(each for each in ROUTES if (each.method, each.path) == ("POST", "/"))
        path = _PARAMETER.sub(lambda found: self._segment(found[1]), route.path)
        body = self._bodies.of(f"{route.method} {route.path}")
        query = {name: self._parameter(name) for name in _PARAMETERS if random.random() < 0.06}
        if route.path.endswith("/import"):
            query["id"] = f"i{random.getrandbits(20)}"
        headers = {"Host": "127.0.0.1", **{name: self._header(name) for name in _HEADERS if random.random() < 0.06}}
        if body is not None:
            headers["Content-Type"] = "application/x-ndjson" if route.path.endswith("/import") else "application/json"
        content = b"" if body is None else body if isinstance(body, bytes) else dumped(body)
        case = Case(number, route.method, self._target(path, query), encoded(headers), content)
        for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
            body = self._faults.any(case, body)
        sized(case)
        if random.random() < 0.06:
            random.choice(FRAMES)(case, random)
        return case

    def _segment(self, name: str) -> str:
        if name in ("agent", "namespace"):
            return "demo"
        if name == "tenant":
            return self._random.choice(("demo", "default", "elsewhere"))
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


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as bytes, without what cannot be in one."""
    clean = {name: re.sub(r"[\x00-\x1f\x7f]", "", value) for name, value in headers.items()}
    return [(name.encode(), value.encode("utf-8", "replace")[:4_000]) for name, value in clean.items()]
