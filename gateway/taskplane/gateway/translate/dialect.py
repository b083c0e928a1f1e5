"""The values that readers of requests return and writers of responses take, in every A2A version."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.message import Message

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.gateway.translate.fields import Fields

# The elements of a stream.
Payload = a2a.Task | a2a.Message | a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent
Encoded = dict[str, Any]
Written = TypeVar("Written", covariant=True)


class Wait(Enum):
    """The point at which a send that became a task is answered."""

    # Once the task is terminal or paused.
    AT_REST = "at_rest"
    # As soon as the task exists.
    EXISTS = "exists"
    # Once the task is no longer submitted, or after a grace period.
    GRACE = "grace"


class Read(NamedTuple):
    """A request as it was read. `wait`: when a send is answered, if its version says that in other terms than the
    request of 1.0; None: as the request says."""

    request: Message
    wait: Wait | None = None


Reader = Callable[[Fields], Read]


class Answer(NamedTuple):
    """The answer to a unary call. `cursor`: that of a task; empty for one that is in no log. `bare`: the call was about
    this task, so it is written by itself; a send is answered by a task or a message, and says which. `numbered`: the
    task is written with its generation."""

    payload: a2a.Task | a2a.Message
    cursor: str = ""
    bare: bool = False
    numbered: bool = False

    def total_bytes(self) -> int:
        """Return the size of the answer in bytes."""
        return self.payload.ByteSize()


class CardAnswer(NamedTuple):
    """The extended card of an agent, completed, with the interfaces of every version."""

    card: a2a.AgentCard

    def total_bytes(self) -> int:
        """Return the size of the card in bytes."""
        return self.card.ByteSize()


class Listing(NamedTuple):
    """A page of tasks, each with its cursor. `numbered`: and with its generation.

    `next_page_token` is empty on the last one; `total_size` counts the matches before paging.
    """

    tasks: Sequence[tuple[a2a.Task, str]]
    next_page_token: str
    page_size: int
    total_size: int
    include_artifacts: bool = False
    numbered: bool = False

    def total_bytes(self) -> int:
        """Return the size of the tasks in bytes."""
        return sum(task.ByteSize() for task, _ in self.tasks)


class Writer(Protocol[Written]):
    """The writer of the elements of a stream in one form."""

    def __call__(self, payload: Payload, cursor: str, /, *, numbered: bool) -> Written:
        """Write an element with its cursor and, if it is `numbered`, its generation."""
        ...


def newest(history: RepeatedCompositeFieldContainer[a2a.Message], history_length: int | None) -> Sequence[a2a.Message]:
    """Return the messages of a history that are written."""
    if history_length is None:
        return history[:]
    return history[-history_length:] if history_length else ()


Result = Answer | CardAnswer | Listing
"""The result of a unary call."""
