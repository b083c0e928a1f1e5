"""Documents as they are stored: each message has an id and the time at which it first came. Pure."""

import hashlib
from collections import Counter
from collections.abc import Iterator

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times
from taskplane.tasks.domain.messages import is_partial


def stored_document(task: a2a.Task, before: a2a.Task | None, now: int) -> a2a.Task:
    """Copy a document as it is stored, in place of `before`, at `now` (microseconds).

    It has no partial messages in its history, and a time of its status. A message without an id gets one that depends
    on the document and the message only, so that it is the same when the document is written again.
    """
    document = a2a.Task()
    document.CopyFrom(task)
    if any(is_partial(message) for message in document.history):
        kept = [message for message in document.history if not is_partial(message)]
        del document.history[:]
        document.history.extend(kept)
    if not document.status.HasField("timestamp"):
        document.status.timestamp.FromMicroseconds(now)
    for message in _messages(document):
        if message_times.KEY in message.metadata.fields:
            del message.metadata.fields[message_times.KEY]
    _add_ids(document)
    times = {message.message_id: message for message in _messages(before)} if before is not None else {}
    for message in _messages(document):
        known = times.get(message.message_id)
        if known is not None and message_times.KEY in known.metadata.fields:
            message.metadata.fields[message_times.KEY].CopyFrom(known.metadata.fields[message_times.KEY])
        message_times.add_time(message.metadata, now)
    return document


def _messages(task: a2a.Task) -> Iterator[a2a.Message]:
    yield from task.history
    if task.status.HasField("message"):
        yield task.status.message


def _add_ids(document: a2a.Task) -> None:
    """Add the ids that are missing. A message of the status that repeats the last of the history is the same one."""
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


def _digest(document: a2a.Task, message: a2a.Message) -> bytes:
    content = message.SerializeToString(deterministic=True)
    return hashlib.sha256(document.id.encode() + b"\0" + content).digest()


def _id(digest: bytes, repetition: int) -> str:
    return hashlib.sha256(digest + str(repetition).encode()).hexdigest()[:32]
