"""Conversations of several messages over each binding: ids, contexts, further turns and repeats."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.executor.scripted import Scripted, Stepped
from tests.gateway.bindings import Binding, Client
from tests.gateway.conversing import texts
from tests.gateway.plane import fresh, open_all, said

from taskplane.agents.agent import AskInput, Change, Complete, Turn

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def three_questions(turn: Turn) -> AsyncIterator[Change]:
    """Ask until the user has spoken four times."""
    spoken = sum(message.role == 1 for message in turn.task.history) if turn.task is not None else 1
    yield AskInput(f"question {spoken}") if spoken < 4 else Complete("Thanks.")


async def test_any_number_of_follow_ups_with_the_task_id_alone_stay_in_their_task(
    binding: Binding, tmp_path: Path
) -> None:
    """I1, a2a D3, D7, D8: other servers fail on the second one."""
    async with open_all(tmp_path, ("asks", Scripted(three_questions))) as plane:
        client = Client(plane, binding)
        first = await client.send("one")
        answers = [await client.send(text, message={"taskId": first["id"]}) for text in ("two", "three", "four")]
        assert {(task["id"], task["contextId"]) for task in answers} == {(first["id"], first["contextId"])}
        states = [task["status"]["state"] for task in (first, *answers)]
        assert states == [*["TASK_STATE_INPUT_REQUIRED"] * 3, "TASK_STATE_COMPLETED"]
        # Each question moves into the history once it is superseded.
        expected = ["one", "question 1", "two", "question 2", "three", "question 3", "four"]
        assert texts(answers[-1]["history"]) == expected
        assert answers[-1]["status"]["message"]["parts"] == [{"text": "Thanks."}]


async def test_a_context_of_the_client_is_kept_and_missing_ids_are_made(client: Client) -> None:
    """S7, a2a D1, D6."""
    mine = f"mine {fresh()} \u00e9"
    one, two = [await client.send("hello", message={"contextId": mine}) for _ in range(2)]
    assert one["contextId"] == two["contextId"] == mine
    assert one["id"] != two["id"]
    made, other = await client.send("hello"), await client.send("hello")
    assert all((made["id"], made["contextId"], other["id"], other["contextId"]))
    assert made["contextId"] != other["contextId"]


async def test_a_message_to_a_working_task_is_answered_by_a_further_turn_of_it(
    binding: Binding, tmp_path: Path
) -> None:
    """I1, C8, a2a D9: the task does not complete before."""
    agent = Stepped()
    async with open_all(tmp_path, ("a", agent)) as plane:
        client = Client(plane, binding)
        async with client.stream("SendStreamingMessage", {"message": said("go")}) as events:
            task = (await anext(events)).result["task"]
            while "artifactUpdate" not in (await anext(events)).result:
                pass
            more = asyncio.create_task(client.send("and this", message={"taskId": task["id"]}))
            async for event in events:
                update: Any = event.result.get("statusUpdate", {"status": {}})
                if texts([update["status"].get("message", {"parts": []})]) == ["and this"]:
                    assert update["status"]["state"] == "TASK_STATE_WORKING"
                    agent.end()
        done = await more
    assert (done["id"], done["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")
    assert texts([*done["history"], done["status"]["message"]])[-2:] == ["and this", 'You said: "and this"']


async def test_a_key_belongs_to_its_owner_and_its_agent(binding: Binding, tmp_path: Path) -> None:
    """C10, W18, a2a D12: another owner's send, or one to another agent, is no repeat. The two agents are called by
    their paths, which only HTTP has, and by the tenant that selects them in 1.0."""
    async with open_all(tmp_path, ("a", Scripted(ended)), ("b", Scripted(ended))) as plane:
        client = Client(plane, binding)
        params, key = {"message": said("hello")}, fresh()
        first = (await client.result("SendMessage", params, idempotency_key=key))["task"]
        again = (await client.result("SendMessage", params, idempotency_key=key))["task"]
        other = (await client.result("SendMessage", params, idempotency_key=key, x_user_id="bob"))["task"]
        assert (again["id"] == first["id"], other["id"] == first["id"]) == (True, False)
        message = {"message": params["message"]}
        elsewhere = await plane.result("SendMessage", message, path="/agents/b", idempotency_key=key)
        assert elsewhere["task"]["id"] not in (first["id"], other["id"])


async def ended(turn: Turn) -> AsyncIterator[Change]:
    yield Complete("Done.")


async def test_a_repeat_of_a_send_that_was_answered_directly_gets_the_same_message(client: Client) -> None:
    """C10, a2a C5, D12: streamed or not."""
    params, key = {"message": said("message hi")}, fresh()
    first = await client.result("SendMessage", params, idempotency_key=key)
    assert await client.result("SendMessage", params, idempotency_key=key) == first
    (event,) = await client.streamed("SendStreamingMessage", params, idempotency_key=key)
    assert event.result == first


async def test_an_id_that_a_client_has_chosen_names_its_task_from_then_on(binding: Binding, tmp_path: Path) -> None:
    """I1, a2a D2, D5: the next message is one to this task, whether it is paused or has ended."""
    async with open_all(tmp_path, client_task_ids="create") as plane:
        made = await plane.send_0_3("ask", message={"taskId": "mine"}, blocking=True)
        client = Client(plane, binding)
        answered = await client.send("Ann", message={"taskId": "mine"})
        assert (answered["id"], answered["contextId"]) == ("mine", made["contextId"])
        assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
        refused = await client.error("SendMessage", {"message": said("more", taskId="mine")})
        assert (refused.code, refused.reason) == (-32004, "TERMINAL")
        foreign = await client.error("SendMessage", {"message": said("more", taskId="mine")}, x_user_id="bob")
        assert foreign.code == -32001
