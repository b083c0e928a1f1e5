"""Errors of agents with a text for the user; `agent` has them, too."""

from collections.abc import Sequence

from taskplane.api.a2a.v1.a2a_pb2 import Part


class AgentError(Exception):
    """A failure with a text for the user. The text of any other exception goes to the log only."""


class NoContent(AgentError, ValueError):
    """A message or an artifact without parts, or a part without content: no client could read it."""


def check_parts(what: str, parts: Sequence[Part]) -> None:
    """Raise NoContent with the name `what` if there are no parts or a part has no content.

    An empty text counts as content.
    """
    if not parts:
        raise NoContent(f"The agent gave {what} without parts; at least one is required.")
    for number, part in enumerate(parts, 1):
        if part.WhichOneof("content") is None:
            raise NoContent(f"The agent gave {what}; its part {number} has no text, data, raw bytes or URL.")
