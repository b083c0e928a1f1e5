"""Random requests from a seed: for every route and every JSON-RPC method valid ones, and ones with faults in bodies,
headers, queries, paths and framing."""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.system.fuzz_bodies import Bodies, Pool
from tests.system.fuzz_cases import FRAMES, Case, sized
from tests.system.junk import TEXTS, changed, dumped, junk, nested

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
        case = Case(number, route.method, self._target(path, query), _encoded(headers), content)
        for _ in range(random.choice((0, 0, 1, 1, 1, 2, 3))):
            faults = (self._tree, self._bytes, self._head, self._aim, self._verb)
            (fault,) = random.choices(faults, (6, 2, 2, 2, 1))
            body = fault(case, body)
        sized(case)
        if random.random() < 0.06:
            random.choice(FRAMES)(case, random)
        return case

    # Valid requests.

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

    # Invalid requests.

    def _tree(self, case: Case, body: Any) -> Any:
        """Put a fault into the JSON of the body."""
        if body is None or isinstance(body, bytes):
            return self._bytes(case, body)
        body = changed(self._random, body)
        case.body = dumped(body)
        return body

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
            content[:] = dumped(junk(random))
        case.body = bytes(content)
        return body

    def _head(self, case: Case, body: Any) -> Any:
        """Add a header with a fault, or remove one."""
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
