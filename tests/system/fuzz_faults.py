"""Faults in requests: in bodies, headers, queries, paths and verbs."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.system.fuzz_cases import Case
from tests.system.junk import TEXTS, changed, dumped, junk, nested


class Faults:
    """The faults of one request. `headers` and `parameters` are the names that the server reads. Each fault takes the
    request and its body as JSON, and returns the body with the fault."""

    def __init__(self, random: Random, headers: Sequence[str], parameters: Sequence[str]) -> None:
        self._random = random
        self._names = headers
        self._parameters = parameters

    def any(self, case: Case, body: Any) -> Any:
        """Put any fault into the request."""
        (fault,) = self._random.choices((self.tree, self.bytes, self.head, self.aim, self.verb), (6, 2, 2, 2, 1))
        return fault(case, body)

    def tree(self, case: Case, body: Any) -> Any:
        """Put a fault into the JSON of the body."""
        if body is None or isinstance(body, bytes):
            return self.bytes(case, body)
        body = changed(self._random, body)
        case.body = dumped(body)
        return body

    def bytes(self, case: Case, body: Any) -> Any:
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

    def head(self, case: Case, body: Any) -> Any:
        """Add a header with a fault, or remove one."""
        random = self._random
        if case.headers and random.random() < 0.2:
            del case.headers[random.randrange(len(case.headers))]
            return body
        name = random.choice(["Content-Type", "Host", "X-User-Id", "Last-Event-ID", "Idempotency-Key", *self._names])
        value = random.choice((*_ODD, *TEXTS)).encode("utf-8", "replace")
        case.headers.append((name.encode(), value))
        # Some bytes cannot be in a header.
        case.framed = case.framed and not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value) and len(value) < 8_000
        return body

    def aim(self, case: Case, body: Any) -> Any:
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
            name = random.choice(self._parameters).encode()
            mark, query = b"?", query + b"&" + name + b"=" + piece
        else:
            mark, query = b"?", piece + random.choice((b"", b"=", b"&", b"=%zz", b"=1&limit=1&limit=2"))
        case.target = (path or b"/") + mark + query
        case.framed = case.framed and len(case.target) < 8_000 and not re.search(rb"[^\x21-\x7e]", case.target)
        return body

    def verb(self, case: Case, body: Any) -> Any:
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
