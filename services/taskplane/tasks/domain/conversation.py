"""What the tasks of a session say, as one conversation. Pure."""

from collections.abc import Sequence, Set

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.domain.messages import manner


def spoken(task: a2a.Task) -> list[a2a.Message]:
    """The messages of a task: its history, then the message of its status unless that one is still growing, is a status
    text, or stands in the history."""
    messages = list(task.history)
    if _is_last(task.status, [message.message_id for message in messages]):
        messages.append(task.status.message)
    return messages


def ids_spoken(task: a2a.Task | pb.TaskOutline) -> Sequence[str]:
    """The ids of the messages that are `spoken`."""
    ids = [message.message_id for message in task.history]
    if _is_last(task.status, ids):
        ids.append(task.status.message.message_id)
    return ids


def _is_last(status: a2a.TaskStatus, history: Sequence[str]) -> bool:
    """Whether the message of the status, if there is one, follows the history with these ids."""
    if not status.HasField("message") or any(manner(status.message)):
        return False
    message_id = status.message.message_id
    return not message_id or message_id not in history


def once(said: Sequence[Sequence[str]], without: Set[str]) -> list[tuple[int, int]]:
    """Where the messages of a conversation are: which of the tasks says each, and at which place.

    `said` has the ids of the messages of each task, in order. Of messages with one id the first one counts, and none
    with an id in `without`; those that have no id all count.
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
