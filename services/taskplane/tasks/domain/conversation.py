"""The messages of a session's tasks as one conversation. No I/O."""

from collections.abc import Iterable, Sequence, Set
from typing import Final, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.messages import message_flags

SHOWN: Final = -1
"""In place of the index of a task: the message is shown already."""


class _HasId(Protocol):
    @property
    def message_id(self) -> str: ...


class HasMessages(Protocol):
    """A task for reading the ids of its messages: an A2A Task, or a task that was read without the content of its
    messages."""

    @property
    def history(self) -> Iterable[_HasId]: ...

    @property
    def status(self) -> a2a.TaskStatus: ...


def messages_of(task: a2a.Task) -> list[a2a.Message]:
    """Return the messages of a task: its history, then the message of its status.

    The latter is left out while it is still growing, if it is a status text, or if it stands in the history.
    """
    messages = list(task.history)
    if _is_last(task.status, [message.message_id for message in messages]):
        messages.append(task.status.message)
    return messages


def message_ids(task: HasMessages) -> Sequence[str]:
    """Return the ids of `messages_of` the task."""
    ids = [message.message_id for message in task.history]
    if _is_last(task.status, ids):
        ids.append(task.status.message.message_id)
    return ids


def _is_last(status: a2a.TaskStatus, history: Sequence[str]) -> bool:
    """Return whether the message of the status, if there is one, follows the history with these ids."""
    if not status.HasField("message") or any(message_flags(status.message)):
        return False
    message_id = status.message.message_id
    return not message_id or message_id not in history


def without_repeats(said: Sequence[Sequence[str]], without: Set[str]) -> list[tuple[int, int]]:
    """Return the messages of a conversation, each by the index of its task and its index there.

    `said` has the ids of the messages of each task, in order. Of several messages with one id only the first is
    returned. Messages with an id in `without` are left out; all messages without an id are returned.
    """
    all_ids = [message_id for ids in said for message_id in ids]
    seen = set(all_ids)
    if len(seen) == len(all_ids) and "" not in seen and seen.isdisjoint(without):
        # As a rule nothing repeats, and conversations are long.
        return [(task, place) for task, ids in enumerate(said) for place in range(len(ids))]
    seen = set(without)
    places: list[tuple[int, int]] = []
    for task, ids in enumerate(said):
        for place, message_id in enumerate(ids):
            if message_id not in seen:
                places.append((task, place))
                if message_id:
                    seen.add(message_id)
    return places


def between(places: Sequence[tuple[int, int]], ends: Sequence[int], shown: int) -> list[tuple[int, int]]:
    """Return the messages of a conversation.

    The messages in `shown` are known already, and returned as (`SHOWN`, index); `places` are the others. The messages
    of a task come after the first `ends[task]` shown messages; tasks with equal `ends` keep the order of `places`.
    """
    conversation: list[tuple[int, int]] = []
    at = 0
    for unit in sorted(places, key=lambda place: ends[place[0]]):
        end = ends[unit[0]]
        conversation += [(SHOWN, index) for index in range(at, end)]
        at = max(at, end)
        conversation.append(unit)
    return conversation + [(SHOWN, index) for index in range(at, shown)]
