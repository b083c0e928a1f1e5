"""The file format of an exported session: one JSON object a line, with the same bytes for the same content.

A header with the session comes first, then every entry, then every task, each followed by its events. The last line
holds the numbers of entries, tasks and events and the SHA-256 of all lines before it, so that a truncated file is
recognised. The same content can be written as one JSON document, which is not read here.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import orjson
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from taskplane.runtime import json_lines
from taskplane.runtime.errors import Invalid
from taskplane.runtime.message_json import to_dict

FORMAT: Final = "taskplane-session"
VERSION: Final = 1
MEDIA_TYPE: Final = "application/x-ndjson"

M = TypeVar("M", bound=Message)


def format_line(kind: str, **members: Any) -> bytes:
    """Return a line of this type. Protobuf messages among the members are written as ProtoJSON."""
    return _json({"type": kind, **members}) + b"\n"


def parse_line(number: int, text: bytes) -> dict[str, Any]:
    """Return the JSON object of line `number`. Raise Invalid `NOT_JSON`."""
    try:
        value: object = orjson.loads(text)
    except ValueError:
        raise line_error(number, "is not JSON", "NOT_JSON") from None
    if not isinstance(value, dict):
        raise line_error(number, "is not a JSON object", "NOT_JSON")
    return cast("dict[str, Any]", value)


def parse_message(number: int, value: Any, kind: type[M]) -> M:
    """Return a member of line `number` as a protobuf message. Raise Invalid `BAD_LINE`."""
    try:
        found: M = ParseDict(value, kind())
        # A message can be built that is nested too deeply to be parsed again.
        return kind.FromString(found.SerializeToString())
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError):
        raise line_error(number, f"has no valid {kind.DESCRIPTOR.name}", "BAD_LINE") from None
    except Exception as error:
        if type(error).__name__ in ("DecodeError", "EncodeError"):
            raise line_error(number, "is nested too deeply", "BAD_LINE") from None
        raise


def line_error(number: int, what: str, reason: str = "IMPORT_MISMATCH") -> Invalid:
    """Return the error for line `number`, counted from 1."""
    return Invalid(f"line {number} {what}", reason=reason, metadata={"line": str(number)})


class Tally:
    """A running count of the lines and their checksum."""

    def __init__(self) -> None:
        self.counts = {"entries": 0, "tasks": 0, "events": 0}
        self._sum = hashlib.sha256()

    def add(self, text: bytes, counted: str = "") -> bytes:
        """Count one line, given with its line feed, and return it."""
        self._sum.update(text)
        if counted:
            self.counts[counted] += 1
        return text

    def end(self) -> dict[str, Any]:
        """Return the members of the last line."""
        return {**self.counts, "sha256": self._sum.hexdigest()}


class Document:
    """The content of a file as one JSON document, `{format, version, session, entries, tasks}`, where each task has its
    `events`. It is written piece by piece, an entry, a task or an event on each line."""

    # The bytes before an element, by the kind of the one before and its own.
    _BETWEEN: Final = {
        ("session", "entry"): b"",
        ("session", "task"): b'],"tasks":[',
        ("session", "end"): b'],"tasks":[]}',
        ("entry", "entry"): b",",
        ("entry", "task"): b'],"tasks":[',
        ("entry", "end"): b'],"tasks":[]}',
        ("task", "task"): b"]},",
        ("task", "event"): b"",
        ("task", "end"): b"]}]}",
        ("event", "event"): b",",
        ("event", "task"): b"]},",
        ("event", "end"): b"]}]}",
    }

    def __init__(self) -> None:
        self._last = "session"

    def begin(self, session: Message) -> bytes:
        """Return the beginning."""
        return _open({"format": FORMAT, "version": VERSION, "session": session}, "entries")

    def add(self, kind: str, messages: Sequence[Message]) -> bytes:
        """Return some more of it. `kind`: entry, task or event; events are those of the task that was added last."""
        return b"".join([self._next(kind) + self._element(kind, one) for one in messages])

    def end(self) -> bytes:
        """Return the end."""
        return self._next("end") + b"\n"

    def _next(self, kind: str) -> bytes:
        between = self._BETWEEN[self._last, kind]
        self._last = kind
        return between + b"\n"

    def _element(self, kind: str, message: Message) -> bytes:
        found = to_dict(message)
        return _open(found, "events") if kind == "task" else _json(found)


def _open(members: Mapping[str, Any], name: str) -> bytes:
    """Return a JSON object with a list as its last member, up to the beginning of that list."""
    return _json(members)[:-1] + f',"{name}":['.encode()


def _json(members: Mapping[str, Any]) -> bytes:
    shown = {name: to_dict(value) if isinstance(value, Message) else value for name, value in members.items()}
    return json_lines.escape_breaks(
        json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    )
