"""The part of a conversation that a rewind cuts: hidden at once, removed when the server has answered (R11)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskplane.client.events import ArtifactUpdate, Event, FullTask, Message, StatusUpdate


@dataclass(frozen=True, slots=True)
class Shown:
    """A message and the task that it belongs to; no task: a direct answer, or a message that was not sent yet."""

    message: Message
    task_id: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user that began a turn. `number` counts from 1."""

    number: int
    message: Message

    @property
    def can_rewind(self) -> bool:
        """Return whether a client offers to rewind to before this turn, which it does for all but the first one."""
        return self.number > 1


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of the conversation that is hidden while a rewind is under way."""

    messages: frozenset[str]
    invocations: frozenset[str]
    tasks: frozenset[str]
    kept: frozenset[str]

    def hides(self, shown: Shown) -> bool:
        """Return whether a message was cut, or arrived late from a turn that was."""
        message = shown.message
        if message.id in self.messages or message.invocation_id in self.invocations:
            return True
        return shown.task_id in self.tasks and message.id not in self.kept

    def came_after(self, shown: Shown) -> bool:
        """Return whether the user sent the message after the rewind began, so that it is the next turn."""
        return shown.message.role == "user" and shown.message.id not in self.kept and not self.hides(shown)


class Removed:
    """The tasks and invocations that were cut for good; late events of them are dropped."""

    def __init__(self) -> None:
        self.tasks: set[str] = set()
        self.invocations: set[str] = set()

    def has(self, event: Event) -> bool:
        """Return whether the event belongs to a task or a direct answer that was cut."""
        match event:
            case FullTask():
                return event.id in self.tasks
            case StatusUpdate() | ArtifactUpdate():
                return event.task_id in self.tasks
            case Message():
                return event.invocation_id in self.invocations
            case _:
                return False


def turns(messages: Iterable[Message]) -> list[Turn]:
    """Return the turns that a rewind can name, oldest first: the first message of the user for each invocation."""
    first: dict[str, Message] = {}
    for message in messages:
        if message.role == "user" and message.invocation_id:
            first.setdefault(message.invocation_id, message)
    return [Turn(number, message) for number, message in enumerate(first.values(), start=1)]


def cut_at(place: int, shown: Sequence[Shown], tasks: Iterable[str]) -> Cut:
    """Return the cut of everything from the index `place` on, tasks without any message included."""
    before, after = shown[:place], shown[place:]
    invocations = {item.message.invocation_id for item in before}
    silent = set(tasks) - {item.task_id for item in shown}
    return Cut(
        messages=frozenset(item.message.id for item in after if item.message.id),
        invocations=frozenset(item.message.invocation_id for item in after) - invocations - {""},
        tasks=frozenset(silent | {item.task_id for item in after if item.task_id}),
        kept=frozenset(item.message.id for item in before),
    )


def lost(before: Sequence[Shown], after: Sequence[Shown], cut: Cut | None) -> tuple[set[str], set[str]]:
    """Return the tasks and the invocations that a new history no longer contains.

    A task is lost with all of its messages, or with one of its invocations; its remaining messages are kept as history.
    """
    ids = {item.message.id for item in after}
    invocations = {item.message.invocation_id for item in after}
    there = {item.task_id for item in before if item.message.id in ids} | {item.task_id for item in after}
    missing = {item.message.invocation_id for item in before} - invocations - {""}
    shown = {item.task_id for item in before if item.task_id} | (set(cut.tasks) if cut is not None else set[str]())
    broken = {item.task_id for item in before if item.task_id and item.message.invocation_id in missing}
    return (shown - there) | broken, missing
