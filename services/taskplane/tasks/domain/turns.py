"""The turns of a task and their messages, which its session removes when the task is deleted. No I/O."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.message_content import digests, words_of
from taskplane.runtime.titles import MOST_OPENING
from taskplane.tasks.domain.documents import messages_in, turns_in, turns_of
from taskplane.tasks.domain.messages import named_turn

_MOST_OPENINGS: Final = 100


class TurnsOfTask(NamedTuple):
    """The turns of a task in order, the digests of the id and of the content of each message, and the beginning of the
    messages of its users."""

    turns: Sequence[str]
    message_ids: Sequence[int]
    contents: Sequence[int]
    openings: Sequence[str]


def of_managed(task: a2a.Task, begun: Iterable[str]) -> TurnsOfTask:
    """Return the turns of a task run here.

    `begun`: the turns that its log still names, in order. A trimmed log does not name all turns, but each message names
    its turn.
    """
    said = messages_in(task)
    named = (named_turn(message) for message in said)
    return _turns([*begun, *(turn for turn in named if turn)], said)


def of_document(document: a2a.Task, had: str | None, others: Iterable[tuple[a2a.Task, str | None]]) -> TurnsOfTask:
    """Return the turns of a document that no other document of its session names, and their messages.

    `had`: the turn of a document without turn ids. `others`: the other documents, each with its `had`.
    """
    turns: set[str] = set()
    ids: set[str] = set()
    for other, other_had in others:
        turns.update(turns_in(other, other_had))
        ids.update(message.message_id for message in messages_in(other))
    said = [
        message
        for message, turn in zip(messages_in(document), turns_of(document), strict=True)
        if (turn or had) not in turns and message.message_id not in ids
    ]
    return _turns([turn for turn in turns_in(document, had) if turn not in turns], said)


def _turns(turns: Iterable[str], said: Sequence[a2a.Message]) -> TurnsOfTask:
    found = [digests(message) for message in said]
    asked = (words_of(message)[:MOST_OPENING] for message in said if message.role == a2a.ROLE_USER)
    openings = list(islice(filter(None, asked), _MOST_OPENINGS))
    return TurnsOfTask(list(dict.fromkeys(turns)), [one for one, _ in found], [one for _, one in found], openings)
