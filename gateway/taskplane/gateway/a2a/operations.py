"""The operations of A2A (1.0 section 3.1, 0.3 section 7): one table for every binding.

A binding reads a request into protobuf, has it checked and served by its operation, and writes the result.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskplane.gateway.a2a import checks, extended_card, refusals, sending, streaming, tasks
from taskplane.gateway.a2a.call import Call
from taskplane.gateway.a2a.streams import PayloadStream
from taskplane.gateway.translate.dialect import Result
from taskplane.runtime.validation import WrongFields


@dataclass(frozen=True, slots=True)
class Unary:
    """An operation with one answer. `check` records what is wrong with a request; `serve` takes a checked one."""

    name: str
    check: Callable[[Any, WrongFields], None]
    serve: Callable[[Call, Any], Awaitable[Result]]
    # Only for callers that may write.
    writes: bool = False
    # It is for an agent; any other operation is about tasks, whatever became of their agents.
    sends: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """An operation with a stream of answers, which `streams.begin` opens."""

    name: str
    check: Callable[[Any, WrongFields], None]
    serve: Callable[[Call, Any], Awaitable[PayloadStream]]
    writes: bool = False
    sends: bool = False


Operation = Unary | Stream


def unread(_request: Any, _bad: WrongFields) -> None:
    """Check nothing: the operation reads nothing of its request, or is refused."""


def _push(name: str) -> Unary:
    return Unary(name, unread, refusals.push)


_ALL: Final[tuple[Operation, ...]] = (
    Unary("SendMessage", checks.send, sending.send, writes=True, sends=True),
    Stream("SendStreamingMessage", checks.send, streaming.send, writes=True, sends=True),
    Unary("GetTask", checks.get, tasks.get),
    Unary("ListTasks", checks.listing, tasks.listing),
    Unary("CancelTask", checks.cancel, tasks.cancel, writes=True),
    Stream("SubscribeToTask", checks.subscribe, streaming.subscribe),
    _push("CreateTaskPushNotificationConfig"),
    _push("GetTaskPushNotificationConfig"),
    _push("ListTaskPushNotificationConfigs"),
    _push("DeleteTaskPushNotificationConfig"),
    Unary("GetExtendedAgentCard", unread, extended_card.get),
)

OPERATIONS: Final[Mapping[str, Operation]] = {operation.name: operation for operation in _ALL}
