"""What a pushed history leaves out of the turns that it names. Pure."""

from collections.abc import Iterable, Sequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions.domain.payload import invocation_in, listed
from taskplane.sessions.domain.session import Entry


def named(pushed: Sequence[a2a.Message]) -> frozenset[str]:
    """The invocations that the messages name."""
    return frozenset(map(invocation_in, pushed)) - {""}


def reducing(entry: Entry, said: Iterable[tuple[str, str]]) -> Entry:
    """A pushed history to be stored, which says what it reduces.

    `said`: invocation and id of each message before it, in effect or not, whose invocation it names.
    """
    payload = pb.Entry.FromString(entry.payload or b"")
    kept = {message.message_id for message in payload.pushed.messages}
    reduced = sorted({invocation for invocation, message_id in said if message_id not in kept})
    payload.pushed.reduced_invocation_ids[:] = reduced
    return entry._replace(payload=payload.SerializeToString(), listed=listed(payload.pushed))
