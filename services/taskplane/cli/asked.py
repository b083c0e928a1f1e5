"""The actions that data of a question asks for, in the shapes that frameworks give them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from taskplane.client.events import read_object, read_objects

_NAMES: Final = ("action", "name", "tool", "tool_name")
_ARGUMENTS: Final = ("args", "arguments", "parameters", "input")
_WORDS: Final = ("description", "question", "message", "prompt", "instruction", "hint")


@dataclass(frozen=True, slots=True)
class Action:
    """An action that waits for the user. `name` and `words` may be empty; `args` is None without arguments."""

    name: str
    words: str
    args: Any


def asked_in(data: Any) -> Iterator[Action]:
    """Yield the actions that the data asks for, if any."""
    outer = read_object(data) or {}
    alone = [outer] if "action_request" in outer else None
    # A2A 0.3 has a list as the `value` of an object.
    for given in (outer.get("action_requests"), outer.get("calls"), alone, data, outer.get("value"), [outer]):
        if found := read_objects(given):
            yield from (action for action in map(_action, found) if action.name or action.words)
            return


def _action(item: Mapping[str, Any]) -> Action:
    inner = read_object(item.get("action_request")) or {}
    confirmed = read_object((read_object(item.get("args")) or {}).get("originalFunctionCall")) or {}
    members = {**item, **inner, **confirmed}
    return Action(
        _text(members, _NAMES),
        _text(members, _WORDS),
        next((members[key] for key in _ARGUMENTS if key in members), None),
    )


def _text(members: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((cast("str", members[key]) for key in keys if isinstance(members.get(key), str) and members[key]), "")
