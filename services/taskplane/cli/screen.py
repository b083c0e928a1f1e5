"""The display of a conversation: messages of the agent on stdout, everything else on stderr."""

from taskplane.cli.model.transcript import Transcript
from taskplane.cli.render import content_of, one_line, tool_line
from taskplane.cli.report import note
from taskplane.cli.writer import Writer
from taskplane.client.events import Artifact, ArtifactUpdate, Event, FullTask, Message, StatusUpdate
from taskplane.client.states import AT_REST


class Screen:
    """A view that prints the new parts of a conversation."""

    def __init__(self, transcript: Transcript, writer: Writer) -> None:
        """Take the current content of the conversation as printed."""
        self._transcript = transcript
        self._writer = writer
        self._shown = {message.id for message in transcript.messages}
        self._progress = dict(transcript.progress)
        self._artifacts = dict(transcript.artifacts)
        self._named: set[str] = set()

    def update(self, event: Event) -> None:
        """Print the news after `event` was applied."""
        if isinstance(event, StatusUpdate) and event.message is not None and event.message.partial:
            self._growing()
            return
        if isinstance(event, ArtifactUpdate | FullTask):
            self._made(event)
        if not isinstance(event, ArtifactUpdate):
            self._growing()
            self._messages()
            self._asides(event)

    def end(self) -> None:
        """End the current line."""
        self._writer.end()

    def _growing(self) -> None:
        for live in self._transcript.live.values():
            self._writer.grow(live.message_id, live.text)

    def _made(self, event: ArtifactUpdate | FullTask) -> None:
        last = event.last if isinstance(event, ArtifactUpdate) else event.state in AT_REST
        for key, artifact in self._transcript.artifacts.items():
            if self._artifacts.get(key) == artifact:
                continue
            self._artifacts[key] = artifact
            name = f"artifact {'/'.join(key)} {self._transcript.versions.get(key, 1)}"
            if name not in self._named:
                self._named.add(name)
                self._aside(f"artifact: {artifact.name or artifact.id}")
            if last:
                self._writer.close(name, _text(artifact))
            else:
                self._writer.grow(name, _text(artifact))

    def _messages(self) -> None:
        for message in self._transcript.messages:
            if message.id not in self._shown:
                self._shown.add(message.id)
                if message.role == "agent":
                    self._message(message)

    def _message(self, message: Message) -> None:
        for tool in message.tools:
            self._aside(tool_line(tool))
        if content := content_of(message):
            self._writer.close(message.id, content)
        if message.interrupted:
            self._aside("(interrupted)")

    def _asides(self, event: Event) -> None:
        for task_id, text in self._transcript.progress.items():
            if self._progress.get(task_id) != text:
                self._aside(f"· {one_line(text)}")
        self._progress = dict(self._transcript.progress)
        if isinstance(event, StatusUpdate) and event.state in ("failed", "rejected", "canceled", "auth-required"):
            self._aside(f"task {event.task_id}: {event.state}")

    def _aside(self, line: str) -> None:
        self._writer.end()
        note(f"  {line}")


def _text(artifact: Artifact) -> str:
    return "".join(str(part["text"]) for part in artifact.parts if isinstance(part.get("text"), str))
