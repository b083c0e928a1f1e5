"""Conversion of the messages and statuses of an A2A agent to changes."""

import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from taskplane.agents.agent import AskAuth, AskInput, Change, Complete, Fail, Reject, Say, Text, Working, text_of
from taskplane.agents.states import TERMINAL
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.message_metadata import KIND, PARTIAL_KEYS, STATUS_TEXT
from taskplane.runtime.json_values import text_in

_PAUSED: Final[dict["a2a.TaskState.ValueType", tuple[type[AskInput] | type[AskAuth], str]]] = {
    a2a.TASK_STATE_INPUT_REQUIRED: (AskInput, "The agent waits for an answer."),
    a2a.TASK_STATE_AUTH_REQUIRED: (AskAuth, "The agent waits for your authentication."),
}
_CANCELED: Final = "The agent canceled the task."


class Spoken:
    """The messages of an agent on its task. Each message becomes a change once, its pieces a growing text. A message
    with a used id and other content is said, too.

    A question, and the whole message at the end of a growing text, are held back until the next event: they may be the
    end of the run, or come again with the end.
    """

    def __init__(self, before: Iterable[a2a.Message] = ()) -> None:
        """`before`: the earlier messages of the task."""
        # The pause that the newest status asks for.
        self.pause: AskInput | AskAuth | None = None
        mine = [message for message in before if message.role == a2a.ROLE_AGENT]
        # `_before`: messages that snapshots of the task may repeat. `_said`: the newest message of this run by id.
        self._before = {(message.message_id, _content(message)) for message in mine}
        self._said: dict[str, bytes] = {}
        # By text: in the task, the ends of growing texts have other ids than here.
        self._texts = {text_of(message) for message in mine}
        self._open_id = ""
        self._open_text = ""
        self._held: a2a.Message | None = None
        self._held_id = ""

    def status(self, status: a2a.TaskStatus, *, ends: bool = False, again: bool = False) -> list[Change]:
        """Return the changes of a status. If the state is terminal, the last change is final; a pause is left in
        `pause`.

        `ends`: the end or pause follows, with the same message. `again`: the message may be from before this run.
        """
        self.pause = None
        message = status.message if status.HasField("message") else None
        if status.state in TERMINAL:
            said, last = self._last(message)
            return [*said, _final(status.state, last)]
        if status.state not in _PAUSED:
            return [] if message is None else self.message(message, ends=ends, again=again)
        ask, plain = _PAUSED[status.state]
        known = message is not None and self._is_said(message, again) and message.message_id != self._held_id
        said, last = self._last(message)
        self.pause = ask(plain if last is None else last)
        if last is None or known:
            return said
        assert message is not None
        self._note(message)
        if ask is AskAuth and last.message_id:
            # Said at once: many agents wait for the authentication without a pause.
            return [*said, Say(last)]
        self._held, self._held_id = last, message.message_id
        return said

    def message(self, message: a2a.Message, *, ends: bool = False, again: bool = False) -> list[Change]:
        """Return the changes of a message that is not the last one. `ends` and `again` as in `status`."""
        if text_in(message.metadata, KIND) == STATUS_TEXT:
            text = text_of(message)
            return [Working(text)] if text else []
        if is_piece(message):
            return self._grow(message.message_id, text_of(message))
        if message.message_id:
            if self._is_said(message, again):
                return []
            self._note(message)
        said = self.flush()
        if self._ends_text(message):
            said += self._rest(message)
            self._held, self._held_id = _without_id(message), message.message_id
            return said
        self._close()
        if ends:
            self._held, self._held_id = message, message.message_id
            return said
        return [*said, Say(message)]

    def snapshot(self, task: a2a.Task) -> list[Change]:
        """Return the new messages in a snapshot of the task, without its status."""
        said: list[Change] = []
        for message, after in zip(task.history, [*task.history[1:], task.status.message], strict=False):
            if not _is_whole(message):
                continue
            if message.message_id and message.message_id == after.message_id and _is_whole(after):
                # Servers keep each step of a message that grows.
                continue
            if text_of(message) in self._texts:
                self._note(message)
            else:
                said += self.message(message, again=True)
        return said

    def piece(self, message: a2a.Message) -> list[Change]:
        """Return the rest of a growing text, of which a snapshot has the part so far."""
        known = self._open_text if message.message_id == self._open_id else ""
        whole = text_of(message)
        return self._grow(message.message_id, whole[len(known) :]) if whole.startswith(known) else []

    def flush(self) -> list[Change]:
        """Return the message that was held back: another event follows."""
        held, self._held, self._held_id = self._held, None, ""
        if held is None:
            return []
        self._close()
        return [Say(held)]

    def _is_said(self, message: a2a.Message, again: bool = False) -> bool:
        """Return whether a message is the newest message with its id in this run; `again`: or any earlier message."""
        content = _content(message)
        return self._said.get(message.message_id) == content or (
            again and (message.message_id, content) in self._before
        )

    def _note(self, message: a2a.Message) -> None:
        content = _content(message)
        self._said[message.message_id] = content
        self._before.add((message.message_id, content))

    def _last(self, message: a2a.Message | None) -> tuple[list[Change], a2a.Message | None]:
        """Return the messages before the final message of a run, and the final message: without an id if it ends the
        growing text."""
        if message is None:
            return self.flush(), None
        if self._held is not None and message.message_id == self._held_id and self._is_said(message):
            held, self._held = self._held, None
            return [], held
        said = self.flush()
        if self._ends_text(message):
            said += self._rest(message)
            self._close()
            return said, _without_id(message)
        self._close()
        if not message.message_id:
            message.message_id = secrets.token_hex(16)
        return said, message

    def _grow(self, message_id: str, delta: str) -> list[Change]:
        if not delta or message_id in self._said:
            return []
        said = self.flush()
        self._open_id = message_id
        self._open_text += delta
        return [*said, Text(delta)]

    def _ends_text(self, message: a2a.Message) -> bool:
        """Return whether a message is the whole of the growing text."""
        if not self._open_text:
            return False
        text = text_of(message)
        same = bool(message.message_id) and message.message_id == self._open_id and text.startswith(self._open_text)
        return same or text.strip() == self._open_text.strip()

    def _rest(self, message: a2a.Message) -> list[Change]:
        """Return the end of the growing text, if pieces of it were lost."""
        rest = text_of(message)[len(self._open_text) :]
        self._open_text += rest
        return [Text(rest)] if rest.strip() else []

    def _close(self) -> None:
        self._open_id = self._open_text = ""


def _content(message: a2a.Message) -> bytes:
    """Return a hash of the parts of a message."""
    return sha256(a2a.Message(parts=message.parts).SerializeToString(deterministic=True)).digest()


def is_piece(message: a2a.Message) -> bool:
    """Return whether a message is a piece of a growing text."""
    fields = message.metadata.fields
    return any(key in fields and fields[key].bool_value for key in PARTIAL_KEYS)


def _is_whole(message: a2a.Message) -> bool:
    """Return whether a message is a whole message of an agent, not a line of progress and not a piece."""
    is_progress = text_in(message.metadata, KIND) == STATUS_TEXT
    return message.role == a2a.ROLE_AGENT and not is_progress and not is_piece(message)


def _without_id(message: a2a.Message) -> a2a.Message:
    """Return a copy that takes the id of the text it ends."""
    copy = a2a.Message()
    copy.CopyFrom(message)
    copy.ClearField("message_id")
    return copy


def _final(state: "a2a.TaskState.ValueType", message: a2a.Message | None) -> Change:
    if state == a2a.TASK_STATE_COMPLETED:
        return Complete(message)
    if state == a2a.TASK_STATE_REJECTED:
        return Reject("" if message is None else message)
    if state == a2a.TASK_STATE_CANCELED:
        return Fail(_CANCELED if message is None else message)
    return Fail("" if message is None else message)
