"""The comparison of a pushed history with the entries of its session: the turns that it names and reduces, and the
known messages. No I/O."""

from collections.abc import Iterable

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime import message_times
from taskplane.runtime.message_ids import digest, own_id
from taskplane.sessions.domain.payload import invocations_in, pack_pushed, unpack_pushed
from taskplane.sessions.domain.session import Entry


def compared(entry: Entry, said: Iterable[tuple[str, str]], known: Iterable[a2a.Message]) -> Entry:
    """Return the stored form of a pushed history: with the invocations that it reduces, and with the times of its known
    messages. A message that differs from every known message under its id gets a new id.

    `said`: invocation and id of each earlier message, in effect or not, of an invocation that it names. `known`:
    messages with their times; one is known that has the id and the content of one of these.
    """
    pushed = unpack_pushed(entry.payload)
    known = list(known)
    _keep_apart(pushed.messages, known, entry.context_id)
    kept = {message.message_id: message for message in pushed.messages}
    reduced = {invocation for invocation, message_id in said if message_id not in kept}
    reduced.update(pushed.reduced_invocation_ids)
    pushed.reduced_invocation_ids[:] = sorted(reduced.intersection(invocations_in(pushed)))
    for message in known:
        if message.message_id in kept:
            message_times.keep_time(kept[message.message_id], message)
    payload, listed = pack_pushed(pushed)
    return entry._replace(payload=payload, listed=listed)


def _keep_apart(messages: Iterable[a2a.Message], known: Iterable[a2a.Message], salt: str) -> None:
    digests: dict[str, set[bytes]] = {}
    for message in known:
        digests.setdefault(message.message_id, set()).add(digest(message))
    for message in messages:
        said = digests.get(message.message_id)
        if said is not None and digest(message) not in said:
            message.message_id = own_id(message.message_id, digest(message), salt)
