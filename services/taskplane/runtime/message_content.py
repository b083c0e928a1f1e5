"""The content of a message: what tells it from another one under the same id."""

from collections.abc import Iterable
from typing import Protocol


class _Message(Protocol):
    """A message of A2A, of which this package knows no class."""

    @property
    def role(self) -> int: ...
    @property
    def parts(self) -> Iterable[object]: ...
    @property
    def reference_task_ids(self) -> Iterable[str]: ...


def same_content(one: _Message, other: _Message) -> bool:
    """Return whether role, parts and references of two messages are equal; ids and metadata do not count."""
    return (
        one.role == other.role
        and list(one.parts) == list(other.parts)
        and list(one.reference_task_ids) == list(other.reference_task_ids)
    )
