"""The few things the rules read in an A2A message: is it partial, a status text, an interrupted text, of which turn."""

from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

PARTIAL_KEYS: Final = ("kagent_adk_partial", "adk_partial")
TURN_KEYS: Final = ("kagent_invocation_id", "adk_invocation_id")
STATUS_TEXT: Final = "status-message"
_KIND: Final = "kind"
_MARKS: Final = frozenset({*PARTIAL_KEYS, _KIND})
_FINAL: Final = (False, False)
# No id of an invocation that a session knows is longer.
_LONGEST_TURN: Final = 255


def manner(message: a2a.Message) -> tuple[bool, bool]:
    """Whether it is partial, and whether it is a status text.

    Partial: a piece of a text that is still growing, delivered live, never kept in a history (T5). Status text: a
    progress line, shown while it is news, never part of a history.
    """
    if not message.HasField("metadata"):
        return _FINAL
    fields = message.metadata.fields
    if _MARKS.isdisjoint(fields):
        return _FINAL
    partial = False
    for key in PARTIAL_KEYS:
        if key in fields and fields[key].bool_value:
            partial = True
    return partial, _KIND in fields and fields[_KIND].string_value == STATUS_TEXT


def is_partial(message: a2a.Message) -> bool:
    """See `manner`."""
    return manner(message)[0]


def without_partial_mark(message: a2a.Message) -> a2a.Message:
    """A copy of a partial message as the final one it would have become."""
    final = a2a.Message()
    final.CopyFrom(message)
    for key in PARTIAL_KEYS:
        if key in final.metadata.fields:
            del final.metadata.fields[key]
    if not final.metadata.fields:
        final.ClearField("metadata")
    return final


def interrupted(message: a2a.Message) -> a2a.Message:
    """The final message that an interrupted text becomes; `metadata.interrupted` says so."""
    final = without_partial_mark(message)
    final.metadata.fields["interrupted"].bool_value = True
    return final


def turn_of(document: a2a.Task) -> str | None:
    """The invocation that a runtime's task names in its metadata or, newest first, in that of its messages."""
    named: list[a2a.Task | a2a.Message] = [document, document.status.message, *reversed(document.history)]
    for said in named:
        if not said.HasField("metadata"):
            continue
        fields = said.metadata.fields
        for key in TURN_KEYS:
            # To ask for what is not there would put it there.
            turn = fields[key].string_value if key in fields else ""
            if turn and len(turn) <= _LONGEST_TURN and "\0" not in turn:
                return turn
    return None


def is_plain_text(part: a2a.Part) -> bool:
    """A text part with nothing beside its text, so that two of them are one longer text."""
    return part.HasField("text") and not (part.HasField("metadata") or part.filename or part.media_type)


def extend(message: a2a.Message, delta: a2a.Message) -> None:
    """Appends the parts of a partial message to what came before of it; adjacent plain texts become one."""
    for part in delta.parts:
        if message.parts and is_plain_text(part) and is_plain_text(message.parts[-1]):
            message.parts[-1].text += part.text
        else:
            message.parts.append(part)
