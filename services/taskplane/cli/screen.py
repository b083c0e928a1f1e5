"""Shows a conversation while it happens: what the agent says on stdout, what goes on beside it on stderr."""

from taskplane.cli.client.conversation import Conversation
from taskplane.cli.client.events import ArtifactUpdate, Event, Message, StatusUpdate
from taskplane.cli.render import one_line, tool_line
from taskplane.cli.report import note
from taskplane.cli.writer import Writer


class Screen:
    """Compares the conversation with what was shown of it, and shows the rest."""

    def __init__(self, conversation: Conversation, writer: Writer) -> None:
        """What the conversation has now counts as shown."""
        self._conversation = conversation
        self._writer = writer
        self._shown = {message.id for message in conversation.messages}
        self._progress = dict(conversation.progress)
        self._named: set[str] = set()

    def update(self, event: Event) -> None:
        """Shows what is new after `event` was applied."""
        self._growing()
        if isinstance(event, ArtifactUpdate):
            self._artifact(event)
        elif not (isinstance(event, StatusUpdate) and event.message is not None and event.message.partial):
            self._messages()
            self._asides(event)

    def end(self) -> None:
        """Nothing more comes: ends the line."""
        self._writer.end()

    def _growing(self) -> None:
        for live in self._conversation.live.values():
            self._writer.grow(live.message_id, live.text)

    def _artifact(self, update: ArtifactUpdate) -> None:
        key = (update.task_id, update.artifact.id)
        artifact = self._conversation.artifacts[key]
        name = f"artifact {'/'.join(key)} {self._conversation.versions[key]}"
        if name not in self._named:
            self._named.add(name)
            self._aside(f"artifact: {artifact.name or artifact.id}")
        text = "".join(str(part["text"]) for part in artifact.parts if isinstance(part.get("text"), str))
        if update.last:
            self._writer.close(name, text)
        else:
            self._writer.grow(name, text)

    def _messages(self) -> None:
        for message in self._conversation.messages:
            if message.id not in self._shown:
                self._shown.add(message.id)
                if message.role == "agent":
                    self._message(message)

    def _message(self, message: Message) -> None:
        for tool in message.tools:
            self._aside(tool_line(tool))
        if message.text:
            self._writer.close(message.id, message.text)
        if message.interrupted:
            self._aside("(interrupted)")

    def _asides(self, event: Event) -> None:
        for task_id, text in self._conversation.progress.items():
            if self._progress.get(task_id) != text:
                self._aside(f"· {one_line(text)}")
        self._progress = dict(self._conversation.progress)
        if isinstance(event, StatusUpdate) and event.state in ("failed", "rejected", "canceled", "auth-required"):
            self._aside(f"task {event.task_id}: {event.state}")

    def _aside(self, line: str) -> None:
        self._writer.end()
        note(f"  {line}")
