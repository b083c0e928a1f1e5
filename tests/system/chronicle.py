"""A naive reference for the content of a session: a list of turns, copied whole before each rewind. It has no places,
intervals or entries. A rewind drops turns from the list, an undo restores the copy."""

import copy
from dataclasses import dataclass, field


@dataclass
class Turn:
    """One invocation: the texts that it added to its group, in order. `document`: the texts of a document."""

    invocation: str
    texts: list[str]
    document: bool = False


@dataclass
class Group:
    """A task with its turns, or one direct turn. `place`: the position of its first turn. `whole`: no turn of it was
    dropped; a task that lost a turn is hidden, and accepts no more messages."""

    place: int
    task_id: str
    turns: list[Turn] = field(default_factory=list[Turn])
    whole: bool = True


@dataclass
class _Kept:
    """The copy that an undo restores, and whether a new turn came since."""

    shown: list[Group]
    stale: bool = False


class Chronicle:
    """One session."""

    def __init__(self) -> None:
        self.shown: list[Group] = []
        self._kept: list[_Kept] = []
        self._pushed = False
        self._count = 0
        self._firsts: dict[str, int] = {}

    def turn(self, invocation: str, task_id: str, texts: list[str]) -> None:
        """A new turn; `task_id` is empty for a direct answer."""
        self._count += 1
        self._firsts[invocation] = self._count
        self._new()
        self.shown.append(Group(self._count, task_id, [Turn(invocation, texts)]))

    def document(self, invocation: str, texts: list[str]) -> None:
        """A document of an external runtime: a turn of its own."""
        self._count += 1
        self._firsts[invocation] = self._count
        self._new()
        self.shown.append(Group(self._count, "", [Turn(invocation, texts, document=True)]))

    def more(self, invocation: str, task_id: str, texts: list[str]) -> None:
        """A further turn of a task that is shown."""
        self._count += 1
        self._firsts[invocation] = self._count
        self._new()
        group = next(group for group in self.shown if group.task_id == task_id)
        group.turns.append(Turn(invocation, texts))

    def rewind(self, invocation: str) -> None:
        """Drops a turn and all later ones."""
        self._kept.append(_Kept(copy.deepcopy(self.shown)))
        start = self._firsts[invocation]
        for group in self.shown:
            kept = [turn for turn in group.turns if self._firsts[turn.invocation] < start]
            group.whole = group.whole and len(kept) == len(group.turns)
            group.turns = kept
        self.shown = [group for group in self.shown if group.turns]

    def may_undo(self) -> str:
        """Empty, or why not: the code of the refusal."""
        if not self._kept:
            return "NOTHING_TO_UNDO"
        return "TOO_LATE_TO_UNDO" if self._kept[-1].stale else ""

    def undo(self) -> None:
        """Restores the turns that the newest rewind dropped."""
        self.shown = self._kept.pop().shown

    def push(self, turns: list[Turn]) -> None:
        """Only these turns are shown now, and their order counts."""
        self._kept.clear()
        self.shown = []
        for turn in turns:
            self._count += 1
            self._firsts[turn.invocation] = self._count
            self.shown.append(Group(self._count, "", [copy.deepcopy(turn)]))

    def fork(self, invocation: str) -> "Chronicle":
        """Returns a session that begins before that turn, without documents."""
        forked = copy.deepcopy(self)
        forked.rewind(invocation)
        forked._kept.clear()
        forked.shown = [group for group in forked.shown if not group.turns[0].document]
        return forked

    @property
    def turns(self) -> list[Turn]:
        """Returns the turns in the order of the conversation, without documents."""
        return [turn for turn in self._all if not turn.document]

    @property
    def documents(self) -> list[Turn]:
        """Returns the documents in order."""
        return [turn for turn in self._all if turn.document]

    @property
    def _all(self) -> list[Turn]:
        return [turn for group in sorted(self.shown, key=lambda group: group.place) for turn in group.turns]

    @property
    def texts(self) -> list[str]:
        """Returns the texts of the conversation in order."""
        return [text for turn in self.turns for text in turn.texts]

    def paused(self) -> list[str]:
        """Tasks that wait for an answer: their last text is a question."""
        asking = [group for group in self.shown if group.whole and group.turns[-1].texts[-1].endswith("?")]
        return [group.task_id for group in asking if group.task_id]

    def _new(self) -> None:
        for kept in self._kept:
            kept.stale = True
