"""Messages that are told once only, by what a few bytes of each say. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain.history import Reading

HEAD: Final = 96
"""Bytes of a stored payload from its beginning; as a rule they have the id of its message in them."""

_MESSAGE: Final = pb.Entry.MESSAGE_FIELD_NUMBER << 3 | 2
_ID: Final = a2a.Message.MESSAGE_ID_FIELD_NUMBER << 3 | 2
_MORE: Final = 0x80


def id_in(head: bytes) -> bytes | None:
    """The id of the message that begins a stored payload, as UTF-8; None: one has to look at all of it.

    Serialized messages have their fields in order, and the id is the first one.
    """
    try:
        # After the field's mark comes its size, in seven bits of each byte.
        at = 2
        while head[at - 1] & _MORE:
            at += 1
        size = head[at + 1]
        if head[0] != _MESSAGE or head[at] != _ID or size & _MORE:
            return None
    except IndexError:
        return None
    found = head[at + 2 : at + 2 + size]
    return found if len(found) == size else None


def repeats(
    reading: Reading, ids: Mapping[int, bytes], pushed: Sequence[bytes]
) -> tuple[frozenset[int], Sequence[int]]:
    """Of messages with one id the first one counts: the numbers of the entries that say one again, and the indexes of
    those messages of the pushed history that are in effect and do not.

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
    for _, _, seq, _ in reading.places:
        message_id = ids.get(seq)
        if message_id:
            if message_id in seen:
                again.add(seq)
            else:
                seen.add(message_id)
    return frozenset(again), kept
