"""Short forms of tasks for the list of a session: state, changes of state, and the error. No I/O."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.runtime.json_values import text_in
from taskplane.tasks.domain.task import DOCUMENT, SUBMITTED, TERMINAL


class Change(NamedTuple):
    """A change of state, at a time (microseconds), by the event `generation`; 0: the event is not known."""

    state: int
    at: int
    generation: int


class Brief(NamedTuple):
    """The part of a task's row that its session shows. Times are microseconds since 1970, UTC."""

    uid: str
    id: str
    context_id: str
    origin: str
    agent: str
    invocation_id: str | None
    state: int
    status_at: int
    created_at: int
    updated_at: int
    generation: int
    terminal_generation: int | None
    superseded: bool
    superseded_seq: int


class Failure(NamedTuple):
    """Why a task failed or was rejected: the text of its last message, and the code in the metadata of it."""

    text: str = ""
    code: str = ""


_CODE: Final = "reason"
NO_FAILURE: Final = Failure()


class Info(NamedTuple):
    """A task in the list. `failure` is empty unless it failed or was rejected. `changes`: oldest first."""

    task: Brief
    changes: Sequence[Change]
    failure: Failure

    @property
    def completed_at(self) -> int | None:
        """Return the time of the end; None if the task has not ended."""
        return self.task.status_at if self.task.state in TERMINAL else None


def changes_of(task: Brief, stored: Iterable[Change]) -> Sequence[Change]:
    """Return all known changes of state, oldest first.

    `stored`: the changes that the row does not have. A managed task begins as SUBMITTED, and its row has the end. For
    tasks older than the recording of changes, only the changes in the row are known.
    """
    changes = list(stored)
    if task.origin != DOCUMENT:
        changes.insert(0, Change(SUBMITTED, task.created_at, 1))
    if not changes or changes[-1][:2] != (task.state, task.status_at):
        changes.append(Change(task.state, task.status_at, task.terminal_generation or 0))
    return changes


def fingerprint(infos: Iterable[Info]) -> tuple[int, int, int, int, int]:
    """Return numbers that differ for sets of tasks with different states, marks or stored documents. Each change has a
    later time."""
    count = changed = superseded = applied = written = 0
    for info in infos:
        count += 1
        changed += info.task.status_at - info.task.created_at
        superseded += info.task.superseded
        applied += info.task.superseded_seq
        written += info.task.generation if info.task.origin == DOCUMENT else 0
    return count, changed, superseded, applied, written


def failure_of(message: a2a.Message) -> Failure:
    """Return the failure that the last message of a task describes."""
    return Failure(text_of(message), text_in(message.metadata, _CODE))


def text_of(message: a2a.Message) -> str:
    """Return the text parts of a message, one per line."""
    return "\n".join(part.text for part in message.parts if part.HasField("text"))
