"""The mark `final` of A2A 0.3, as each of its bindings writes it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as sdk
from a2a.compat.v0_3.a2a_v0_3_pb2_grpc import A2AServiceStub
from tests.gateway.bindings import BINDINGS, Binding, Client, JsonRpc03, Rest03
from tests.gateway.plane import Json, Plane, events, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD: Final = pytest.mark.parametrize(
    "old", [binding for binding in BINDINGS if binding.version == "0.3"], ids=lambda binding: binding.name
)
Marked = tuple[str, bool]


@asynccontextmanager
async def streaming(plane: Plane, old: Binding, text: str) -> AsyncGenerator[AsyncIterator[Any], None]:
    """Yield the elements of the stream of a send as they are written."""
    if not isinstance(old, JsonRpc03 | Rest03):
        message = sdk.Message(message_id=fresh(), role=sdk.ROLE_USER, content=[sdk.Part(text=text)])
        stub: Any = A2AServiceStub(plane.channel)  # type: ignore[no-untyped-call]
        yield aiter(stub.SendStreamingMessage(sdk.SendMessageRequest(request=message)))
        return
    framed = old.frame("SendStreamingMessage", {"message": said(text)})
    async with plane.http.stream(framed.verb, framed.path, json=framed.body) as reply:
        yield (event.data.get("result", event.data) async for event in events(reply))


def marked(element: Any) -> Marked | None:
    """Return the state and the mark of a status update; None for another element."""
    if not isinstance(element, dict):
        if element.WhichOneof("payload") != "status_update":
            return None
        update = element.status_update
        return _state(sdk.TaskState.Name(update.status.state)), update.final
    members = cast("Json", element)
    update = members.get("statusUpdate", members)
    if "final" not in update:
        return None
    return _state(update["status"]["state"]), update["final"]


def task_id_of(element: Any) -> str:
    """Return the id of a task that a stream begins with."""
    if not isinstance(element, dict):
        return str(element.task.id)
    members = cast("Json", element)
    return str(members.get("task", members)["id"])


def _state(name: str) -> str:
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-").replace("cancelled", "canceled")


@OLD
@pytest.mark.parametrize(("text", "state"), [("hello", "completed"), ("ask", "input-required"), ("fail", "failed")])
async def test_final_marks_the_last_status_of_a_stream_alone(plane: Plane, old: Binding, text: str, state: str) -> None:
    """a2a B11, C20, C21: also where the agent waits for the user."""
    async with streaming(plane, old, text) as found:
        marks = [mark async for element in found if (mark := marked(element))]
    assert marks[-1] == (state, True)
    assert [final for _, final in marks] == [False] * (len(marks) - 1) + [True]


@OLD
async def test_a_pause_for_a_login_is_not_final_and_the_stream_goes_on(plane: Plane, old: Binding) -> None:
    """a2a C9, C21."""
    async with streaming(plane, old, "auth") as found:
        task_id = task_id_of(await anext(found))
        marks: list[Marked] = []
        async for element in found:
            if mark := marked(element):
                marks.append(mark)
                if mark[0] == "auth-required":
                    await Client(plane, old).result("CancelTask", {"id": task_id})
    assert ("auth-required", False) in marks
    assert marks[-1] == ("canceled", True)
    assert sum(final for _, final in marks) == 1
