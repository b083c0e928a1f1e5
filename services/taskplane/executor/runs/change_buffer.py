"""Conversion of an agent's changes to those of its outbox: one open text at a time, artifacts from their beginning."""

from collections.abc import Sequence
from typing import Any

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.executor import agent as port
from taskplane.executor.changes import (
    MAX_MESSAGE_BYTES,
    Ending,
    MessageFactory,
    Saved,
    Status,
    StatusText,
    storable_chunk,
    text_size,
)
from taskplane.executor.runs.outbox import Outbox
from taskplane.runtime.storable import dumped, storable


class ChangeBuffer:
    """The way of an agent's changes into an outbox.

    All methods raise ValueError or TypeError for what cannot be stored.
    """

    def __init__(self, outbox: Outbox, factory: MessageFactory, *, remembers: bool) -> None:
        """`remembers`: somebody asks for what was `said`."""
        self.factory = factory
        # Ids of the artifacts that the task has.
        self.artifacts: set[str] = set()
        # Something was said since the outbox was last flushed.
        self.spoke = False
        # The data of the newest checkpoint of the task.
        self.checkpoint: Any = None
        # An artifact was made in this turn.
        self.made_artifact = False
        # Until an artifact begins or the turn ends.
        self.takes_status_texts = False
        self._remembers = remembers
        self._said: list[a2a.Message] = []
        self._outbox = outbox
        self._open_id = ""
        self._open_text: list[str] = []
        self._open_size = 0
        self._last_said = ""

    def begin_turn(self, factory: MessageFactory) -> None:
        """Attribute what is put from now on to a turn, and take status texts."""
        self.factory = factory
        self.made_artifact = False
        self.takes_status_texts = True
        self._said.clear()

    def end_turn(self) -> None:
        """Take no further status text."""
        self.takes_status_texts = False

    @property
    def said(self) -> Sequence[a2a.Message]:
        """Return what was said in this turn, oldest first, with the text that is still open."""
        said = tuple(self._said)
        return (*said, self.factory.message("".join(self._open_text), self._open_id)) if self._open_id else said

    def take(self, change: "port.Change") -> None:
        """Put a change that is not final."""
        if isinstance(change, port.Text):
            if change.delta:
                self._grow(storable(change.delta))
        elif isinstance(change, port.ArtifactChunk):
            if change.append and change.artifact_id not in self.artifacts:
                raise ValueError(f"the first chunk of artifact {change.artifact_id!r} has append=True")
            self._outbox.chunk(storable_chunk(change))
            self.artifacts.add(change.artifact_id)
            self.made_artifact = True
            self.takes_status_texts = False
        elif isinstance(change, port.Say):
            self.say(self.message(change.message))
        elif isinstance(change, port.ToolCall):
            self._close_text()
            self.say(self.factory.tool("function_call", {"id": change.id, "name": change.name, "args": change.args}))
        elif isinstance(change, port.ToolResult):
            self._close_text()
            result = {"id": change.id, "name": change.name, "response": change.response}
            self.say(self.factory.tool("function_response", result))
        elif isinstance(change, port.Working):
            if change.text is not None:
                self._outbox.put(Status(a2a.TASK_STATE_WORKING, self.factory.status_text(change.text)))
        elif isinstance(change, port.Checkpoint):
            self._outbox.put(Saved(dumped(change.data).encode()))
            self.checkpoint = change.data
        elif isinstance(change, port.Usage):
            self._outbox.count(change.figures)
        else:
            raise TypeError(f"run yields changes, not {type(change).__name__}")

    def status_text(self, text: str) -> bool:
        """Put a text of a StatusWriter; return False, and put nothing, once an artifact began or the turn has ended."""
        if self.takes_status_texts:
            self._outbox.put(StatusText(self.factory.status_text(text)))
        return self.takes_status_texts

    def message(self, given: str | a2a.Message) -> a2a.Message:
        """Return a message to say: the end of the open text if that has the same words.

        Otherwise end that text first.
        """
        if not self._open_id:
            return self.factory.message(given)
        message = self.factory.message(given, self._open_id)
        if message.message_id == self._open_id:
            if port.text_of(message).strip() == "".join(self._open_text).strip():
                return message
            message.message_id = self.factory.new_id()
        self._close_text()
        return message

    def last_message(self, given: str | a2a.Message | None, ends: Ending) -> a2a.Message | None:
        """Return the message with which a task completes or pauses, and say it unless it was said last.

        Without `given`, the open text or None.
        """
        if given is not None:
            message = self.message(given)
        elif self._open_id:
            message = self.factory.message("".join(self._open_text), self._open_id)
        else:
            return None
        if message.message_id != self._last_said:
            self.say(message, ends=ends)
        return message

    def say(self, message: a2a.Message, *, ends: Ending | None = None) -> None:
        """Put a message. It ends the open text if it has its id. `ends`: the run ends with the same message."""
        if message.message_id == self._open_id:
            self._open_id = ""
            self._open_text.clear()
            self._open_size = 0
        self._last_said = message.message_id
        self.spoke = True
        if self._remembers:
            self._said.append(message)
        self._outbox.put(Status(a2a.TASK_STATE_WORKING, message, ends=ends), message)

    def _grow(self, delta: str) -> None:
        if not self._open_id:
            self._open_id = self.factory.new_id()
        self._open_size += text_size(delta)
        if self._open_size > MAX_MESSAGE_BYTES:
            raise ValueError("a text is larger than 3 MiB")
        self._open_text.append(delta)
        self._outbox.text(self.factory, self._open_id, delta)

    def _close_text(self) -> None:
        if self._open_id:
            self.say(self.factory.message("".join(self._open_text), self._open_id))
