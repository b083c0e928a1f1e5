"""Frames that the process of an agent sends to the executor. Frames are data: reading one runs no code of the agent.

A frame has the length of the rest, the length of the head, the head as JSON, and pieces: long texts, messages, JSON
and bytes. The head is `[kind, fields, lengths of the pieces]` and refers to a piece by its index.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, get_args

from taskplane.agents import agent as port
from taskplane.agents.faults import AgentProcessGarbled
from taskplane.runtime.plain_json import plain

MAX_FRAME: Final = 8 * 1024 * 1024
"""The maximum size of a frame in bytes. A message or a value has at most 3 MiB. A JSON value is longer in a frame,
because of its escapes."""
_LENGTH: Final = 4
# A text of at most this number of characters is part of the head.
_SHORT: Final = 256
# The maximum number of characters of a traceback.
_LONGEST_TRACE: Final = 64 * 1024
# The maximum number of characters of a text for clients.
_LONGEST_TEXT: Final = 4 * 1024
# Fields with these names contain a JSON value, whatever the kind of the change.
_JSON: Final = frozenset({"data", "args", "response", "metadata", "figures"})
_CHANGES: Final[Mapping[str, Any]] = {each.__name__: each for each in get_args(port.Change)}
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
"""The methods of `TurnCalls`, with the JSON types of their arguments."""


@dataclass(frozen=True, slots=True)
class Call:
    """The agent calls the method `method` of TurnCalls. `number` counts the calls of a run."""

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
    """The agent raised. `trace` and `at` (file and line) are for the author of the agent. `public` is the text of an
    AgentError, for clients."""

    trace: str
    public: str
    at: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The run is closed, and the process is free for the next run. `trace`: the traceback if the agent raised while it
    was being closed."""

    trace: str = ""


Report = Call | Yielded | Ended | Raised | Closed


def framed(report: Report) -> bytes:
    """Return the bytes of a frame.

    ValueError: the frame is larger than MAX_FRAME, or an argument of a call is not JSON. TypeError: the value is not a
    change, or one of its fields has a wrong type.
    """
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
    """Return the next frame; None if the peer has closed the socket. AgentProcessGarbled: the bytes are not a valid
    frame."""
    try:
        size = int.from_bytes(await reader.readexactly(_LENGTH))
        if size > MAX_FRAME:
            raise AgentProcessGarbled(f"a frame of {size:,} bytes, more than the {MAX_FRAME:,} allowed")
        body = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        return _read(body)
    except Exception as error:  # invalid bytes may raise anything
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
            return Raised(unpacker.text(trace), unpacker.text(public), unpacker.text(at))
        case "Closed", [trace]:
            return Closed(unpacker.text(trace))
        case _:
            raise ValueError("the kind of the frame is unknown")


class _Packer:
    """Collects the pieces of one frame, and returns references to the pieces for the head."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0

    def change(self, value: object) -> list[Any]:
        """Return the JSON of a change: its name, and the fields that differ from their default."""
        for name, kind in _CHANGES.items():
            if isinstance(value, kind):
                values = {each.name: (getattr(value, each.name), each.default) for each in fields(kind)}
                return [
                    name,
                    {field: self.field(field, one) for field, (one, default) in values.items() if one is not default},
                ]
        raise TypeError(f"run must yield changes, not {type(value).__name__}")

    def field(self, name: str, value: Any) -> Any:
        """Return the JSON of a field of a change."""
        if name in _JSON:
            # The executor converts values of agents in its event loop in the same way.
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
        """Return the JSON of a text. Half a surrogate pair is kept, since the executor decides about it."""
        if len(value) > MAX_FRAME:
            raise _too_large(len(value))  # each character is at least a byte
        return value if len(value) <= _SHORT else self._piece("text", value.encode("utf-8", "surrogatepass"))

    def json(self, value: Any) -> Any:
        """Store a JSON value as a piece, and return its reference. ValueError: the value is not JSON."""
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
    """The pieces of a frame. Each piece can be read only once: a small head that refers to one large piece many times
    would fill the memory."""

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
        """Return the value of an element of the head: itself, or the piece that it refers to."""
        if isinstance(given, list):
            return [self.value(each) for each in given]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(given, dict):
            return given
        ((kind, number),) = given.items()  # pyright: ignore[reportUnknownVariableType]
        return _PIECES[kind](self._pieces.pop(number))  # pyright: ignore[reportUnknownArgumentType]

    def members(self, given: Any) -> dict[str, Any]:
        """Return the values of an object in the head."""
        return {name: self.value(value) for name, value in given.items()}

    def text(self, given: Any) -> str:
        """Return the value of an element of the head that must be a text. TypeError: it is not a text."""
        text = self.value(given)
        if not isinstance(text, str):
            raise TypeError("a text is expected")
        return text


def _end(trace: str) -> str:
    return trace[-_LONGEST_TRACE:]


def _too_large(size: int) -> ValueError:
    """Return the error for a frame; `size` may be the size of a part of it that is too large already."""
    return ValueError(
        f"a frame of {size:,} bytes or more cannot be sent to the executor, which accepts at most {MAX_FRAME:,}"
    )
