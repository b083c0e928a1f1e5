"""The comparison of a pushed history with the turns that it names: which of them it reduces. Pure."""

from collections.abc import Iterable, Sequence

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.sessions.domain.payload import invocation_in, mark_reduced, messages
from taskplane.sessions.domain.session import Entry


def invocations_in(pushed: Sequence[a2a.Message]) -> frozenset[str]:
    """Return the invocations that the messages name."""
    return frozenset(map(invocation_in, pushed)) - {""}


def reducing(entry: Entry, said: Iterable[tuple[str, str]]) -> Entry:
    """Return a pushed history as it is stored, with the invocations that it reduces.

    `said`: invocation and id of each message before it, in effect or not, whose invocation it names.
    """
    kept = {message.message_id for message in messages(entry.payload)}
    reduced = sorted({invocation for invocation, message_id in said if message_id not in kept})
    payload, listed = mark_reduced(entry.payload, reduced)
    return entry._replace(payload=payload, listed=listed)
