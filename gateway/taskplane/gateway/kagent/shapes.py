"""The JSON of tasks, messages and sessions under /api, in A2A 0.3 shapes, and the flattening of tasks to a
conversation."""

from collections.abc import Iterable
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as sb
from taskplane.gateway.coordination.shown_messages import shown_messages
from taskplane.gateway.translate.timestamps import to_text
from taskplane.gateway.translate.v0_3 import V0_3


def flatten(tasks: Iterable[a2a.Task], seen: set[str] | None = None) -> list[a2a.Message]:
    """Return the messages of tasks as one conversation, oldest first. Of messages with the same id the first one is
    kept.

    `seen` contains the ids of earlier messages; the ids of these are added.
    """
    seen = set() if seen is None else seen
    messages: list[a2a.Message] = []
    for task in tasks:
        for message in shown_messages(task):
            if message.message_id:
                if message.message_id in seen:
                    continue
                seen.add(message.message_id)
            messages.append(message)
    return messages


def task_json(task: a2a.Task, cursor: str = "") -> dict[str, Any]:
    """Return the JSON of a task, with its status message as the last entry of its history, and with its cursor; the
    session task has none."""
    found = V0_3.task(task, 0, cursor)
    found["history"] = [V0_3.message(message) for message in shown_messages(task)]
    return found


def agent_id(reference: str) -> str:
    """Return the identifier that kagent derives from an agent reference."""
    return reference.replace("-", "_").replace("/", "__NS__")


def session_json(session: sb.Session) -> dict[str, Any]:
    """Return the JSON of a session in kagent's shape."""
    return {
        "id": session.context_id,
        "name": session.title,
        "user_id": session.owner,
        "agent_id": agent_id(session.agent),
        "source": session.source,
        "created_at": to_text(session.created_at),
        "updated_at": to_text(session.updated_at),
    }


def event_json(session: sb.Session, entry: sb.Entry, data: str) -> dict[str, Any]:
    """Return the JSON of a runtime's event. Events never change, so both times are the same."""
    created_at = to_text(entry.created_at)
    return {
        "id": entry.id,
        "session_id": session.context_id,
        "user_id": session.owner,
        "created_at": created_at,
        "updated_at": created_at,
        "data": data,
    }
