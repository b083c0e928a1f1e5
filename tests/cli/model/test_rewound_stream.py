"""The stream that answers a rewind, over connections that break, with a real plane."""

import asyncio
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import pytest
from tests.cli.command import json_of, session_of
from tests.support.cutting import CuttingProxy, cutting

from taskplane.cli.model.transcript import Transcript
from taskplane.client import Client, Received, rewind_message
from taskplane.client.events import FullTask, StatusUpdate, read_task


@pytest.fixture
async def proxy(url: str) -> AsyncGenerator[CuttingProxy]:
    """A proxy before the plane."""
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    async with cutting(server.hostname, server.port) as between:
        yield between


async def begun(url: str, *texts: str) -> tuple[str, Transcript]:
    """A session with one turn for each text, and a client that shows it."""
    session = await asyncio.to_thread(session_of, url, *texts)
    shown = await asyncio.to_thread(json_of, url, "session", "show", session)
    conversation = Transcript(session)
    conversation.load(map(read_task, shown["tasks"]))
    return session, conversation


async def rewound(port: int, session: str, conversation: Transcript, number: int, text: str) -> list[Received]:
    """Rewinds as a client does, and returns the received events."""
    invocation = conversation.turns[number - 1].message.invocation_id
    conversation.rewind(invocation)
    came: list[Received] = []
    async with Client(f"http://127.0.0.1:{port}", growing_text=True) as client:
        async for received in client.stream(rewind_message(session, invocation, text)):
            conversation.apply(received.event, answers_rewind=conversation.rewinding)
            came.append(received)
    return came


async def test_r4_a_rewind_is_answered_by_one_full_task_with_its_history(url: str, proxy: CuttingProxy) -> None:
    """R11: the task replaces the guessed conversation, and the stream ends."""
    session, conversation = await begun(url, "one", "two", "three")
    (answer,) = await rewound(proxy.port, session, conversation, 2, "")
    assert isinstance(answer.event, FullTask)
    assert (answer.event.id, answer.event.state) == (session, "completed")
    assert [message.text for message in conversation.messages] == ["one", "one"]
    assert not conversation.rewinding


async def test_r6_a_rewind_with_a_next_message_streams_one_task_and_then_the_events_of_the_next_turn(
    url: str, proxy: CuttingProxy
) -> None:
    session, conversation = await begun(url, "one", "two")
    came = await rewound(proxy.port, session, conversation, 2, "anew")
    assert [type(item.event) for item in came[:2]] == [FullTask, StatusUpdate]
    assert sum(isinstance(item.event, FullTask) for item in came) == 1
    second = came[1].event
    assert isinstance(second, StatusUpdate)
    assert second.state == "submitted"
    assert conversation.messages[-1].text == "anew"
    assert [task.state for task in conversation.session.tasks] == ["completed", "completed"]


@pytest.mark.parametrize("cut_after", [300, 1_200, 1_800, 2_400, 4_000])
async def test_r6_a_connection_cut_anywhere_makes_no_second_turn(url: str, proxy: CuttingProxy, cut_after: int) -> None:
    """P12: the message is sent again under its key until the client has a cursor of the new task."""
    session, conversation = await begun(url, "one", "two")
    proxy.cut_after = cut_after
    await rewound(proxy.port, session, conversation, 2, "chunks 40 32")
    assert proxy.cuts == 1
    assert [message.text for message in conversation.messages][:2] == ["one", "one"]
    ((_, artifact),) = conversation.artifacts.items()
    assert sum(len(part["text"]) for part in artifact.parts) == 40 * 32
    shown = await asyncio.to_thread(json_of, url, "session", "show", session)
    assert [info["state"] for info in shown["taskInfos"]] == ["completed", "completed"]


async def test_r9_a_rewind_of_a_turn_that_was_cut_elsewhere_restores_the_messages_and_shows_the_reason(
    url: str, proxy: CuttingProxy
) -> None:
    session, conversation = await begun(url, "one", "two")
    await asyncio.to_thread(json_of, url, "session", "rewind", session, "--before-message", "2")
    (answer,) = await rewound(proxy.port, session, conversation, 2, "anew")
    assert isinstance(answer.event, FullTask)
    assert answer.event.state == "failed"
    assert [message.text for message in conversation.messages] == ["one", "one", "two", "two"]
    assert "was not rewound" in conversation.notice
