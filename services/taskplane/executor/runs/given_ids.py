"""The ids that an agent gives its messages. Clients show each id once. So a message with a used id gets a new id before
the write."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from weakref import WeakValueDictionary

from taskplane.agents.tool_calls import mark_of
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import INVOCATION, LOST_ATTEMPT
from taskplane.runtime.json_values import text_in
from taskplane.runtime.principal import Principal


class UsedIds(set[str]):
    """Message ids read or written by the runs at work in one session."""


class SessionsAtWork:
    """The used ids of the sessions with runs at work in this process.

    Parallel runs do not find each other's messages in the history.
    """

    def __init__(self) -> None:
        self._used: WeakValueDictionary[tuple[str, str, str], UsedIds] = WeakValueDictionary()

    def used_in(self, principal: Principal, context_id: str) -> UsedIds:
        """Return the used ids of a session. The ids live as long as a caller holds them."""
        return self._used.setdefault((principal.tenant, principal.owner, context_id), UsedIds())


@dataclass(slots=True)
class _Said:
    message_id: str
    content: bytes


class GivenIds:
    """The ids that an agent gave in one run. The newest message may grow or be replaced under its id. Any other message
    with a used id is a new message."""

    def __init__(self, used: UsedIds) -> None:
        self._used = used
        self._read: Callable[[], Iterable[str]] = tuple[str, ...]
        self._history: frozenset[str] | None = None
        # Messages of this turn by the ids from the agent, and the newest message, if nothing followed.
        self._said: dict[str, list[_Said]] = {}
        # Messages of an earlier attempt with ids that are not from the agent.
        self._renamed: Sequence[_Said] = ()
        self._newest: _Said | None = None
        self._newest_given = ""

    def begin_turn(
        self, read: Callable[[], Iterable[str]] = tuple[str, ...], before: Iterable[a2a.Message] = (), own: str = ""
    ) -> None:
        """Begin a turn. `read`: lists the ids of its history; called once, for the first id from the agent.

        `before`: the messages of an earlier attempt at this turn; the same messages again are repeats. `own`: the
        prefix of new ids.
        """
        self._read, self._history = read, None
        said = [_Said(one.message_id, _content(one)) for one in before]
        self._said = {one.message_id: [one] for one in said}
        self._renamed = [one for one in said if one.message_id.startswith(own)]
        self.close()

    def follow(self, message_id: str) -> None:
        """Note a new message. If its id is another one, the newest message no longer grows."""
        if self._newest is not None and self._newest.message_id != message_id:
            self.close()

    def close(self) -> None:
        """Note another change. The newest message no longer grows."""
        self._newest, self._newest_given = None, ""

    def settle(self, message: a2a.Message, new_id: Callable[[], str], *, grows: bool = True) -> bool:
        """Give a message its final id. Return False if this turn already has the message.

        `grows`: the message may replace the newest message.
        """
        given, content = message.message_id, _content(message)
        is_tool = any(map(mark_of, message.parts))
        if is_tool:
            # A tool call, or its result, is an event of its own.
            self.close()
        newest = self._newest if given == self._newest_given else None
        if newest is not None and (grows or newest.content == content):
            message.message_id = newest.message_id
            repeats = newest.content == content
            newest.content = content
            return not repeats
        said = self._said.setdefault(given, [])
        for one in (*said, *self._renamed):
            if one.content == content:
                message.message_id = one.message_id
                return False
        if said or self._is_used(given):
            message.message_id = new_id()
        self._used.add(message.message_id)
        said.append(_Said(message.message_id, content))
        if not is_tool:
            self._newest, self._newest_given = said[-1], given
        return True

    def _is_used(self, message_id: str) -> bool:
        if message_id in self._used:
            return True
        if self._history is None:
            self._history = frozenset(self._read())
        return message_id in self._history


def said_before(task: a2a.Task, invocation_id: str) -> Sequence[a2a.Message]:
    """Return the messages of an agent on a task in a turn, without the messages of lost attempts."""
    return [
        message
        for message in (*task.history, task.status.message)
        if message.role == a2a.ROLE_AGENT
        and LOST_ATTEMPT not in message.metadata.fields
        and text_in(message.metadata, INVOCATION) == invocation_id
    ]


def _content(message: a2a.Message) -> bytes:
    """Return a hash of a message's identity: its parts and references."""
    content = a2a.Message(parts=message.parts, reference_task_ids=message.reference_task_ids)
    return sha256(content.SerializeToString(deterministic=True)).digest()
