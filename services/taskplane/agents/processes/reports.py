"""The frames of the process of an agent to its executor. They are data: reading one runs no code of the agent.

A frame is its length, the length of its head, the head as JSON, and then pieces of bytes, for the texts, messages and
data that the head names by their number. The head is `[kind, fields, lengths of the pieces]`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from taskplane.agents import agent as port
from taskplane.agents.faults import AgentProcessGarbled
from taskplane.runtime.plain_json import plain

MAX_FRAME: Final = 8 * 1024 * 1024
"""Bytes of a frame. A message has at most 3 MiB, which quotes make longer where it is JSON."""
_LENGTH: Final = 4
# Characters of a text that stands in the head.
_SHORT: Final = 256
# Characters of a traceback, and of a text for clients.
_LONGEST_TRACE: Final = 64 * 1024
_LONGEST_TEXT: Final = 4 * 1024
# Values of any JSON, whatever the change.
_JSON: Final = frozenset({"data", "args", "response", "metadata", "figures"})
_CHANGES: Final[Mapping[str, Any]] = {
    each.__name__: each
    for each in (
        *(port.Working, port.Text, port.Say, port.ArtifactChunk, port.ToolCall, port.ToolResult, port.Checkpoint),
        *(port.Usage, port.AskInput, port.AskAuth, port.Complete, port.Fail, port.Reject),
    )
}
_PIECES: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "text": lambda piece: piece.decode("utf-8", "surrogatepass"),
    "json": lambda piece: json.loads(piece.decode("utf-8", "surrogatepass")),
    "bytes": lambda piece: piece,
    "Message": port.Message.FromString,
    "Part": port.Part.FromString,
}
CALLS: Final[Mapping[str, tuple[type, ...]]] = {
    "incoming": (),
    "referenced": (),
    "ended": (),
    "session_events": (),
    "append_session_event": (dict,),
    "session_state": (),
    "artifact": (str, str, dict),
}
"""The methods of `TurnCalls` and their arguments, each JSON."""


@dataclass(frozen=True, slots=True)
class Call:
    """The agent calls the plane: the method of TurnCalls of this name. `number` counts those of a run."""

    number: int
    method: str
    arguments: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Yielded:
    """A change."""

    change: port.Change


@dataclass(frozen=True, slots=True)
class Ended:
    """The agent returned."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The agent raised. `trace` is for its author, as is `at`, its file and line; `public`, the text of an AgentError,
    for clients."""

    trace: str
    public: str
    at: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The run is closed, and the process free for the next one. `trace`: of an exception of the agent meanwhile."""

    trace: str = ""


Report = Call | Yielded | Ended | Raised | Closed


def framed(report: Report) -> bytes:
    """Return the bytes of a frame. ValueError: they would be too many, or a call takes JSON. TypeError: this is no
    change, or a field of one is of no such type."""
    packer = _Packer()
    match report:
        case Call(number, method, arguments):
            given: list[Any] = [number, method, packer.json(list(arguments))]
        case Yielded(change):
            given = packer.change(change)
        case Ended():
            given = []
        case Raised(trace, public, at):
            given = [packer.text(_end(trace)), packer.text(public[:_LONGEST_TEXT]), packer.text(at[:_LONGEST_TEXT])]
        case Closed(trace):
            given = [packer.text(_end(trace))]
    head = json.dumps([type(report).__name__, given, list(map(len, packer.pieces))], separators=(",", ":")).encode()
    size = _LENGTH + len(head) + packer.size
    if size > MAX_FRAME:
        raise _too_large(size)
    return b"".join((size.to_bytes(_LENGTH), len(head).to_bytes(_LENGTH), head, *packer.pieces))


async def receive(reader: asyncio.StreamReader) -> Report | None:
    """Return the next frame; None if the other side has closed the socket. AgentProcessGarbled: it is none."""
    try:
        size = int.from_bytes(await reader.readexactly(_LENGTH))
        if size > MAX_FRAME:
            raise AgentProcessGarbled(f"a frame of {size:,} bytes, of at most {MAX_FRAME:,}")
        body = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        return _read(body)
    except Exception as error:  # whatever its bytes may cause
        raise AgentProcessGarbled(f"{size:,} bytes that are not a frame") from error


def _read(body: bytes) -> Report:
    start = _LENGTH + int.from_bytes(body[:_LENGTH])
    kind, given, lengths = json.loads(body[_LENGTH:start])
    unpacker = _Unpacker(body, start, lengths)
    match kind, given:
        case "Call", [int(number), str(method), piece]:
            arguments = unpacker.value(piece)
            if len(arguments) != len(CALLS[method]) or not all(map(isinstance, arguments, CALLS[method])):
                raise TypeError("a call has wrong arguments")
            return Call(number, method, arguments)
        case "Yielded", [str(name), dict()]:
            return Yielded(_CHANGES[name](**unpacker.members(given[1])))
        case "Ended", []:
            return Ended()
        case "Raised", [trace, public, at]:
            return Raised(unpacker.said(trace), unpacker.said(public), unpacker.said(at))
        case "Closed", [trace]:
            return Closed(unpacker.said(trace))
        case _:
            raise ValueError("the kind of the frame is unknown")


class _Packer:
    """The pieces of one frame, and their names in its head."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0

    def change(self, value: object) -> list[Any]:
        """Return the JSON of a change: its name, and its fields without those that have their default."""
        for name, kind in _CHANGES.items():
            if isinstance(value, kind):
                given = {each.name: (getattr(value, each.name), each.default) for each in fields(kind)}
                return [
                    name,
                    {field: self.field(field, one) for field, (one, usual) in given.items() if one is not usual},
                ]
        raise TypeError(f"run must yield changes, not {type(value).__name__}")

    def field(self, name: str, value: Any) -> Any:
        """Return the JSON of a field of a change."""
        if name in _JSON:
            # As the executor converts it for an agent in its event loop.
            return None if value is None else self.json(plain(value))
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (bytes, bytearray)):
            return self._piece("bytes", bytes(value))
        if isinstance(value, (port.Message, port.Part)):
            return self._piece(type(value).__name__, value.SerializeToString())
        if name in ("parts", "extensions"):
            return [self.field("", each) for each in value]
        if value is None or (isinstance(value, (bool, int, float)) and name not in ("message", "reason")):
            return value
        what = (
            "a message must be text or a Message" if name in ("message", "reason") else f"{name} is not a valid value"
        )
        raise TypeError(f"{what}, not {type(value).__name__}")

    def text(self, value: str) -> Any:
        """Return the JSON of a text. Half a surrogate pair is kept: the executor decides about it."""
        if len(value) > MAX_FRAME:
            raise _too_large(len(value))
        return value if len(value) <= _SHORT else self._piece("text", value.encode("utf-8", "surrogatepass"))

    def json(self, value: Any) -> Any:
        """Return the form of a JSON value. ValueError: the value is not JSON."""
        try:
            text = json.dumps(value, ensure_ascii=False)
        except TypeError as error:
            raise ValueError(f"invalid JSON: {error}") from error
        return self._piece("json", text.encode("utf-8", "surrogatepass"))

    def _piece(self, kind: str, content: bytes) -> dict[str, int]:
        self.pieces.append(content)
        self.size += len(content)
        if self.size > MAX_FRAME:
            raise _too_large(self.size)
        return {kind: len(self.pieces) - 1}


class _Unpacker:
    """The pieces of a frame. Each is taken once, so that a short head makes no more of them than there is."""

    def __init__(self, body: bytes, start: int, lengths: list[int]) -> None:
        self._pieces: dict[int, bytes] = {}
        for number, length in enumerate(lengths):
            if not 0 <= length <= len(body) - start:
                raise ValueError("a piece goes beyond its frame")
            self._pieces[number] = body[start : start + length]
            start += length
        if start != len(body):
            raise ValueError("a frame goes on after its pieces")

    def value(self, given: Any) -> Any:
        """Return the value that something in the head stands for."""
        if isinstance(given, list):
            return [self.value(each) for each in given]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(given, dict):
            return given
        ((kind, number),) = given.items()  # pyright: ignore[reportUnknownVariableType]
        return _PIECES[kind](self._pieces.pop(number))  # pyright: ignore[reportUnknownArgumentType]

    def members(self, given: Any) -> dict[str, Any]:
        """Return the values of an object in the head."""
        return {name: self.value(value) for name, value in given.items()}

    def said(self, given: Any) -> str:
        """Return a text."""
        text = self.value(given)
        if not isinstance(text, str):
            raise TypeError("invalid UTF-8")
        return text


def _end(trace: str) -> str:
    return trace[-_LONGEST_TRACE:]


def _too_large(size: int) -> ValueError:
    return ValueError(f"a change of {size:,} bytes cannot be sent to the executor, which accepts at most {MAX_FRAME:,}")
