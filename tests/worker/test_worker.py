"""Workers in Python and in Node, with a plane that has a secret and only serves the card of their agent. The scenarios
of all agents test the behaviour common to every agent, and the takeover by another worker."""

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
    """A worker for the tests that do not stop it."""
    async with working(request.param, plane, tmp_path_factory.mktemp("worker") / "log") as started:
        yield started


async def test_the_card_of_a_worker_is_served(plane: Plane, http: httpx.AsyncClient) -> None:
    """P2: clients see the card, with the addresses of the gateway, with and without a running worker."""
    card = (await http.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})).json()
    assert card["name"] == CARD["name"] and card["description"] == CARD["description"]
    named = (await http.get(f"/agents/{AGENT}/.well-known/agent-card.json")).json()
    assert named["name"] == CARD["name"]


async def test_the_conversation_can_be_read_as_soon_as_the_stream_has_ended(
    worker: Working, http: httpx.AsyncClient
) -> None:
    """P1, C6: the whole path of a message over real gRPC, signed with the secret of the plane."""
    async with stream(http, "SendStreamingMessage", {"message": text_message("one two three")}) as events:
        found = [event async for event in events]
    assert state_of(found[-1]) == "TASK_STATE_COMPLETED"
    context = found[-1].result["statusUpdate"]["contextId"]
    history = await data(http, f"/api/sessions/{context}/effective_history")
    assert [each["parts"][0]["text"] for each in history["messages"]] == ["one two three"] * 2


async def test_c8_a_message_during_a_run_is_answered(worker: Working, http: httpx.AsyncClient) -> None:
    """C8: completing the task before every message was read is refused as PENDING_INPUT, and the message is answered
    first."""
    task = await begins_slowly(http, 3)
    names = {"taskId": task["id"], "contextId": task["contextId"]}
    await asyncio.wait_for(send(http, "and this", **names), 30)
    done = await ends(http, task)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts_of(done)[-1] == 'You said: "and this"'


@pytest.mark.parametrize("worker", [NODE], indirect=True)
async def test_c6_a_worker_in_node_reads_the_conversation(worker: Working, http: httpx.AsyncClient) -> None:
    """C6: the next turn reads the entries that were copied for the turn before."""
    first = (await send(http, "one"))["task"]
    second = (await send(http, "count", contextId=first["contextId"]))["task"]
    assert texts_of(second)[-1] == "2 messages came before."
