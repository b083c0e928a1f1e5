"""Conversion of an agent's changes to those of its outbox: one open text at a time, artifacts from their beginning."""

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.executor import agent as port
from taskplane.executor.changes import MAX_MESSAGE_BYTES, MessageFactory, Status, text_size
from taskplane.executor.runs.outbox import Outbox


class ChangeBuffer:
    """The way of an agent's changes into an outbox.

    All methods raise ValueError or TypeError for what cannot be stored.
    """

    def __init__(self, outbox: Outbox, factory: MessageFactory) -> None:
        self.factory = factory
        # Ids of the artifacts that the task has.
        self.artifacts: set[str] = set()
        # Something was said since the outbox was last flushed.
        self.spoke = False
        self._outbox = outbox
        self._open_id = ""
        self._open_text: list[str] = []
        self._open_size = 0
        self._last_said = ""

    def take(self, change: "port.Change") -> None:
        """Put a change that is not final."""
        if isinstance(change, port.Text):
            if change.delta:
                self._grow(change.delta)
        elif isinstance(change, port.ArtifactChunk):
            if change.append and change.artifact_id not in self.artifacts:
                raise ValueError(f"the first chunk of artifact {change.artifact_id!r} has append=True")
            self.artifacts.add(change.artifact_id)
            self._outbox.chunk(change)
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
        else:
            raise TypeError(f"run yields changes, not {type(change).__name__}")

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

    def last_message(self, given: str | a2a.Message | None) -> a2a.Message | None:
        """Return the message a task completes with, and say it unless it was said.

        Without `given`, the open text or None.
        """
        if given is not None:
            message = self.message(given)
        elif self._open_id:
            message = self.factory.message("".join(self._open_text), self._open_id)
        else:
            return None
        if message.message_id != self._last_said:
            self.say(message, ends=True)
        return message

    def say(self, message: a2a.Message, *, ends: bool = False) -> None:
        """Put a message. It ends the open text if it has its id. `ends`: the run ends with the same message."""
        if message.message_id == self._open_id:
            self._open_id = ""
            self._open_text.clear()
            self._open_size = 0
        self._last_said = message.message_id
        self.spoke = True
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
