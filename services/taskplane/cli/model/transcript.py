"""The model of a conversation: the messages to show after each event of a stream (T7, T5, M3, R11).

It does no I/O. Pass events to `apply` in the order they arrive; read `messages`, `live`, `progress`, `artifacts` and
`session`. Events may be applied twice, for instance after a snapshot; nothing is shown twice.

A rewind has three steps: `rewind` hides the cut messages at once; then either `apply` takes the response, which
replaces everything, or `restore` shows everything again after a failure, with newer messages. If the rewind was done
and only the turn after it failed, `rewound` removes the hidden messages.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from taskplane.api.message_metadata import INTERRUPTED
from taskplane.cli.model.continuation import Continuation, continuation
from taskplane.cli.model.cut import Cut, Removed, Shown, Turn, cut_at, lost, turns
from taskplane.cli.model.session_tasks import SessionTasks, TaskInfo
from taskplane.client.events import (
    Artifact,
    ArtifactUpdate,
    Event,
    FullTask,
    Json,
    Message,
    StatusUpdate,
    Unknown,
)
from taskplane.client.failures import Declined, Missing
from taskplane.client.states import AT_REST, TERMINAL, State

log = logging.getLogger(__name__)

_UNKNOWN_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Live:
    """A text that still grows."""

    message_id: str
    text: str


class Transcript:
    """The known part of the conversation of one session."""

    def __init__(self, context_id: str = "", agent_endpoint: str = "", tasks: Iterable[TaskInfo] = ()) -> None:
        """Create a conversation without messages. An unknown `context_id` is taken from the first event that has
        one."""
        self.versions: dict[tuple[str, str], int] = {}
        self.notice = ""
        self.unknown = 0
        self.unknown_events: deque[object] = deque(maxlen=_UNKNOWN_KEPT)
        self._session = SessionTasks(context_id, agent_endpoint, tasks)
        self._shown: list[Shown] = []
        self._live: dict[str, Live] = {}
        self._progress: dict[str, str] = {}
        self._artifacts: dict[tuple[str, str], Artifact] = {}
        self._tasks_of: dict[str, str] = {}
        self._cut: Cut | None = None
        self._removed = Removed()

    @property
    def context_id(self) -> str:
        """Return the id of the session; empty until it is known."""
        return self._session.context_id

    @property
    def messages(self) -> list[Message]:
        """Return the messages in order, without texts that still grow."""
        return [shown.message for shown in self._shown if self._cut is None or not self._cut.hides(shown)]

    @property
    def live(self) -> dict[str, Live]:
        """Return the texts that still grow, by task."""
        return {task_id: live for task_id, live in self._live.items() if self._in_effect(task_id)}

    @property
    def progress(self) -> dict[str, str]:
        """Return the latest status text of each task."""
        return {task_id: text for task_id, text in self._progress.items() if self._in_effect(task_id)}

    @property
    def artifacts(self) -> dict[tuple[str, str], Artifact]:
        """Return the artifacts, by task and artifact id."""
        return {key: artifact for key, artifact in self._artifacts.items() if self._in_effect(key[0])}

    @property
    def session(self) -> SessionTasks:
        """Return the session and its tasks, without tasks that are cut."""
        known, cut = self._session, self._cut
        if cut is None:
            return known
        return SessionTasks(
            known.context_id, known.agent_endpoint, (task for task in known.tasks if task.id not in cut.tasks)
        )

    def next_message(self) -> Continuation:
        """Return the references of the user's next message (I6)."""
        return continuation(self.session.latest)

    @property
    def turns(self) -> list[Turn]:
        """Return the user's messages that a rewind can name, oldest first."""
        return turns(self.messages)

    @property
    def rewinding(self) -> bool:
        """Return whether a rewind is under way; its response is the next full task of the stream that it was sent
        on."""
        return self._cut is not None

    def rewind(self, invocation_id: str) -> str:
        """Hide a turn and everything after it, and return the user's text of that turn.

        Only one rewind may be under way. Raise Declined `REWIND_IN_FLIGHT`, or `FIRST_MESSAGE` for the first turn;
        Missing `INVOCATION_NOT_FOUND` if no such turn is shown.
        """
        if self._cut is not None:
            raise Declined("Another rewind of this conversation is under way.", reason="REWIND_IN_FLIGHT")
        offered = {turn.message.invocation_id: turn for turn in self.turns}
        turn = offered.get(invocation_id)
        if turn is None:
            raise Missing(f"No message here began the turn {invocation_id}.", reason="INVOCATION_NOT_FOUND")
        if not turn.can_rewind:
            raise Declined(
                "Nothing comes before the first message.",
                reason="FIRST_MESSAGE",
                suggestion="Begin a new conversation instead.",
            )
        place = next(i for i, shown in enumerate(self._shown) if shown.message.invocation_id == invocation_id)
        self._cut = cut_at(place, self._shown, (task.id for task in self._session.tasks))
        self.notice = ""
        return turn.message.text

    def restore(self) -> None:
        """Show everything again after a rewind that failed. Do nothing if none is under way."""
        self._cut = None

    def rewound(self) -> None:
        """Remove the messages that a rewind hides if its answer had no remaining messages. Do nothing without a rewind.

        The state of the server is authoritative: load the session again if the server can be reached.
        """
        cut = self._cut
        if cut is None:
            return
        self._cut = None
        self._shown = [shown for shown in self._shown if not cut.hides(shown)]
        self._removed.tasks |= cut.tasks
        self._removed.invocations |= cut.invocations
        self._session.remove(cut.tasks)
        for growing in (self._live, self._progress):
            for task_id in cut.tasks:
                growing.pop(task_id, None)

    def undone(self, messages: Iterable[Message], tasks: Iterable[TaskInfo]) -> None:
        """Replace messages and tasks by the messages and tasks of the session after an undo."""
        self._cut = None
        self._shown = self._placed(messages)
        self._live.clear()
        self._progress.clear()
        self._session = SessionTasks(self.context_id, self._session.agent_endpoint, tasks)
        self._removed.tasks -= {task.id for task in self._session.tasks}
        self._removed.invocations -= {shown.message.invocation_id for shown in self._shown}

    def say(self, message: Message) -> None:
        """Show a message of the user before the server has it; the server's copy with the same id replaces it."""
        self._upsert(message, message.task_id)

    def unsay(self, message: Message) -> None:
        """Remove a message of the user that the server did not accept."""
        self._shown = [shown for shown in self._shown if shown.message.id != message.id]

    def apply(self, event: Event, *, answers_rewind: bool = False) -> None:
        """Apply one event. `answers_rewind`: it arrived on the stream of this client's own rewind.

        The session task (`id == contextId`), or a full task that answers the own rewind, replaces the whole
        conversation; any other full task with a history replaces the messages of that task, in place. A failed response
        to a rewind replaces nothing and its reason becomes `notice`. Unknown events are counted, logged and kept in
        `unknown_events`, and never shown. Late events of turns that were cut are dropped.
        """
        if self._removed.has(event):
            return
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
        """Show the tasks of a session as its server lists them, oldest first. Of a message that occurs twice the first
        one is kept (T6)."""
        for task in tasks:
            self._removed.tasks.discard(task.id)
            self._full_task(task, answers_rewind=False)

    def _full_task(self, task: FullTask, answers_rewind: bool) -> None:
        self._know(task.context_id)
        whole = answers_rewind or task.id == self.context_id
        if whole and task.state == "failed":
            self.notice = task.message.text if task.message else "the rewind failed"
            self.restore()
        elif whole:
            if task.history or task.state == "completed":
                self._replace_all(task)
        elif not self._late(task.id, task.state):
            self._enter(task.id, task.state, task.message, task.at)
            self._replace_task(task)

    def _replace_all(self, task: FullTask) -> None:
        before, cut = self._shown, self._cut
        self._shown = self._placed(task.history)
        tasks, invocations = lost(before, self._shown, cut)
        if cut is not None:
            ids = {shown.message.id for shown in self._shown}
            self._shown += [shown for shown in before if cut.came_after(shown) and shown.message.id not in ids]
        self._removed.tasks |= tasks
        self._removed.invocations |= invocations
        self._session.remove(tasks)
        self._cut = None
        self._live.clear()
        self._progress.clear()
        self._artifacts.update({(task.id, artifact.id): artifact for artifact in task.artifacts})
        self.notice = ""
        self._enter(task.id, task.state, task.message, task.at)

    def _replace_task(self, task: FullTask) -> None:
        """Replace the messages of a task in place. A task with an empty history has merely started and keeps its
        messages."""
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

        self._live.pop(task.id, None)
        if task.message is not None and task.message.partial and task.state not in AT_REST:
            self._live[task.id] = Live(task.message.id, task.message.text)
        if task.history:
            self._artifacts = {key: artifact for key, artifact in self._artifacts.items() if key[0] != task.id}
        self._artifacts.update({(task.id, artifact.id): artifact for artifact in task.artifacts})

    def _status(self, update: StatusUpdate) -> None:
        self._know(update.context_id)
        if self._late(update.task_id, update.state):
            return
        self._enter(update.task_id, update.state, update.message, update.at)
        message = update.message
        if message is not None:
            if message.progress:
                self._progress[update.task_id] = message.text
            elif message.partial:
                self._grow(update.task_id, message)
            else:
                self._say(update.task_id, message)
        if update.state in AT_REST:
            self._settle(update.task_id)

    def _grow(self, task_id: str, piece: Message) -> None:
        live = self._live.get(task_id)
        before = live.text if live is not None and live.message_id == piece.id else ""
        self._live[task_id] = Live(piece.id, before + piece.text)

    def _say(self, task_id: str, message: Message) -> None:
        live = self._live.get(task_id)
        if live is not None and message.role == "agent" and (message.text or live.message_id == message.id):
            del self._live[task_id]
        if message.parts:
            self._upsert(message, task_id)

    def _settle(self, task_id: str) -> None:
        """End the growing text of a task at rest: without a final message it stays, marked as interrupted."""
        self._progress.pop(task_id, None)
        live = self._live.pop(task_id, None)
        if live is not None and live.text:
            parts: Sequence[Json] = [{"text": live.text}]
            metadata: dict[str, Any] = {INTERRUPTED: True}
            self._upsert(Message(live.message_id, "agent", parts, task_id, self.context_id, metadata), task_id)

    def _artifact(self, update: ArtifactUpdate) -> None:
        self._know(update.context_id)
        key = (update.task_id, update.artifact.id)
        known = self._artifacts.get(key)
        if update.append and known is not None:
            artifact = replace(known, parts=_joined([*known.parts, *update.artifact.parts]))
            self._artifacts[key] = artifact
        else:
            self._artifacts[key] = update.artifact
            self.versions[key] = self.versions.get(key, 0) + 1

    def _upsert(self, message: Message, task_id: str) -> None:
        for index, shown in enumerate(self._shown):
            if message.id and shown.message.id == message.id:
                self._shown[index] = Shown(message, task_id or shown.task_id)
                return
        self._shown.append(Shown(message, task_id))

    def _late(self, task_id: str, state: State) -> bool:
        """Return whether a state is older than the known end of its task (M4)."""
        known = self._session.find(task_id)
        return known is not None and known.state in TERMINAL and state not in TERMINAL

    def _enter(self, task_id: str, state: State, message: Message | None, at: str) -> None:
        """Record the state of a task; the session task is not one."""
        if task_id and task_id != self.context_id:
            self._session.add(task_id, state, at)
            self._session.update(task_id, state, message.text if message is not None else "", at)

    def _placed(self, messages: Iterable[Message]) -> list[Shown]:
        """Return a whole history. Where a message does not name its task, it is taken from the earlier display."""
        self._tasks_of.update({shown.message.id: shown.task_id for shown in self._shown if shown.task_id})
        known = self._tasks_of
        return [Shown(message, message.task_id or known.get(message.id, "")) for message in _chat(messages)]

    def _in_effect(self, task_id: str) -> bool:
        return task_id not in self._removed.tasks and (self._cut is None or task_id not in self._cut.tasks)

    def _know(self, context_id: str) -> None:
        if not self._session.context_id:
            self._session.context_id = context_id


def _chat(messages: Iterable[Message]) -> list[Message]:
    """Return the messages that a chat shows: no status texts, no partial texts, and the first one of each id."""
    return list(_first_of_each(m for m in messages if not m.progress and not m.partial and m.parts))


def _first_of_each(messages: Iterable[Message]) -> Iterator[Message]:
    seen: set[str] = set()
    for message in messages:
        if message.id and message.id in seen:
            continue
        seen.add(message.id)
        yield message


def _joined(parts: Sequence[Json]) -> list[Json]:
    """Return the parts with adjacent plain texts joined, so that an artifact of many chunks stays small."""
    joined: list[Json] = []
    for part in parts:
        if joined and _plain(joined[-1]) and _plain(part):
            joined[-1] = {**joined[-1], "text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _plain(part: Json) -> bool:
    return isinstance(part.get("text"), str) and not part.get("metadata")
