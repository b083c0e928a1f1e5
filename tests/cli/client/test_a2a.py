"""The client against a server that is not ours: the official SDK's, which knows neither cursors nor keys."""

import asyncio
import sys
from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.repo.tree import ROOT
from tests.support.cutting import cutting
from tests.support.ports import free_port, refusing_port

from taskplane.cli.client.a2a import A2AClient, Received, Resumed, user_message
from taskplane.cli.client.conversation import Conversation
from taskplane.cli.client.events import FullTask
from taskplane.cli.client.failures import Ended, Missing, NotConnected, Unreachable
from taskplane.cli.client.http import Http


@pytest.fixture
async def peer() -> AsyncGenerator[int]:
    """The port of a running server of the official SDK."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.peer", str(port), "memory", cwd=ROOT, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx.AsyncClient() as http, asyncio.timeout(30):
            while True:
                try:
                    await http.get(f"http://127.0.0.1:{port}/.well-known/agent-card.json")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield port
    finally:
        process.kill()
        await process.wait()


async def shown(port: int, text: str) -> tuple[Conversation, list[Received | Resumed]]:
    """What a conversation is after one message, and all that came."""
    conversation = Conversation()
    came: list[Received | Resumed] = []
    async with Http(f"http://127.0.0.1:{port}") as http:
        async for item in A2AClient(http).stream(user_message(text)):
            came.append(item)
            if isinstance(item, Received):
                conversation.apply(item.event)
    return conversation, came


def text_of_artifact(conversation: Conversation) -> str:
    (artifact,) = conversation.artifacts.values()
    return "".join(part["text"] for part in artifact.parts)


async def test_a_stream_of_an_official_server_is_shown(peer: int) -> None:
    conversation, came = await shown(peer, "chunks 20 32")
    assert not conversation.session.running
    assert len(text_of_artifact(conversation)) == 20 * 32
    assert conversation.unknown == 0
    assert not any(isinstance(item, Resumed) for item in came)


async def test_t7_without_cursors_a_broken_stream_goes_on_with_a_snapshot_that_repeats_nothing(peer: int) -> None:
    whole, _ = await shown(peer, "chunks 20 32")
    async with cutting("127.0.0.1", peer) as proxy:
        proxy.cut_after = 3_000
        conversation, came = await shown(proxy.port, "chunks 20 32")
        assert proxy.cuts == 1
    assert text_of_artifact(conversation) == text_of_artifact(whole)
    assert [message.text for message in conversation.messages] == ["chunks 20 32"]
    # The task that opened the stream, and the one that it went on with, whether that had ended by then or not.
    assert sum(isinstance(item, Received) and isinstance(item.event, FullTask) for item in came) == 2


async def test_a_terminal_task_is_refused_without_a_cursor_and_an_unknown_one_is_missing(peer: int) -> None:
    conversation, _ = await shown(peer, "echo hi")
    (task,) = conversation.session.tasks
    async with Http(f"http://127.0.0.1:{peer}") as http:
        client = A2AClient(http)
        with pytest.raises(Ended):
            _ = [item async for item in client.subscribe(task.id)]
        with pytest.raises(Missing):
            await client.task("no-such-task")
        with pytest.raises(Ended):
            await client.cancel(task.id)


async def test_a_server_that_never_was_there_is_not_waited_for() -> None:
    with refusing_port() as port:
        async with Http(f"http://127.0.0.1:{port}") as http, asyncio.timeout(20):
            with pytest.raises(NotConnected):
                await A2AClient(http).send(user_message("hello"))


async def test_a_server_that_has_gone_is_given_up_after_the_time_that_was_given(peer: int) -> None:
    async with cutting("127.0.0.1", peer) as proxy, Http(f"http://127.0.0.1:{proxy.port}") as http:
        client = A2AClient(http, give_up_after=0.5)
        stream = client.stream(user_message("chunks 100000 32"))
        await anext(stream)
        await proxy.close()
        with pytest.raises(Unreachable):
            async with asyncio.timeout(20):
                _ = [item async for item in stream]
