"""Messages and reads for tests of rewinds."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.executor.plane import ANN, Plane, said, text

from taskplane.agents.agent import Change, Complete, Turn
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.executor.v1 import executor_pb2 as pb
from taskplane.api.sessions.v1 import sessions_pb2 as sessions
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.runtime.principal import Principal

CONTROL = "kagent_rewind_before_invocation_id"


async def answer(turn: Turn) -> AsyncIterator[Change]:
    yield Complete(f"answer to {turn.text}")


def invocation(task: a2a.Task) -> str:
    """The turn that created a task."""
    return task.history[0].metadata.fields["kagent_invocation_id"].string_value


async def turns(plane: Plane, *words: str, context_id: str = "c", **options: Any) -> list[a2a.Task]:
    """Runs turns one after the other, to their completion."""
    return [await plane.run(each, context_id=context_id, **options) for each in words]


def control(before: str, words: str | None = None, *, context_id: str = "c", **fields: Any) -> a2a.Message:
    """Returns the control message; without words it has no parts."""
    message = said(words or "", context_id=context_id, **fields)
    message.metadata.fields[CONTROL].string_value = before
    if words is None:
        del message.parts[:]
    return message


async def rewind(
    plane: Plane, before: str, words: str | None = None, *, who: Principal = ANN, key: str = "", **options: Any
) -> pb.SubmitResponse:
    """As a message; fields of the message and of the request may be given."""
    of_request = {name: options.pop(name) for name in ("agent", "expected_version") if name in options}
    request = pb.SubmitRequest(
        request=a2a.SendMessageRequest(message=control(before, words, **options)), idempotency_key=key, **of_request
    )
    return await plane.executor(who).Submit(request)


async def rewind_session(plane: Plane, before: str, context_id: str = "c", **fields: Any) -> pb.RewindSessionResponse:
    request = pb.RewindSessionRequest(context_id=context_id, before_invocation_id=before, **fields)
    return await plane.executor().RewindSession(request)


async def undo(plane: Plane, context_id: str = "c", **fields: Any) -> pb.UndoRewindResponse:
    return await plane.executor().UndoRewind(pb.UndoRewindRequest(context_id=context_id, **fields))


async def session(plane: Plane, context_id: str = "c") -> sessions.Session:
    request = sessions.GetSessionRequest(context_id=context_id)
    return (await plane.stores.sessions().GetSession(request)).session


async def applied(plane: Plane, context_id: str = "c") -> bool:
    """Whether the session's tasks are in line with its history."""
    found = await session(plane, context_id)
    return found.applied_seq == found.steered_seq


async def listed(plane: Plane, context_id: str = "c", *, all_of_them: bool = False) -> list[str]:
    """The ids of the session's tasks, oldest first."""
    request = tasks.ListTasksRequest(
        context_id=context_id, order=tasks.TASK_ORDER_CREATED, include_superseded=all_of_them
    )
    return [record.id for record in (await plane.stores.tasks().ListTasks(request)).records]


def texts(task: a2a.Task) -> list[str]:
    return [text(message) for message in task.history]


async def gone(call: "asyncio.Future[Any]") -> None:
    """A client that goes away."""
    call.cancel()
    await asyncio.wait([call])
