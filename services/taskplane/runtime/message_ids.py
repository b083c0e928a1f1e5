"""The ids of many messages that are stored together. Clients show each id once, so a second message under an id gets a
new id. No I/O."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from taskplane.api.message_metadata import TOOL_KEYS
from taskplane.runtime.message import Message


class Content(NamedTuple):
    """The content of a message. `digest`: the digest of role, parts and references. `turn`: the turn that it names, or
    ""."""

    digest: bytes
    turn: str = ""

    def is_same(self, other: "Content") -> bool:
        """Return whether both are one message: equal, and not of different turns."""
        return self.digest == other.digest and (self.turn == other.turn or not self.turn or not other.turn)


class Given(NamedTuple):
    """A message as it was given. `is_user`: the user says it. `is_tool`: it is a call of a tool, or a result."""

    message_id: str
    content: Content
    is_user: bool
    is_tool: bool


def digest(message: Message) -> bytes:
    """Return a hash of the content of a message, without ids and metadata."""
    found = hashlib.sha256(f"{message.role}".encode())
    for part in message.parts:
        encoded = part.SerializeToString(deterministic=True)
        found.update(b"%d:" % len(encoded) + encoded)
    for task_id in message.reference_task_ids:
        found.update(b"task:" + task_id.encode())
    return found.digest()


def given(message: Message, turn: str, *, is_user: bool) -> Given:
    """Return a message as `settled` needs it."""
    is_tool = any(key in part.metadata.fields for part in message.parts for key in TOOL_KEYS)
    return Given(message.message_id, Content(digest(message), turn), is_user, is_tool)


def settled(
    messages: Sequence[Given],
    salt: str,
    known: Mapping[str, Content] = {},
    had: Set[str] = frozenset(),
) -> Iterator[tuple[int, str]]:
    """Yield the index and the id of each message that stays, in order.

    A message of an agent replaces the message directly before it if both have one id and one turn. The same message
    again in a turn is left out. Any other message under a used id gets a new id, which depends on `salt`, the id and
    the content only. `known`: messages elsewhere by their ids, which may come again. `had`: ids that were stored before
    and that a message keeps.
    """
    kept: list[tuple[int, str]] = []
    said: dict[str, list[tuple[Content, int, str]]] = {}
    turns = 0
    newest: tuple[Given, int] | None = None
    for index, one in enumerate(messages):
        if one.is_user and not (newest is not None and newest[0].is_user):
            turns += 1
        if not one.message_id:
            kept.append((index, ""))
            newest = one, turns
            continue
        before = said.setdefault(one.message_id, [])
        again = next((own for content, turn, own in before if content.is_same(one.content) and turn == turns), None)
        if newest is not None and grows(newest[0], one) and newest[1] == turns:
            kept[-1] = index, kept[-1][1]
            before[-1] = one.content, turns, kept[-1][1]
        elif again is not None:
            continue
        else:
            repetition = sum(content.digest == one.content.digest for content, _, _ in before)
            own = own_id(one.message_id, one.content.digest, salt, repetition)
            elsewhere = known.get(one.message_id)
            used = bool(before) or (elsewhere is not None and not elsewhere.is_same(one.content))
            message_id = own if used or own in had else one.message_id
            kept.append((index, message_id))
            before.append((one.content, turns, message_id))
        newest = one, turns
    yield from kept


def grows(before: Given, one: Given) -> bool:
    """Return whether a message takes the place of the one directly before it, if both are of one turn."""
    if before.message_id != one.message_id or not one.message_id or before.is_user or one.is_user:
        return False
    turns = {before.content.turn, one.content.turn} - {""}
    return len(turns) <= 1 and not (before.is_tool or one.is_tool)


def own_id(message_id: str, content: bytes, salt: str, repetition: int = 0) -> str:
    """Return the id of its own of a message that came under `message_id` with this digest of its content."""
    made = f"{salt}\0{message_id}\0{repetition}\0".encode() + content
    return hashlib.sha256(made).hexdigest()[:32]
