"""The model of a conversation: what to show after each event of a stream (T7, T5, M3).

It has no interface and does no I/O. Feed it events in the order they arrive with `apply`; read `messages`, `live`,
`progress`, `artifacts` and `tasks`. Events may be applied twice, as after a snapshot: nothing is shown twice.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from taskplane.cli.client.continuation import Continuation, LastTask, continuation
from taskplane.cli.client.events import (
    INTERRUPTED,
    Artifact,
    ArtifactUpdate,
    Event,
    FullTask,
    Json,
    Message,
    StatusUpdate,
    Unknown,
)
from taskplane.cli.client.states import ACTIVE, AT_REST, TERMINAL, State

log = logging.getLogger(__name__)

_UNKNOWN_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the conversation and the task whose replacement replaces it; no task: said directly, or not sent."""

    message: Message
    task_id: str


@dataclass(frozen=True, slots=True)
class Live:
    """A text that still grows."""

    message_id: str
    text: str


@dataclass(slots=True)
class TaskInfo:
    """A task of the session: the last known state, and why it failed."""

    id: str
    state: State
    error: str = ""


class Conversation:
    """The conversation of one session, as far as it is known."""

    def __init__(self, context_id: str = "") -> None:
        """An empty conversation; an unknown `context_id` is taken from the first event that has one."""
        self.context_id = context_id
        self.tasks: list[TaskInfo] = []
        self.live: dict[str, Live] = {}
        self.progress: dict[str, str] = {}
        self.artifacts: dict[tuple[str, str], Artifact] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.notice = ""
        self.unknown = 0
        self.unknown_events: deque[object] = deque(maxlen=_UNKNOWN_KEPT)
        self._shown: list[Shown] = []

    @property
    def messages(self) -> list[Message]:
        """What the chat shows, in order, without the texts that still grow."""
        return [shown.message for shown in self._shown]

    @property
    def phase(self) -> Literal["ready", "running"]:
        """Running while a task of the session is submitted or working, so that the next event comes by itself."""
        return "running" if any(task.state in ACTIVE for task in self.tasks) else "ready"

    @property
    def latest(self) -> TaskInfo | None:
        """The newest task."""
        return self.tasks[-1] if self.tasks else None

    @property
    def latest_incomplete(self) -> TaskInfo | None:
        """The newest task that is not terminal; the only one worth resubscribing to (M3, M5)."""
        return next((task for task in reversed(self.tasks) if task.state not in TERMINAL), None)

    def task(self, task_id: str) -> TaskInfo | None:
        """The task with this id, if it is known."""
        return next((task for task in self.tasks if task.id == task_id), None)

    def next_message(self) -> Continuation:
        """Where the next message of the user goes (I6)."""
        return continuation(LastTask(self.latest.id, self.latest.state) if self.latest else None)

    def say(self, message: Message) -> None:
        """Shows a message of the user's before the server has it; the server's own copy replaces it by id."""
        self._upsert(message, message.task_id)

    def unsay(self, message: Message) -> None:
        """Takes back a message of the user's that the server did not accept."""
        self._shown = [shown for shown in self._shown if shown.message.id != message.id]

    def apply(self, event: Event, *, answers_rewind: bool = False) -> None:
        """Takes one event. `answers_rewind`: it came on the stream that answers a rewind of this very client.

        What the event replaces: a full task of the session itself (`id == contextId`), or one that answers the own
        rewind, the whole conversation; any other full task with a history only the messages of that task, in place. A
        failed answer to a rewind replaces nothing and puts its reason into `notice`. Unknown events are counted, logged
        and kept in `unknown_events`, and never shown.
        """
        match event:
            case FullTask():
                self._full_task(event, answers_rewind)
            case StatusUpdate():
                self._status(event)
            case ArtifactUpdate():
                self._artifact(event)
            case Message():
                self._know(event.context_id)
                if not event.id or all(shown.message.id != event.id for shown in self._shown):
                    self._shown.append(Shown(event, event.task_id))
            case Unknown():
                self.unknown += 1
                self.unknown_events.append(event.data)
                log.warning("an event of unknown shape was not shown, the %d. of this conversation", self.unknown)

    def load(self, tasks: Iterable[FullTask]) -> None:
        """Shows the tasks of a session, oldest first; of a message that occurs twice the first one wins (T6)."""
        for task in tasks:
            self._full_task(task, answers_rewind=False)

    def _full_task(self, task: FullTask, answers_rewind: bool) -> None:
        self._know(task.context_id)
        whole = answers_rewind or task.id == self.context_id
        if whole and task.state == "failed":
            self.notice = task.message.text if task.message else "the rewind failed"
            return
        if whole:
            if task.history or task.state == "completed":
                self._replace_all(task)
        else:
            self._enter(task.id, task.state, task.message)
            self._replace_task(task)

    def _replace_all(self, task: FullTask) -> None:
        self._shown = [Shown(message, message.task_id) for message in _chat(task.history)]
        self.live.clear()
        self.progress.clear()
        self.artifacts = {(task.id, artifact.id): artifact for artifact in task.artifacts}
        self.notice = ""
        kept = {shown.task_id for shown in self._shown}
        self.tasks = [known for known in self.tasks if known.id in kept]
        self._enter(task.id, task.state, task.message)

    def _replace_task(self, task: FullTask) -> None:
        """In place; with an empty history the task has merely started, and the messages shown of it stay."""
        current = [task.message] if task.message is not None else []
        kept = [] if task.history else [shown.message for shown in self._shown if shown.task_id == task.id]
        history = _chat([*kept, *task.history, *current])
        ids = {message.id for message in history if message.id}

        def replaced(shown: Shown) -> bool:
            return shown.task_id == task.id or (not shown.task_id and shown.message.id in ids)

        place = next((index for index, shown in enumerate(self._shown) if replaced(shown)), len(self._shown))
        before = [shown for shown in self._shown[:place] if not replaced(shown)]
        after = [shown for shown in self._shown[place:] if not replaced(shown)]
        seen = {shown.message.id for shown in (*before, *after)}
        mine = [Shown(message, task.id) for message in history if not message.id or message.id not in seen]
        self._shown = [*before, *mine, *after]

        self.live.pop(task.id, None)
        if task.message is not None and task.message.partial and task.state not in AT_REST:
            self.live[task.id] = Live(task.message.id, task.message.text)
        if task.history:
            self.artifacts = {key: artifact for key, artifact in self.artifacts.items() if key[0] != task.id}
        self.artifacts.update({(task.id, artifact.id): artifact for artifact in task.artifacts})

    def _status(self, update: StatusUpdate) -> None:
        self._know(update.context_id)
        known = self.task(update.task_id)
        if known is not None and known.state in TERMINAL and update.state not in TERMINAL:
            return
        self._enter(update.task_id, update.state, update.message)
        message = update.message
        if message is not None:
            if message.progress:
                self.progress[update.task_id] = message.text
            elif message.partial:
                self._grow(update.task_id, message)
            else:
                self._say(update.task_id, message)
        if update.state in AT_REST:
            self._settle(update.task_id)

    def _grow(self, task_id: str, piece: Message) -> None:
        live = self.live.get(task_id)
        before = live.text if live is not None and live.message_id == piece.id else ""
        self.live[task_id] = Live(piece.id, before + piece.text)

    def _say(self, task_id: str, message: Message) -> None:
        live = self.live.get(task_id)
        if live is not None and message.role == "agent" and (message.text or live.message_id == message.id):
            del self.live[task_id]
        if message.parts:
            self._upsert(message, task_id)

    def _settle(self, task_id: str) -> None:
        """The task is at rest: nothing grows any more. What no final message took over stays, marked."""
        self.progress.pop(task_id, None)
        live = self.live.pop(task_id, None)
        if live is not None and live.text:
            parts: Sequence[Json] = [{"text": live.text}]
            metadata: dict[str, Any] = {INTERRUPTED: True}
            self._upsert(Message(live.message_id, "agent", parts, task_id, self.context_id, metadata), task_id)

    def _artifact(self, update: ArtifactUpdate) -> None:
        self._know(update.context_id)
        key = (update.task_id, update.artifact.id)
        known = self.artifacts.get(key)
        if update.append and known is not None:
            artifact = replace(known, parts=_joined([*known.parts, *update.artifact.parts]))
            self.artifacts[key] = artifact
        else:
            self.artifacts[key] = update.artifact
            self.versions[key] = self.versions.get(key, 0) + 1

    def _upsert(self, message: Message, task_id: str) -> None:
        for index, shown in enumerate(self._shown):
            if message.id and shown.message.id == message.id:
                self._shown[index] = Shown(message, task_id or shown.task_id)
                return
        self._shown.append(Shown(message, task_id))

    def _enter(self, task_id: str, state: State, message: Message | None) -> None:
        """Notes the state of a task. Terminal states are final: a late `working` changes nothing (M4)."""
        if not task_id or task_id == self.context_id:
            return
        info = self.task(task_id)
        if info is None:
            info = TaskInfo(task_id, state)
            self.tasks.append(info)
        elif info.state in TERMINAL:
            return
        info.state = state
        if state in ("failed", "rejected") and message is not None:
            info.error = message.text

    def _know(self, context_id: str) -> None:
        if not self.context_id:
            self.context_id = context_id


def _chat(messages: Iterable[Message]) -> list[Message]:
    """What belongs into the chat: no status texts, no partial texts, each message once, the first one."""
    return list(_first_of_each(m for m in messages if not m.progress and not m.partial and m.parts))


def _first_of_each(messages: Iterable[Message]) -> Iterator[Message]:
    seen: set[str] = set()
    for message in messages:
        if message.id and message.id in seen:
            continue
        seen.add(message.id)
        yield message


def _joined(parts: Sequence[Json]) -> list[Json]:
    """The parts with neighbouring plain texts made one, so that an artifact of many chunks stays small."""
    joined: list[Json] = []
    for part in parts:
        if joined and _plain(joined[-1]) and _plain(part):
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _plain(part: Json) -> bool:
    return isinstance(part.get("text"), str) and not part.get("metadata")
