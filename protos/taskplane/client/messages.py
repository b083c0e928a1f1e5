"""Messages of a user as A2A 1.0 JSON."""

import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from taskplane.api.message_metadata import REWIND_BEFORE
from taskplane.client.failures import BadUsage

_LONGEST_KEY: Final = 255


def user_message(
    text: str,
    *,
    session: str = "",
    task: str = "",
    reference_task_ids: Sequence[str] = (),
    message_id: str = "",
) -> dict[str, Any]:
    """Return a user's message, with a random id unless `message_id` is given.

    `session`: the context id of the conversation; empty: a new one. `task`: the id of the task that waits for this
    answer; empty: a new task. `reference_task_ids`: earlier tasks that the message refers to.
    """
    message: dict[str, Any] = {
        "messageId": message_id or secrets.token_hex(16),
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    if session:
        message["contextId"] = session
    if task:
        message["taskId"] = task
    if reference_task_ids:
        message["referenceTaskIds"] = list(reference_task_ids)
    return message


def rewind_message(
    session: str, before: str, text: str = "", *, reference_task_ids: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a message that cuts the turn `before` and all later turns. A non-empty `text` becomes the next turn."""
    message = user_message(text, session=session, reference_task_ids=reference_task_ids if text else ())
    return {**message, "metadata": {REWIND_BEFORE: before}}


def as_message(given: str | Mapping[str, Any], session: str, task: str, key: str) -> Mapping[str, Any]:
    """Return a text as a message to a session and a task, or a message as it is.

    The message id of a text is computed from the key. So a later program with the same key sends the same message.
    Raise BadUsage: `BAD_KEY` if the key is not printable ASCII, is longer than 255 characters, or has spaces at its
    ends; `BAD_MESSAGE` if `session` or `task` comes with a whole message.
    """
    if not (key.isascii() and key.isprintable() and key == key.strip() and len(key) <= _LONGEST_KEY):
        raise BadUsage(
            f"The key must have at most {_LONGEST_KEY} printable ASCII characters, without spaces at its ends.",
            reason="BAD_KEY",
        )
    if isinstance(given, str):
        return user_message(given, session=session, task=task, message_id=sha256(key.encode()).hexdigest()[:32])
    if session or task:
        raise BadUsage("A message names its session and task itself: contextId, taskId.", reason="BAD_MESSAGE")
    return given
