"""Converts the documents of document tasks. In a stored document each message has an id and the time of its first
arrival. A shown document has no messages of cut turns. No I/O."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times
from taskplane.runtime.message_ids import Content, digest, given, settled
from taskplane.tasks.domain.messages import is_partial, message_flags, named_turn, turn_of
from taskplane.tasks.domain.task import Row


def stored_document(
    task: a2a.Task, before: a2a.Task | None, now: int, known: Mapping[str, Content] | None = None
) -> a2a.Task:
    """Return the copy of a document to store in place of `before`, at `now` (microseconds).

    The copy has no partial messages in its history. Its status has a time. Messages without an id, or with the id of
    another message in the document or session, get a new id. The id is computed from document and message, so a
    repeated write gives the same id. `known`: messages of the session, by id.
    """
    document = a2a.Task()
    document.CopyFrom(task)
    if any(is_partial(message) for message in document.history):
        kept = [message for message in document.history if not is_partial(message)]
        del document.history[:]
        document.history.extend(kept)
    if not document.status.HasField("timestamp"):
        document.status.timestamp.FromMicroseconds(now)
    for message in messages_in(document):
        if message_times.KEY in message.metadata.fields:
            del message.metadata.fields[message_times.KEY]
    _add_ids(document)
    _settle_ids(document, before, known or {})
    times = {message.message_id: message for message in messages_in(before)} if before is not None else {}
    for message in messages_in(document):
        first = times.get(message.message_id)
        if first is not None and message_times.KEY in first.metadata.fields:
            message.metadata.fields[message_times.KEY].CopyFrom(first.metadata.fields[message_times.KEY])
        message_times.add_time(message.metadata, now)
    return document


def turns_in(document: a2a.Task, had: str | None = None) -> Sequence[str]:
    """Return the turns of a document's messages, in order, each once. A document without messages has the turn in its
    metadata.

    `had`: the turn to return if neither the messages nor the document name one.
    """
    turns = [turn for turn in dict.fromkeys(turns_of(document)) if turn]
    named = turn_of(document) or had
    return turns or ([] if named is None else [named])


def goes_on_in(row: Row, before: a2a.Task | None, document: a2a.Task) -> str | None:
    """Return the turn that a document without turn ids continues; None if it begins a turn.

    A superseded document with a new message of the user begins a new turn.
    """
    if before is None or not row.superseded or document.context_id != row.context_id:
        return row.invocation_id
    known = {message.message_id for message in before.history}
    begins = any(one.role == a2a.ROLE_USER and one.message_id not in known for one in document.history)
    return None if begins else row.invocation_id


class Compared(NamedTuple):
    """The turn and the time of each compared message, in order. `reduced`: turns with messages in the documents beyond
    the compared ones.

    The turn is "" if no document names a turn for the message; the time is "" if no document has a message with this
    content.
    """

    messages: Sequence[tuple[str, str]]
    reduced: Sequence[str]


def compare(messages: Sequence[a2a.Message], documents: Iterable[tuple[a2a.Task, str | None]]) -> Compared:
    """Compare messages with the messages of documents. Each document comes with a turn for messages without turn
    ids."""
    found: dict[str, tuple[str, str]] = dict.fromkeys((one.message_id for one in messages), ("", ""))
    given = {one.message_id: one for one in messages}
    reduced: set[str] = set()
    for document, had in documents:
        for at, (said, turn) in enumerate(zip(messages_in(document), turns_of(document), strict=True)):
            if at == len(document.history) and any(message_flags(said)):
                continue
            turn = turn or had or ""
            if said.message_id not in given:
                reduced.add(turn)
                continue
            before = found[said.message_id]
            time = message_times.time_in(given[said.message_id], said)
            found[said.message_id] = (before[0] or turn, before[1] or time)
    return Compared([found[one.message_id] for one in messages], sorted(reduced - {""}))


def said_under(task: a2a.Task, ids: Set[str], turn: str | None) -> dict[str, Content]:
    """Return digest and turn of the task's messages with these ids, without partial messages and status texts. `turn`:
    the turn of a task without turn ids."""
    found: dict[str, Content] = {}
    for message, named in zip(messages_in(task), turns_of(task), strict=True):
        if message.message_id in ids and not any(message_flags(message)):
            found[message.message_id] = Content(digest(message), named or turn or "")
    return found


def pack_turns(turns: Iterable[str]) -> str | None:
    """Return the value of turns in a row; None if there are no turns."""
    ordered = sorted(turns)
    return json.dumps(ordered) if ordered else None


def unpack_turns(packed: str | None) -> frozenset[str]:
    """Return the turns that `pack_turns` was given."""
    return frozenset(json.loads(packed)) if packed else frozenset()


def shown_document(document: a2a.Task, cut: Set[str]) -> a2a.Task:
    """Return a document without the messages of turns that are `cut`, and without artifacts of these turns.

    Its state is not changed.
    """
    turns = turns_of(document)
    shown = a2a.Task()
    shown.CopyFrom(document)
    del shown.history[:]
    shown.history.extend([message for message, turn in zip(document.history, turns, strict=False) if turn not in cut])
    if shown.status.HasField("message") and turns[-1] in cut:
        shown.status.ClearField("message")
    del shown.artifacts[:]
    shown.artifacts.extend([one for one in document.artifacts if named_turn(one) not in cut])
    return shown


def turns_of(document: a2a.Task) -> Sequence[str]:
    """Return the turns of the messages in the history, then of the status message. All are "" if the document has no
    turn id.

    A message without a turn id belongs to the turn of the message before it. A user message without a turn id belongs
    to the turn of the next message with one, or to the turn of the document.
    """
    said = messages_in(document)
    turns = [named_turn(message) or "" for message in said]
    after = named_turn(document) or ""
    for at in range(len(said) - 1, -1, -1):
        if said[at].role == a2a.ROLE_USER:
            turns[at] = turns[at] or after
        after = turns[at] or after
    before = next((turn for turn in turns if turn), named_turn(document) or "")
    for at, turn in enumerate(turns):
        before = turns[at] = turn or before
    return turns


def messages_in(task: a2a.Task) -> Sequence[a2a.Message]:
    """Return the history of a task and the message of its status."""
    return [*task.history, *([task.status.message] if task.status.HasField("message") else [])]


def _add_ids(document: a2a.Task) -> None:
    """Add the missing ids. A status message equal to the last history message gets the id of that message."""
    seen: Counter[bytes] = Counter()
    digest, message_id = b"", ""
    for message in document.history:
        if not message.message_id:
            digest = _digest(document, message)
            message_id = message.message_id = _id(digest, seen[digest])
            seen[digest] += 1
        else:
            digest = b""
    if document.status.HasField("message") and not document.status.message.message_id:
        last = _digest(document, document.status.message)
        document.status.message.message_id = message_id if last == digest else _id(last, seen[last])


def _settle_ids(document: a2a.Task, before: a2a.Task | None, known: Mapping[str, Content]) -> None:
    """Give a new id to each message with the id of another message. Leave out earlier pieces of growing messages and
    repeats."""
    ids = [message.message_id for message in messages_in(document)]
    had = {message.message_id for message in messages_in(before)} if before is not None else set[str]()
    if len(set(ids)) == len(ids) and known.keys().isdisjoint(ids) and (before is None or had.issuperset(ids)):
        return
    said = [
        given(message, turn, is_user=message.role == a2a.ROLE_USER)
        for message, turn in zip(messages_in(document), turns_of(document), strict=True)
    ]
    # The status message may repeat a history message, or be partial or a status text.
    last = said.pop() if len(said) > len(document.history) else None
    again = -1
    if last is not None:
        same = (last.message_id, last.content.digest)
        again = next((at for at, one in enumerate(said) if (one.message_id, one.content.digest) == same), -1)
        if again < 0 and not any(message_flags(document.status.message)):
            said.append(last)
    kept: list[a2a.Message] = []
    for at, message_id in settled(said, document.id, known, had):
        if at == len(document.history):
            document.status.message.message_id = message_id
        else:
            document.history[at].message_id = message_id
            kept.append(document.history[at])
    if again >= 0:
        document.status.message.message_id = document.history[again].message_id
    if len(kept) < len(document.history):
        # Copy the kept messages before the history is cleared.
        history = a2a.Task(history=kept).history
        del document.history[:]
        document.history.extend(history)


def _digest(document: a2a.Task, message: a2a.Message) -> bytes:
    content = message.SerializeToString(deterministic=True)
    return hashlib.sha256(document.id.encode() + b"\0" + content).digest()


def _id(digest: bytes, repetition: int) -> str:
    return hashlib.sha256(digest + str(repetition).encode()).hexdigest()[:32]
