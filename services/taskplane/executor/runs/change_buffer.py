"""Converts an agent's changes to changes of the outbox. Only one text is open at a time. An artifact starts with a
chunk without `append`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from taskplane.agents import agent as port
from taskplane.agents.changes import (
    MAX_MESSAGE_BYTES,
    Data,
    Ending,
    MessageFactory,
    Status,
    StatusTextChange,
    is_plain_text,
    storable_chunk,
    text_size,
)
from taskplane.agents.surrogates import Surrogates
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.executor.runs.given_ids import GivenIds
from taskplane.executor.runs.outbox import Outbox
from taskplane.runtime.storable import dumped, storable


class ChangeBuffer:
    """Puts an agent's changes into an outbox.

    All methods raise ValueError or TypeError for a change that cannot be stored, and RecursionError for a checkpoint
    with too deep nesting.
    """

    def __init__(self, outbox: Outbox, factory: MessageFactory, ids: GivenIds, *, remembers: bool) -> None:
        """`remembers`: keep the messages of the turn for `said`."""
        self.factory = factory
        self.ids = ids
        # Ids of the artifacts that the task has.
        self.artifacts: set[str] = set()
        # The outbox got a message after its last flush.
        self.spoke = False
        # The data of the newest checkpoint of the task.
        self.checkpoint: Any = None
        # An artifact was made in this turn.
        self.made_artifact = False
        # Status texts are accepted until an artifact begins or the turn ends.
        self.takes_status_texts = False
        self._remembers = remembers
        self._said: list[a2a.Message] = []
        self._outbox = outbox
        self._open_id = ""
        self._open_text: list[str] = []
        self._open_size = 0
        self._last_said = ""
        self._half = Surrogates()
        # Artifacts with a high surrogate that waits for the next chunk, by artifact id.
        self._halves: dict[str, Surrogates] = {}

    def begin_turn(self, factory: MessageFactory) -> None:
        """Attribute later changes to a turn, and take status texts."""
        self.factory = factory
        self.ids.close()
        self.made_artifact = False
        self.takes_status_texts = True
        self._said.clear()

    def end_turn(self) -> None:
        """Take no further status text."""
        self.takes_status_texts = False

    @property
    def said(self) -> Sequence[a2a.Message]:
        """Return the messages of this turn, oldest first, with the text that is still open."""
        said = tuple(self._said)
        return (*said, self.factory.message("".join(self._open_text), self._open_id)) if self._open_id else said

    def take(self, change: "port.Change") -> None:
        """Put a change that is not final."""
        if isinstance(change, port.Text):
            self._grow(self._half.join(change.delta))
        elif isinstance(change, port.ArtifactChunk):
            if change.append and change.artifact_id not in self.artifacts:
                raise ValueError(f"the first chunk of artifact {change.artifact_id!r} has append=True")
            self._outbox.chunk(storable_chunk(self._whole(change)))
            self.artifacts.add(change.artifact_id)
            self.made_artifact = True
            self.takes_status_texts = False
        elif isinstance(change, port.Say):
            message, is_new = self.message(change.message)
            if is_new:
                self.say(message)
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
            self._outbox.put(Data("checkpoint", dumped(change.data).encode()))
            self.checkpoint = change.data
        elif isinstance(change, port.Usage):
            self._outbox.count(change.figures)
        else:
            raise TypeError(f"run must yield changes, not {type(change).__name__}")

    def status_text(self, text: str) -> bool:
        """Put a text of a StatusWriter; return False, and put nothing, once an artifact began or the turn has ended."""
        if self.takes_status_texts:
            self._outbox.put(StatusTextChange(self.factory.status_text(text)))
        return self.takes_status_texts

    def message(self, given: str | a2a.Message, *, grows: bool = True) -> tuple[a2a.Message, bool]:
        """Return the message to put, and False if the outbox got this message before.

        A message with the same text as the open text ends the open text. Any other message comes after the open text.
        `grows`: a message with the id of the newest message replaces the newest message.
        """
        self._end_half()
        if isinstance(given, a2a.Message) and given.message_id:
            message = self.factory.message(given)
            self._close_text()
            return message, self.ids.settle(message, self.factory.new_id, grows=grows)
        if not self._open_id:
            return self.factory.message(given), True
        message = self.factory.message(given, self._open_id)
        if port.text_of(message).strip() != "".join(self._open_text).strip():
            message.message_id = self.factory.new_id()
            self._close_text()
        return message, True

    def last_message(self, given: str | a2a.Message | None, ends: Ending) -> a2a.Message | None:
        """Return the final message of a task that completes or pauses. Put the message, unless it is the newest one
        already.

        Without `given`, the final message is the open text, if any; else return None.
        """
        self._end_half()
        if given is not None:
            message, is_new = self.message(given)
        elif self._open_id:
            message, is_new = self.factory.message("".join(self._open_text), self._open_id), True
        else:
            return None
        if is_new or message.message_id != self._last_said:
            # Repeat an earlier message: the final message must be the newest one.
            self.say(message, ends=ends)
        return message

    def end_artifacts(self) -> None:
        """Put U+FFFD for the halves of incomplete surrogate pairs."""
        for artifact_id in list(self._halves):
            self._put_half(artifact_id)

    def say(self, message: a2a.Message, *, ends: Ending | None = None) -> None:
        """Put a message. A message with the id of the open text ends the open text. `ends`: the end of the run with the
        same message."""
        self.ids.follow(message.message_id)
        self._last_said = message.message_id
        if message.message_id == self._open_id:
            self._open_id = ""
            self._open_text.clear()
            self._open_size = 0
        self.spoke = True
        if self._remembers:
            self._said.append(message)
        self._outbox.put(Status(a2a.TASK_STATE_WORKING, message, ends=ends), message)

    def _grow(self, delta: str) -> None:
        if not delta:
            return
        if not self._open_id:
            self._open_id = self.factory.new_id()
        delta = storable(delta)
        self._open_size += text_size(delta)
        if self._open_size > MAX_MESSAGE_BYTES:
            raise ValueError("a text must have at most 3 MiB")
        self._open_text.append(delta)
        self._outbox.text(self.factory, self._open_id, delta)

    def _end_half(self) -> None:
        """End the open text with U+FFFD if its last character is an incomplete surrogate pair."""
        self._grow(self._half.end())

    def _close_text(self) -> None:
        self._end_half()
        if self._open_id:
            self.say(self.factory.message("".join(self._open_text), self._open_id))

    def _whole(self, chunk: "port.ArtifactChunk") -> "port.ArtifactChunk":
        """Return the chunk with the waiting surrogate of the previous chunk. Keep back a high surrogate at the end."""
        joins = is_plain_text(chunk) and chunk.append
        if chunk.artifact_id in self._halves and not joins:
            if chunk.append:
                self._put_half(chunk.artifact_id)
            else:
                del self._halves[chunk.artifact_id]
        if not is_plain_text(chunk):
            return chunk
        half = self._halves.pop(chunk.artifact_id, None) or Surrogates()
        text = half.join(chunk.text or "")
        if chunk.last:
            text += half.end()
        elif half.waits:
            self._halves[chunk.artifact_id] = half
        return chunk if text == chunk.text else replace(chunk, text=text)

    def _put_half(self, artifact_id: str) -> None:
        text = self._halves.pop(artifact_id).end()
        self._outbox.chunk(port.ArtifactChunk(artifact_id, text=text, append=True))
