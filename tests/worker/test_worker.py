"""Workers in Python and in Node, behind a plane with a secret that only serves the card of their agent.

What they do as every agent does, and that another one takes over, is tried with the scenarios of all agents.
"""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
import pytest_asyncio
from tests.system.plane import Plane
from tests.system.wire import data, send, state_of, stream, text_message, texts_of
from tests.worker.plane import AGENT, CARD, KINDS, NODE, Working, working
from tests.worker.turns import begins_slowly, ends

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=KINDS)
async def worker(
    plane: Plane, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Working]:
    """A worker for the tests that do not end it."""
    async with working(request.param, plane, tmp_path_factory.mktemp("worker") / "log") as started:
        yield started


async def test_the_card_of_a_worker_is_served(plane: Plane, http: httpx.AsyncClient) -> None:
    """P2: clients see the card, with the addresses of the gateway, whether or not a worker is there."""
    card = (await http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    assert card["name"] == CARD["name"] and card["description"] == CARD["description"]
    named = (await http.get(f"/agents/{AGENT}/.well-known/agent-card.json")).json()
    assert named["name"] == CARD["name"]


async def test_a_client_who_is_told_of_the_end_can_read_the_conversation(
    worker: Working, http: httpx.AsyncClient
) -> None:
    """P1, C6: the whole path of a message over real gRPC, signed with the secret of the plane."""
    async with stream(http, "SendStreamingMessage", {"message": text_message("one two three")}) as events:
        found = [event async for event in events]
    assert state_of(found[-1]) == "TASK_STATE_COMPLETED"
    context = found[-1].result["statusUpdate"]["contextId"]
    history = await data(http, f"/api/sessions/{context}/effective_history")
    assert [each["parts"][0]["text"] for each in history["messages"]] == ["one two three"] * 2


async def test_c8_a_message_that_comes_meanwhile_is_answered(worker: Working, http: httpx.AsyncClient) -> None:
    """C8: an end before every message was read is refused as PENDING_INPUT, and the message is answered first."""
    task = await begins_slowly(http, 3)
    names = {"taskId": task["id"], "contextId": task["contextId"]}
    await asyncio.wait_for(send(http, "and this", **names), 30)
    done = await ends(http, task)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts_of(done)[-1] == 'You said: "and this"'


@pytest.mark.parametrize("worker", [NODE], indirect=True)
async def test_c6_a_worker_in_node_reads_the_conversation(worker: Working, http: httpx.AsyncClient) -> None:
    """C6: what it copied for one turn is what the next turn reads."""
    first = (await send(http, "one"))["task"]
    second = (await send(http, "count", contextId=first["contextId"]))["task"]
    assert texts_of(second)[-1] == "2 messages came before."
