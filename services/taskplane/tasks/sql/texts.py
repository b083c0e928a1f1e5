"""Refusal of texts with U+0000, which PostgreSQL would refuse with an error of its own and SQLite would store."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.commands import Operation, Write


def _texts_of_mark(op: Any) -> tuple[str, ...]:
    return op.scope.tenant, op.scope.owner, op.scope.actor, op.context_id, *op.cut


_SCOPE: Final = ("scope.tenant", "scope.owner", "scope.actor")
_TEXTS: Final[dict[type, Callable[[Operation], tuple[str, ...]]]] = {
    commands.Create: attrgetter(*_SCOPE, "uid", "salt", "task_id", "invocation_id", "agent", "context_id", "claim_for"),
    commands.Append: attrgetter("actor", "task_uid"),
    commands.AddMessage: attrgetter(*_SCOPE, "task_id", "invocation_id"),
    commands.Cancel: attrgetter(*_SCOPE, "task_id"),
    commands.Put: attrgetter(*_SCOPE, "uid", "salt", "task.id", "task.context_id", "agent"),
    commands.Delete: attrgetter(*_SCOPE, "task_id"),
    commands.Claim: attrgetter("task_uid", "process_id"),
    commands.Orphan: attrgetter("task_uid", "process_id"),
    commands.TimeOut: attrgetter("task_uid", "task_uid"),
    commands.MarkCopied: attrgetter("task_uid", "task_uid"),
    commands.MarkSuperseded: _texts_of_mark,
    commands.Trim: attrgetter("task_uid", "task_uid"),
}


def has_nul(*texts: str) -> bool:
    """Return whether a text contains U+0000."""
    return "\0" in "".join(texts)


def nul_in_operation(op: Operation) -> Invalid | None:
    """Return the refusal of `op` if one of its texts contains U+0000."""
    return _refusal() if has_nul(*_TEXTS[type(op)](op)) else None


def nul_in_write(write: Write) -> Invalid | None:
    """Return the refusal of `write` if the id of a message or an artifact in it holds U+0000."""
    row = write.row
    if "\0" in (row.message_id or "") or "\0" in (row.partial_id or ""):
        return _refusal()
    for event in write.events:
        if event.artifact_id is not None and "\0" in event.artifact_id:
            return _refusal()
    return None


def _refusal() -> Invalid:
    return Invalid("ids and names must not contain U+0000", reason="NUL_CHARACTER")
