"""The client with the server of the official SDK, which has neither cursors nor keys."""

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.repo.tree import ROOT
from tests.support.cutting import cutting
from tests.support.ports import free_port, refusing_port

from taskplane.cli.model.transcript import Transcript
from taskplane.client import Client, Received
from taskplane.client.events import FullTask
from taskplane.client.failures import Ended, Missing, NotConnected, Unreachable


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


async def shown(port: int, text: str) -> tuple[Transcript, list[Received]]:
    """The conversation after one message, and all received events."""
    conversation = Transcript()
    came: list[Received] = []
    async with Client(f"http://127.0.0.1:{port}") as client:
        async for received in client.stream(text):
            came.append(received)
            conversation.apply(received.event)
    return conversation, came


def text_of_artifact(conversation: Transcript) -> str:
    (artifact,) = conversation.artifacts.values()
    return "".join(part["text"] for part in artifact.parts)


def _once(text: str) -> str:
    """The text without chunks of 32 characters that repeat the one before them."""
    chunks = [text[begin : begin + 32] for begin in range(0, len(text), 32)]
    return "".join(chunk for chunk, _ in itertools.groupby(chunks))


async def test_a_stream_of_an_official_server_is_shown(peer: int) -> None:
    conversation, came = await shown(peer, "chunks 20 32")
    assert not conversation.session.running
    assert len(text_of_artifact(conversation)) == 20 * 32
    assert conversation.unknown == 0
    assert all(received.resumed_after is None for received in came)


async def test_t7_without_cursors_a_broken_stream_continues_with_a_snapshot_that_repeats_nothing(peer: int) -> None:
    whole, _ = await shown(peer, "chunks 20 32")
    async with cutting("127.0.0.1", peer) as proxy:
        proxy.cut_after = 3_000
        conversation, came = await shown(proxy.port, "chunks 20 32")
        assert proxy.cuts == 1
    # That server may send a chunk of the snapshot once more after it (W9).
    assert _once(text_of_artifact(conversation)) == text_of_artifact(whole)
    assert [message.text for message in conversation.messages] == ["chunks 20 32"]
    # The task that opened the stream, and the task at the resume, which may have ended by then.
    assert sum(isinstance(received.event, FullTask) for received in came) == 2


async def test_an_ended_task_refuses_resume_and_cancel_and_an_unknown_one_is_missing(peer: int) -> None:
    conversation, _ = await shown(peer, "echo hi")
    (task,) = conversation.session.tasks
    async with Client(f"http://127.0.0.1:{peer}") as client:
        with pytest.raises(Ended):
            _ = [item async for item in client.resume(task.id)]
        with pytest.raises(Missing):
            await client.get("no-such-task")
        with pytest.raises(Ended):
            await client.cancel(task.id)


async def test_a_server_that_was_never_reached_is_given_up_early() -> None:
    with refusing_port() as port:
        async with Client(f"http://127.0.0.1:{port}") as client, asyncio.timeout(20):
            with pytest.raises(NotConnected):
                await client.send("hello")


async def test_a_server_that_is_gone_is_given_up_after_the_given_time(peer: int) -> None:
    async with (
        cutting("127.0.0.1", peer) as proxy,
        Client(f"http://127.0.0.1:{proxy.port}", give_up_after=0.5) as client,
    ):
        stream = client.stream("chunks 100000 32")
        await anext(stream)
        await proxy.close()
        with pytest.raises(Unreachable):
            async with asyncio.timeout(20):
                _ = [item async for item in stream]
