"""Reads a user's yes or no to a tool call."""

from collections.abc import Mapping
from typing import Any, Final

from taskplane.agents.agent import Message, Turn


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


_YES: Final = _words("y yes ok okay true confirm confirmed approve approved accept accepted allow allowed")
_NO: Final = _words("n no false deny denied reject rejected decline declined cancel disallow disallowed")
# `_ANSWERS`: members whose value is the answer. `_DENIALS`: members whose true value is a denial.
_ANSWERS: Final = _words("confirmed confirm approved approve accepted accept allowed allow decision answer type result")
_DENIALS: Final = _words("denied deny rejected reject declined decline")
# Other allowed members of an answer. They do not decide.
_BESIDE: Final = _words("id name payload hint reason message comment feedback")
_REASONS: Final = ("reason", "message", "comment", "feedback")


def decision(given: object) -> bool | None:
    """Return True if an answer approves a call, False if the answer denies it, None if the answer is unclear.

    Clear answers: a boolean; one known word in any case, also with "." or "!"; an object with known members only, if
    their answers agree. A text of several words is unclear: the user may allow only a part.
    """
    if isinstance(given, bool | str):
        return _plain(given)
    found = members(given)
    if any(name not in _ANSWERS and name not in _DENIALS and name not in _BESIDE for name in found):
        return None
    answers = {_plain(found[name]) for name in found if name in _ANSWERS}
    answers |= {_opposite(_plain(found[name])) for name in found if name in _DENIALS}
    return answers.pop() if len(answers) == 1 else None


def reason(given: object) -> str:
    """Return the reason that an answer gives beside its decision; empty if it gives none."""
    found = members(given)
    return next((str(found[name]) for name in _REASONS if isinstance(found.get(name), str)), "")


def members(given: object) -> dict[Any, Any]:
    """Return the members of an object of JSON; {} for anything else."""
    return dict(given) if isinstance(given, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def last_question(turn: Turn) -> Message | None:
    """Return a copy, without id, of the newest message of the other side; None if there is none."""
    for message in reversed(turn.history if turn.task is None else turn.task.history):
        if message.role != turn.message.role:
            copy = Message()
            copy.CopyFrom(message)
            copy.ClearField("message_id")
            return copy
    return None


def _plain(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    word = value.strip().strip(".!").casefold() if isinstance(value, str) else ""
    return True if word in _YES else False if word in _NO else None


def _opposite(value: bool | None) -> bool | None:
    return None if value is None else not value
