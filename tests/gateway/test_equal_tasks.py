"""One scenario over each binding of each version leaves equal tasks, and streams equal events."""

from collections.abc import Callable
from typing import Any, Final, cast

import pytest
from google.protobuf.json_format import ParseDict
from tests.gateway.bindings import BINDINGS, Client, JsonRpc
from tests.gateway.plane import Json, Plane, fresh, said

from taskplane.api.a2a.v1 import a2a_pb2 as a2a

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Members with values of one run: those that are numbered by their first occurrence, and those that are dropped.
NUMBERED: Final = frozenset({"id", "taskId", "contextId", "messageId", "kagent_invocation_id"})
DROPPED: Final = frozenset({"timestamp", "taskplane.dev/time"})


def numbering() -> Callable[[Any], Any]:
    """Return a function that replaces the ids of one run by their numbers, and drops its times. Of a cursor the
    generation is kept."""
    names: dict[str, str] = {}

    def number(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            members = cast("Json", value)
            return {name: number(inner, name) for name, inner in members.items() if name not in DROPPED}
        if isinstance(value, list):
            return [number(inner) for inner in cast("list[object]", value)]
        if key in NUMBERED:
            return names.setdefault(value, f"#{len(names)}")
        return value.rpartition("-")[2] if key == "taskplane.dev/cursor" else value

    return number


async def scenario(client: Client) -> tuple[a2a.ListTasksResponse, list[a2a.StreamResponse], a2a.Message]:
    """Run the scenario over a binding. Return its tasks, the events of a stream, and a direct answer."""
    context = {"contextId": fresh()}
    await client.send("hello", message=context)
    await client.send("artifact", message=context)
    asked = await client.send("ask", message=context)
    await client.send("Ann", message={"taskId": asked["id"]})
    login = await client.send("auth", message=context)
    await client.result("CancelTask", {"id": login["id"]})
    for text in ("fail", "reject"):
        await client.send(text, message=context)
    events = await client.streamed("SendStreamingMessage", {"message": said("chunks 5 8", **context)})
    answer = await client.send("message hi", message=context)
    listed = await Client(client.plane, JsonRpc()).result("ListTasks", {**context, "includeArtifacts": True})
    number = numbering()
    # The oldest first, as they were made.
    tasks: Json = {**listed, "tasks": [number(task) for task in reversed(listed["tasks"])]}
    elements = [number(event.result) for event in events]
    # The first task of a stream of 0.3 has no history.
    elements[0]["task"].pop("history", None)
    return (
        ParseDict(tasks, a2a.ListTasksResponse()),
        [ParseDict(element, a2a.StreamResponse()) for element in elements],
        ParseDict(number(answer), a2a.Message()),
    )


async def test_one_scenario_over_each_binding_and_version_leaves_equal_tasks(plane: Plane) -> None:
    """M2, a2a C8, C18, D3, E5, E7, K4: compared as protobuf of 1.0, read by one client; streams and direct answers
    are equal as well."""
    tasks, events, answer = await scenario(Client(plane, JsonRpc()))
    states = [a2a.TaskState.Name(task.status.state).removeprefix("TASK_STATE_") for task in tasks.tasks]
    assert states == ["COMPLETED", "COMPLETED", "COMPLETED", "CANCELED", "FAILED", "REJECTED", "COMPLETED"]
    assert [len(task.artifacts) for task in tasks.tasks] == [0, 3, 0, 0, 0, 0, 1]
    assert len(events) == 8
    for binding in BINDINGS:
        found = await scenario(Client(plane, binding))
        assert found[0] == tasks, binding.name
        assert (found[1], found[2]) == (events, answer), binding.name
