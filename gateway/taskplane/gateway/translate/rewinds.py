"""Message metadata about the session and the task: the turn before which the session is rewound, and the version or
generation that they must have."""

from typing import Any, Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import REWIND_BEFORE
from taskplane.gateway.translate.fields import Fields
from taskplane.runtime.json_values import to_json
from taskplane.runtime.validation import broken_id_rule

_MAX_DIGITS: Final = 18
_WRONG_VERSION: Final = "must be a positive whole number"


def is_rewind(message: a2a.Message) -> bool:
    """Return whether a message is a rewind; one needs no id and no parts. Null and an empty text ask for none."""
    if not message.HasField("metadata"):
        return False
    fields = message.metadata.fields
    return REWIND_BEFORE in fields and to_json(fields[REWIND_BEFORE]) not in (None, "")


def broken_rewind_rule(message: a2a.Message) -> str:
    """Return the rule that the turn of a rewind breaks; "" if it breaks none. A value that names no turn is wrong,
    since the message must not become an ordinary turn."""
    value = to_json(message.metadata.fields[REWIND_BEFORE])
    return broken_id_rule(value) if isinstance(value, str) else "must be a string"


def expected(message: a2a.Message, key: str) -> int:
    """Return the version of the session or the generation of the task that a message, which has metadata, expects under
    a key; 0: any, or one that breaks the rule."""
    fields = message.metadata.fields
    return _version(to_json(fields[key])) if key in fields else 0


def broken_number_rule(message: a2a.Message, key: str) -> str:
    """Return the rule that the number under a key in the metadata of a message, which has some, breaks; "" if it breaks
    none."""
    fields = message.metadata.fields
    if key not in fields or fields[key].WhichOneof("kind") == "null_value":
        return ""
    return "" if expected(message, key) else _WRONG_VERSION


def read_version(source: Fields, name: str) -> int:
    """Read a version: a positive whole number, also as a string of digits; 0 if the field is absent."""
    value = source.source.get(name)
    if value is None:
        return 0
    if not (version := _version(value)):
        source.wrong(name, _WRONG_VERSION)
    return version


def _version(value: Any) -> int:
    """Return the version that a JSON value is; 0 if it is none."""
    if type(value) is str:
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else None
    elif type(value) is float:
        value = int(value) if value.is_integer() else None
    return value if type(value) is int and 0 < value < 10**_MAX_DIGITS else 0
