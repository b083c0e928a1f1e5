"""Rewind requests in the forms that clients send, with answers that each client understands."""

from typing import Any

import pytest
from tests.gateway.conversing import (
    REWIND,
    WAYS,
    Way,
    data,
    flat,
    invocation,
    name_of,
    responses,
    rewind,
    session_of,
    shown,
    state_of,
)
from tests.gateway.plane import Json, Plane, fresh, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

every_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
streaming = pytest.mark.parametrize("way", [way for way in WAYS if way.streams], ids=name_of)


@streaming
async def test_a_refused_rewind_ends_with_a_status_update_that_has_the_reason(plane: Plane, way: Way) -> None:
    """R9: for clients that read a Task without history as the beginning of a turn."""
    context = await session_of(plane, way, "A", "B")
    events = await plane.streamed(way.method, way.params(context, "", {REWIND: "nobody"}))
    task, update = (event.result for event in events)
    if way.version == "0.3":
        assert (task["kind"], update["kind"], update["final"]) == ("task", "status-update", True), update
    else:
        task, update = task["task"], update["statusUpdate"]
    assert (update["taskId"], update["contextId"]) == (task["id"], context)
    assert update["status"] == task["status"] and "nobody" in str(update["status"]["message"])
    assert await shown(plane, context) == ["A", "A", "B", "B"]


@every_way
@pytest.mark.parametrize("value", [None, ""])
async def test_a_message_with_an_empty_rewind_key_is_an_ordinary_turn(plane: Plane, way: Way, value: Any) -> None:
    """R9."""
    context = await session_of(plane, way, "A", "B")
    found = await responses(plane, way, way.params(context, "C", {REWIND: value}))
    assert state_of(found[-1][1]) == "completed"
    assert await shown(plane, context) == ["A", "A", "B", "B", "C", "C"]


@every_way
@pytest.mark.parametrize("blank", [" ", "\n\t "])
async def test_a_rewind_with_a_blank_text_starts_no_turn(plane: Plane, way: Way, blank: str) -> None:
    """R9, R2."""
    context = await session_of(plane, way, "A", "B")
    await rewind(plane, way, context, await invocation(plane, context, "B"), blank)
    assert await shown(plane, context) == ["A", "A"]


@every_way
async def test_a_rewind_with_the_session_id_as_task_id_is_accepted(plane: Plane, way: Way) -> None:
    """R9: clients continue with the task that they got last. Another task id is refused."""
    context = await session_of(plane, way, "A", "B")
    params = way.params(context, "", {REWIND: await invocation(plane, context, "B")})
    params["message"]["taskId"] = context
    await responses(plane, way, params)
    assert await shown(plane, context) == ["A", "A"]
    params["message"]["taskId"] = fresh()
    unary = Way(way.version, False).method
    assert (await plane.error(unary, params))["code"] == -32602


@every_way
async def test_the_task_of_a_rewind_can_be_read_by_its_id(plane: Plane, way: Way) -> None:
    """R5: by the method of either version, and equal to the streamed one."""
    context = await session_of(plane, way, "A", "B")
    ((_, task),) = await rewind(plane, way, context, await invocation(plane, context, "B"))
    assert task["id"] == context
    found = await plane.result("tasks/get" if way.version == "0.3" else "GetTask", {"id": task["id"]})
    assert found == task
    short = await plane.result("GetTask", {"id": context, "historyLength": 1})
    assert [message["parts"][0]["text"] for message in short["history"]] == ["A"]
    assert (await plane.error("GetTask", {"id": fresh()}))["code"] == -32001


async def test_an_unknown_task_id_is_refused_with_the_setting_that_allows_it(plane: Plane) -> None:
    """I1."""
    for method, message in (("message/send", said_0_3("hi", taskId=fresh())), ("SendMessage", said("hi", taskId="x"))):
        error = await plane.error(method, {"message": message})
        assert error["code"] == -32001
        assert "TASKPLANE_GATEWAY_CLIENT_TASK_IDS=create" in str(error["data"])


async def test_a_message_to_an_ended_task_with_another_context_is_invalid_params(plane: Plane) -> None:
    """I2: the check of the context comes before that of the state."""
    done = await plane.send("hello")
    for method, make in (("SendMessage", said), ("message/send", said_0_3)):
        message: Json = make("more", taskId=done["id"], contextId=fresh())
        assert (await plane.error(method, {"message": message}))["code"] == -32602
    assert len(await flat(plane, done["contextId"])) == 2
    assert await data(plane, f"/api/tasks/{done['id']}")
