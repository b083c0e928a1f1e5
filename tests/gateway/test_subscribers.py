"""Several subscribers of one task, over each binding: those that stay, those that leave, and those of a pause."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.executor.scripted import Stepped
from tests.gateway.bindings import BINDINGS, Binding, Client, Event
from tests.gateway.plane import GROWING, open_all, said

pytestmark = pytest.mark.asyncio(loop_scope="module")


def state_of(event: Event) -> str:
    """The state of a task or of a status update."""
    (held,) = event.result.values()
    state: str = held["status"]["state"]
    return state.removeprefix("TASK_STATE_")


async def test_a_subscriber_that_leaves_disturbs_neither_the_others_nor_the_task(
    binding: Binding, tmp_path: Path
) -> None:
    """W16, a2a C4, C10: the stream of the send is left as well."""
    agent = Stepped()
    async with open_all(tmp_path, ("a", agent)) as plane, AsyncExitStack() as stack:
        client = Client(plane, binding)
        async with client.stream("SendStreamingMessage", {"message": said("go")}) as own:
            task = {"id": (await anext(own)).result["task"]["id"]}
        staying = [
            await stack.enter_async_context(Client(plane, each).stream("SubscribeToTask", task)) for each in BINDINGS
        ]
        firsts = [await anext(one) for one in staying]
        for _ in range(3):
            async with client.stream("SubscribeToTask", task) as leaving:
                assert "task" in (await anext(leaving)).result
        agent.end()
        rests = [[event async for event in one] for one in staying]
        assert [state_of(rest[-1]) for rest in rests] == ["COMPLETED"] * len(BINDINGS)
        newest = max(firsts, key=lambda first: int(first.id.rpartition("-")[2]))
        after = [event for event in rests[0] if int(event.id.rpartition("-")[2]) > int(newest.id.rpartition("-")[2])]
        assert after and all(rest[-len(after) :] == after for rest in rests)
        await plane.at_zero()


async def test_a_subscription_to_a_task_that_waits_for_a_login_stays_open_until_its_end(client: Client) -> None:
    """a2a C9, C11, C22, D8: the task says what it waits for."""
    task = await client.send("auth")
    assert task["status"]["message"]["parts"]
    async with client.stream("SubscribeToTask", {"id": task["id"]}) as events:
        assert state_of(await anext(events)) == "AUTH_REQUIRED"
        await client.send("done", message={"taskId": task["id"]})
        rest = [event async for event in events]
    assert (state_of(rest[0]), state_of(rest[-1])) == ("SUBMITTED", "COMPLETED")


async def test_a_subscription_outlives_every_pause_of_its_task(client: Client) -> None:
    """a2a C11, C22: the stream of a send ends at the first one."""
    task = await client.send("auth")
    async with client.stream("SubscribeToTask", {"id": task["id"]}) as events:
        assert state_of(await anext(events)) == "AUTH_REQUIRED"
        wrong = {"message": said("here", taskId=task["id"]), "metadata": {"credential": "wrong"}}
        again = (await client.result("SendMessage", wrong))["task"]
        assert again["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
        async for event in events:
            if state_of(event) == "AUTH_REQUIRED":
                break
        canceled = await client.result("CancelTask", {"id": task["id"]})
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        assert [state_of(event) async for event in events] == ["CANCELED"]


async def test_a_subscription_after_the_last_event_of_a_pause_waits_for_the_rest(client: Client) -> None:
    """P12, a2a C11, C12, C22: no task comes before the rest, though nothing is left at first."""
    asked = await client.streamed("SendStreamingMessage", {"message": said("ask")}, **GROWING)
    task_id = asked[0].result["task"]["id"]
    after = {**GROWING, "last_event_id": asked[-1].id}
    async with client.stream("SubscribeToTask", {"id": task_id}, **after) as events:
        await client.send("Ann", message={"taskId": task_id})
        rest = [event async for event in events]
    numbers = [int(event.id.rpartition("-")[2]) for event in (*asked, *rest)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert state_of(rest[-1]) == "COMPLETED"
