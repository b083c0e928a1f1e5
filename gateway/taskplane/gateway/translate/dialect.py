"""The values that readers of requests return and writers of responses take, in every A2A version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as xb

# The elements of a stream.
Payload = a2a.Task | a2a.Message | a2a.TaskStatusUpdateEvent | a2a.TaskArtifactUpdateEvent
Encoded = dict[str, Any]


class Wait(Enum):
    """The point at which a send that became a task is answered."""

    # Once the task is terminal or paused.
    AT_REST = "at_rest"
    # As soon as the task exists.
    EXISTS = "exists"
    # Once the task is no longer submitted, or after a grace period.
    GRACE = "grace"


class Send(NamedTuple):
    """The params of a send. `submit` has the client's `request` and expected version; its other fields are set later.
    `history_length` bounds the history of the task in the response."""

    submit: xb.SubmitRequest
    wait: Wait
    history_length: int | None
    # Whether the params name a webhook.
    has_push_config: bool
    # The paths of numbers that became texts.
    converted: Sequence[str]

    @property
    def request(self) -> a2a.SendMessageRequest:
        """Return the client's request."""
        return self.submit.request


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """The params of a call about one task."""

    task_id: str
    history_length: int | None
    metadata: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of tasks, each with its cursor.

    `next_page_token` is empty on the last one; `total_size` counts the matches before paging.
    """

    tasks: Sequence[tuple[a2a.Task, str]]
    next_page_token: str
    page_size: int
    total_size: int


def newest(history: RepeatedCompositeFieldContainer[a2a.Message], history_length: int | None) -> Sequence[a2a.Message]:
    """Return the messages of a history that are written."""
    if history_length is None:
        return history[:]
    return history[-history_length:] if history_length else ()
