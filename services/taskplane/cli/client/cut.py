"""What a rewind takes away from a conversation: hidden at once, gone when the server has answered (R11)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskplane.cli.client.events import ArtifactUpdate, Event, FullTask, Message, StatusUpdate


@dataclass(frozen=True, slots=True)
class Shown:
    """A message of the conversation and the task whose replacement replaces it; no task: said directly, or not sent."""

    message: Message
    task_id: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user's that began a turn. `number` counts them from 1."""

    number: int
    message: Message

    @property
    def can_rewind(self) -> bool:
        """A client offers to rewind before it: before the first one there is nothing to go back to."""
        return self.number > 1


@dataclass(frozen=True, slots=True)
class Cut:
    """What is hidden while a rewind is under way. Nothing is lost: without the cut everything is there again."""

    messages: frozenset[str]
    invocations: frozenset[str]
    tasks: frozenset[str]
    kept: frozenset[str]

    def hides(self, shown: Shown) -> bool:
        """A message is cut, or it came late from a turn that is."""
        message = shown.message
        if message.id in self.messages or message.invocation_id in self.invocations:
            return True
        return shown.task_id in self.tasks and message.id not in self.kept

    def came_after(self, shown: Shown) -> bool:
        """The user said it since the rewind began, so that it is the next turn."""
        return shown.message.role == "user" and shown.message.id not in self.kept and not self.hides(shown)


class Removed:
    """What is cut for good: late events of it are dropped."""

    def __init__(self) -> None:
        """Nothing."""
        self.tasks: set[str] = set()
        self.invocations: set[str] = set()

    def has(self, event: Event) -> bool:
        """The event belongs to a task or a direct answer that was cut."""
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
    """The turns that a rewind can name, oldest first: messages of the user's with an invocation, the first of each."""
    first: dict[str, Message] = {}
    for message in messages:
        if message.role == "user" and message.invocation_id:
            first.setdefault(message.invocation_id, message)
    return [Turn(number, message) for number, message in enumerate(first.values(), start=1)]


def cut_at(place: int, shown: Sequence[Shown], tasks: Iterable[str]) -> Cut:
    """What is hidden when everything from `place` on is cut; tasks that nothing is shown of are among it."""
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
    """The tasks and the invocations that a new history has no place for any more.

    A task is lost with all of its messages, or with one of its invocations: what is kept of such a task is history.
    """
    ids = {item.message.id for item in after}
    invocations = {item.message.invocation_id for item in after}
    there = {item.task_id for item in before if item.message.id in ids} | {item.task_id for item in after}
    missing = {item.message.invocation_id for item in before} - invocations - {""}
    shown = {item.task_id for item in before if item.task_id} | (set(cut.tasks) if cut is not None else set[str]())
    broken = {item.task_id for item in before if item.task_id and item.message.invocation_id in missing}
    return (shown - there) | broken, missing
