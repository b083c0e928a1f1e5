"""Requests as bytes, and faults in how they are framed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final


@dataclass
class Case:
    """A request. `left`: the client leaves in mid-request, so there may be no answer; `framed`: its framing is valid
    HTTP, otherwise the HTTP server may answer by itself."""

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


def sized(case: Case) -> None:
    """Add the length of the body, if there should be one."""
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
    """Send invalid lengths or chunks."""
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


FRAMES: Final[Sequence[Callable[[Case, Random], None]]] = (
    *(_cut, _cut_head, _chunked, _chunked, _framed_wrongly, _old, _expecting, _absolute),
)
