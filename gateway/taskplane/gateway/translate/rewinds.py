"""Message metadata about the session: the turn before which it is rewound, and the version it must have."""

from collections.abc import Mapping
from typing import Any, Final

from taskplane.gateway.translate.fields import Fields
from taskplane.gateway.translate.metadata import EXPECTED_VERSION

REWIND: Final = "kagent_rewind_before_invocation_id"
"""Key in the metadata of a message that rewinds its session; its value names the first turn that is cut."""

_MAX_DIGITS: Final = 18


def is_rewind(message: Fields) -> bool:
    """Return whether the message is a rewind, which needs no id and no parts. Null and an empty text ask for none; any
    other value that names no turn is a violation, since the message must not become an ordinary turn."""
    metadata = _metadata(message)
    if metadata is None or metadata.get(REWIND) in (None, ""):
        return False
    Fields(metadata, message.path("metadata"), message.bad).id(REWIND, required=True)
    return True


def expected_version(message: Fields) -> int:
    """Return the version that the session of the message must have; 0: any."""
    metadata = _metadata(message)
    if metadata is None or EXPECTED_VERSION not in metadata:
        return 0
    return read_version(Fields(metadata, message.path("metadata"), message.bad), EXPECTED_VERSION)


def read_version(source: Fields, name: str) -> int:
    """Read a version: a positive whole number, also as a string of digits; 0 if the field is absent."""
    value = source.source.get(name)
    if value is None:
        return 0
    if type(value) is str:
        value = int(value) if value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS else None
    elif type(value) is float:
        value = int(value) if value.is_integer() else None
    if type(value) is not int or not 0 < value < 10**_MAX_DIGITS:
        source.wrong(name, "must be a positive whole number")
        return 0
    return value


def _metadata(message: Fields) -> Mapping[str, Any] | None:
    found = message.get("metadata")
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]
