"""The lines of an exported session: JSON objects, one a line, the same bytes for the same content.

A header with the session comes first, then every entry, then every task, each followed by its events, and last how many
there were, with the SHA-256 of all lines before. So a file that was cut, however cleverly, is known for one.
"""

import hashlib
import json
from typing import Any, Final, NoReturn, TypeVar, cast

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from taskplane.runtime.errors import Invalid

FORMAT: Final = "taskplane-session"
VERSION: Final = 1
MEDIA_TYPE: Final = "application/x-ndjson"

M = TypeVar("M", bound=Message)


def format_line(kind: str, **members: Any) -> bytes:
    """A line of this kind; messages among the members are written as the JSON of Protocol Buffers."""
    shown = {name: MessageToDict(value) if isinstance(value, Message) else value for name, value in members.items()}
    text = json.dumps({"type": kind, **shown}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def parse_line(number: int, text: bytes) -> dict[str, Any]:
    """The object of line `number`. Invalid `NOT_JSON`."""
    try:
        value: object = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        raise line_error(number, "is not JSON", "NOT_JSON") from None
    if not isinstance(value, dict):
        raise line_error(number, "is not a JSON object", "NOT_JSON")
    return cast("dict[str, Any]", value)


def parse_message(number: int, value: Any, kind: type[M]) -> M:
    """The message that a member of line `number` is. Invalid `BAD_LINE`."""
    try:
        found: M = ParseDict(value, kind())
        # What could be built is not always what could be read again.
        return kind.FromString(found.SerializeToString())
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError):
        raise line_error(number, f"has no {kind.DESCRIPTOR.name} that can be read", "BAD_LINE") from None
    except Exception as error:
        if type(error).__name__ in ("DecodeError", "EncodeError"):
            raise line_error(number, "is nested too deeply", "BAD_LINE") from None
        raise


def line_error(number: int, what: str, reason: str = "IMPORT_MISMATCH") -> Invalid:
    """Why line `number`, from 1, cannot be taken."""
    return Invalid(f"line {number} {what}", reason=reason, metadata={"line": str(number)})


class Tally:
    """Counts the lines, and sums them up."""

    def __init__(self) -> None:
        self.counts = {"entries": 0, "tasks": 0, "events": 0}
        self._sum = hashlib.sha256()

    def add(self, text: bytes, counted: str = "") -> bytes:
        """One more line, with its line feed; it is given back."""
        self._sum.update(text)
        if counted:
            self.counts[counted] += 1
        return text

    def end(self) -> dict[str, Any]:
        """The members of the last line."""
        return {**self.counts, "sha256": self._sum.hexdigest()}


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
