"""The Task that answers a rewind, over each binding: it alone may replace the conversation of a client."""

import pytest
from tests.gateway.bindings import Client
from tests.gateway.conversing import REWIND, echo, invocation, texts
from tests.gateway.plane import Json, fresh, said

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def begun(client: Client, *words: str) -> str:
    """Return a context in which each of these words was sent and echoed."""
    context = fresh()
    for word in words:
        await client.send(word, message={"contextId": context})
    return context


async def rewinding(client: Client, context: str, before: str, text: str = "", **configuration: int) -> Json:
    """Return the params of a rewind."""
    turn = await invocation(client.plane, context, before)
    message = said(text, contextId=context, metadata={REWIND: turn})
    return {"message": message, "configuration": configuration}


@pytest.mark.parametrize("length", [0, 1])
async def test_a_rewind_is_answered_by_a_task_with_the_whole_history(client: Client, length: int) -> None:
    """R5, T8, a2a C24: whatever length of the history the client asks for, streamed or not."""
    context = await begun(client, "A", "B", "C")
    (event,) = await client.streamed(
        "SendStreamingMessage", await rewinding(client, context, "C", historyLength=length)
    )
    assert (event.result["task"]["id"], texts(event.result["task"]["history"])) == (context, echo("A", "B"))
    answer = await client.result("SendMessage", await rewinding(client, context, "B", historyLength=length))
    assert (answer["task"]["id"], texts(answer["task"]["history"])) == (context, echo("A"))


async def test_a_rewind_with_a_text_streams_this_task_and_then_the_updates_of_a_new_one(client: Client) -> None:
    """R6, T8, a2a C20, C24: the new turn begins with a submitted status, and no second Task comes."""
    context = await begun(client, "A", "B")
    first, *rest = await client.streamed("SendStreamingMessage", await rewinding(client, context, "B", "D"))
    assert texts(first.result["task"]["history"]) == echo("A")
    assert {kind for event in rest for kind in event.result} == {"statusUpdate"}
    states = [event.result["statusUpdate"]["status"]["state"] for event in rest]
    assert (states[0], states[-1]) == ("TASK_STATE_SUBMITTED", "TASK_STATE_COMPLETED")
    assert len({event.result["statusUpdate"]["taskId"] for event in rest} - {context}) == 1
