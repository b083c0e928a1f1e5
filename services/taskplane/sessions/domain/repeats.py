"""Detection of messages that repeat the id of an earlier message, from a few bytes of each. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.history import Reading
from taskplane.sessions.domain.payload import MESSAGE_TAG

HEAD: Final = 96
"""Bytes at the beginning of a stored payload that have, as a rule, the id of its message in them."""

_ID: Final = a2a.Message.MESSAGE_ID_FIELD_NUMBER << 3 | 2
_MORE: Final = 0x80
_NOTHING: Final = (0, 0, b"")


def id_in(head: bytes) -> bytes | None:
    """Return the message id at the beginning of a stored payload, as UTF-8; None if the whole payload is needed.

    Serialized messages have their fields in order, and the id is the first field.
    """
    try:
        # The size follows the tag of the field, in seven bits of each byte.
        at = 2
        while head[at - 1] & _MORE:
            at += 1
        size = head[at + 1]
        if head[0] != MESSAGE_TAG or head[at] != _ID or size & _MORE:
            return None
    except IndexError:
        return None
    found = head[at + 2 : at + 2 + size]
    return found if len(found) == size else None


def repeats(
    reading: Reading, ids: Mapping[int, bytes], pushed: Sequence[bytes]
) -> tuple[frozenset[int], Sequence[int]]:
    """Return which entries repeat the id of an earlier message, and which messages of the pushed history do not.

    The first of several messages with one id counts, in the form that it has grown to: an entry repeats the one after
    it if their task says nothing else between. The entries are given by number; the messages of the pushed
    history by index, those in effect only.

    `ids` has the id of each message by the number of its entry, `pushed` those of all messages of the pushed history;
    a message without an id repeats none.
    """
    seen: set[bytes] = set()
    kept: list[int] = []
    for index in reading.kept:
        if pushed[index] not in seen:
            kept.append(index)
        if pushed[index]:
            seen.add(pushed[index])
    again: set[int] = set()
    # The place of the turn, the number and the id of the message that may still grow.
    newest = _NOTHING
    for place, generation, seq, _ in reading.places:
        message_id = ids.get(seq)
        if message_id is None:
            continue
        if message_id and message_id in seen:
            if (newest[0], newest[2]) == (place, message_id):
                again.add(newest[1])
                newest = (place, seq, message_id)
            else:
                again.add(seq)
                newest = _NOTHING
            continue
        seen.add(message_id)
        # A message of the user that begins a turn has no other form.
        newest = (place, seq, message_id) if generation > 1 and message_id else _NOTHING
    return frozenset(again), kept
