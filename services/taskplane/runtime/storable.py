"""Replacement of the characters that no database keeps, in texts and JSON."""

import json
import re
from typing import Any, Final

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


def storable(text: str) -> str:
    """Return a text with U+FFFD for characters that no database keeps: U+0000 and unpaired surrogates.

    Models and tools write both.
    """
    if (text.isascii() and "\0" not in text) or _UNSTORABLE.search(text) is None:
        return text
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", _REPLACEMENT)


def storable_json(data: Any) -> Any:
    """Return JSON with texts that are `storable`, keys too."""
    if isinstance(data, str):
        return storable(data)
    if isinstance(data, dict):
        return {storable_json(key): storable_json(value) for key, value in data.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(data, (list, tuple)):
        return [storable_json(value) for value in data]  # pyright: ignore[reportUnknownVariableType]
    return data


def dumped(data: Any) -> str:
    """Return JSON as it is stored, with texts that are `storable`. ValueError, TypeError, RecursionError: not JSON."""
    text = _dumped(data)
    # U+0000 is an escape by now.
    return storable(_dumped(storable_json(data)) if "\\u0000" in text else text)


def _dumped(data: Any) -> str:
    return json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
