"""Requests of an isolation matrix: templates with names of ids in braces, unknown ids, and values made by servers."""

import random
import re
import string
from collections.abc import Mapping
from typing import Any, Final

NAMES: Final = re.compile(r"\{(\w+)\}")
MADE: Final = re.compile(
    r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|\b[a-z2-7]{8,32}-\d+\b"
    r'|(?<="incarnation": ")\w+'
)
"""Ids, times and cursors that a server makes, which no two answers share."""

_NUMBER: Final = re.compile(r"-\d+$")


def filled(template: Any, named: Mapping[str, str]) -> Any:
    """A template with ids in place of their names; names without an id stay."""
    if isinstance(template, str):
        return NAMES.sub(lambda found: named.get(found[1], found[0]), template)
    if isinstance(template, Mapping):
        members: Mapping[str, Any] = template  # pyright: ignore[reportUnknownVariableType]
        return {key: filled(value, named) for key, value in members.items()}
    if isinstance(template, list):
        values: list[Any] = template  # pyright: ignore[reportUnknownVariableType]
        return [filled(value, named) for value in values]
    return template


def unknown(value: str) -> str:
    """A value of the same form that no object has."""
    number = _NUMBER.search(value)
    head, tail = (value[: number.start()], number.group()) if number else (value, "")
    digits = "abcdef0123456789" if set(head) <= set(string.hexdigits) else string.ascii_lowercase
    return "".join(random.choice(digits) if each.isalnum() else each for each in head) + tail


def unnamed(text: str, named: Mapping[str, str]) -> str:
    """A text with the names of ids in place of ids, and a mark in place of values made by the server."""
    for name, value in named.items():
        text = text.replace(value, f"<{name}>")
    return MADE.sub("<made>", text)
