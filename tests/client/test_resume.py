"""Broken streams with a real gateway: no event is missing or repeated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from tests.executor.scripted import Stepped
from tests.gateway.plane import Plane, fresh, open_behind, open_front
from tests.support.cutting import CuttingProxy, cutting

from taskplane.client import Client, Ended, FullTask, Received, State, Unreachable
from taskplane.client.task_log import Logged

pytestmark = pytest.mark.asyncio(loop_scope="module")
_EVENTS = 200


async def whole(client: Client, text: str) -> list[Received]:
    """The events of a message, over one connection."""
    return [received async for received in client.stream(text)]


def numbered(events: list[Received]) -> list[int]:
    return [int(received.cursor.rpartition("-")[2]) for received in events]


async def test_p12_a_stream_can_be_resumed_after_every_one_of_its_cursors(plane: Plane) -> None:
    """The task has ended, and a program with an old cursor gets exactly the rest."""
    async with Client(plane.gateway.url) as client:
        events = await whole(client, f"chunks {_EVENTS} 8")
        assert len(events) >= _EVENTS
        task_id = events[0].task_id
        for position in range(len(events)):
            rest = [received async for received in client.resume(task_id, events[position].cursor)]
            assert [(each.cursor, each.data) for each in rest] == [
                (each.cursor, each.data) for each in events[position + 1 :]
            ]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.more), 3, 20])
async def test_p12_a_stream_cut_every_few_events_has_each_event_once(
    plane: Plane, proxy: CuttingProxy, every: int
) -> None:
    proxy.cut_every = every
    async with Client(f"http://127.0.0.1:{proxy.port}") as client:
        events = await whole(client, f"chunks {_EVENTS} 8")
    assert numbered(events) == list(range(1, len(events) + 1))
    assert len(events) >= _EVENTS
    assert proxy.cuts >= len(events) // every - 1
    assert "".join(each.text for each in events) != ""
    resumed = [position for position, each in enumerate(events) if each.resumed_after is not None]
    assert [events[position].resumed_after for position in resumed] == [
        events[position - 1].cursor for position in resumed
    ]
    assert len(resumed) >= len(events) // every - 1


async def test_p12_a_log_cut_every_few_events_has_each_event_once(plane: Plane, proxy: CuttingProxy) -> None:
    async with Client(plane.gateway.url) as direct:
        task_id = (await whole(direct, "chunks 50 8"))[0].task_id
        expected = [logged.record async for logged in direct.log.events(task_id)]
    proxy.cut_every = 3
    async with Client(f"http://127.0.0.1:{proxy.port}") as client:
        found = [logged async for logged in client.log.events(task_id)]
    assert [logged.record for logged in found] == expected
    assert sum(logged.resumed_after is not None for logged in found) >= len(found) // 3 - 1


async def test_c5_a_stream_continues_after_a_restart_of_the_gateway(tmp_path: Path) -> None:
    """The first gateway ends after the first chunk; the stream continues at the second one, on another port."""
    agent = Stepped()
    async with open_behind(tmp_path, ("scripted", agent)) as behind, AsyncExitStack() as fronts:
        first = await fronts.enter_async_context(open_front(behind))
        async with (
            cutting("127.0.0.1", first.gateway.port) as proxy,
            Client(f"http://127.0.0.1:{proxy.port}") as client,
            aclosing(client.stream("go")) as stream,
        ):
            events = await until_text(stream, "begun, ")
            rest = asyncio.create_task(remaining(stream))
            await fronts.aclose()
            async with open_front(behind) as second:
                proxy.aim("127.0.0.1", second.gateway.port)
                agent.end()
                events += await asyncio.wait_for(rest, 20)
    assert numbered(events) == list(range(1, len(events) + 1))
    assert "".join(each.text for each in events) == "begun, ended"
    assert events[-1].state == "completed"


async def until_text(stream: AsyncIterator[Received], text: str) -> list[Received]:
    """The events until one with this text."""
    events: list[Received] = []
    async for received in stream:
        events.append(received)
        if received.text == text:
            break
    return events


async def remaining(stream: AsyncIterator[Received]) -> list[Received]:
    return [received async for received in stream]


async def test_t10_a_task_that_is_read_and_then_resumed_has_no_gap(plane: Plane) -> None:
    async with Client(plane.gateway.url, growing_text=True) as client:
        asked = await client.get((await client.send("ask")).id)
        assert asked.state == "input-required"
        assert asked.cursor
        async with aclosing(client.resume(asked.id, asked.cursor)) as stream:
            following = asyncio.create_task(remaining(stream))
            await client.send("blue", task=asked.id)
            events = await asyncio.wait_for(following, 20)
        log = [logged async for logged in client.log.events(asked.id, after=asked.cursor)]
    assert [each.cursor for each in events] == [logged.cursor for logged in log if logged.event is not None]
    assert events[-1].state == "completed"


async def test_a_resume_without_a_cursor_begins_with_the_whole_task(plane: Plane) -> None:
    async with Client(plane.gateway.url) as client:
        asked = await client.get((await client.send("ask")).id)
        async with aclosing(client.resume(asked.id)) as stream:
            first = await anext(stream)
        assert isinstance(first.event, FullTask)
        assert (first.event.id, first.cursor) == (asked.id, asked.cursor)
        await client.cancel(asked.id)
        ended = await client.get(asked.id)
        with pytest.raises(Ended) as refused:
            await anext(client.resume(ended.id))
        assert (refused.value.code, refused.value.retryable) == (-32004, False)
        assert [each async for each in client.resume(ended.id, ended.cursor)] == []


async def test_a_program_that_starts_again_with_its_key_gets_the_same_task(plane: Plane) -> None:
    """D12: the repeat of a stream begins with the present task; a message is done once."""
    key = fresh()
    async with Client(plane.gateway.url) as client:
        events = [received async for received in client.stream("count 3", key=key)]
    async with Client(plane.gateway.url) as later:
        (again,) = [received async for received in later.stream("count 3", key=key)]
        assert isinstance(again.event, FullTask)
        assert (again.task_id, again.state, again.cursor) == (events[0].task_id, "completed", events[-1].cursor)


async def test_p12_a_quiet_stream_and_log_outlive_breaks_that_are_further_apart_than_the_time_to_give_up(
    plane: Plane, proxy: CuttingProxy
) -> None:
    """Between its breaks the stream was open, with comments only."""
    async with (
        Client(plane.gateway.url) as direct,
        Client(f"http://127.0.0.1:{proxy.port}", give_up_after=1.0) as client,
        asyncio.timeout(30),
    ):
        asked = await direct.send("ask")
        assert isinstance(asked, FullTask)
        async with (
            aclosing(client.resume(asked.id, asked.cursor)) as stream,
            aclosing(client.log.events(asked.id, after=asked.cursor)) as log,
        ):
            following = asyncio.create_task(remaining(stream))
            logging = asyncio.create_task(last_state(log))
            await answered(proxy, 2)
            proxy.cut()
            await answered(proxy, 4)
            # The life of the streams, longer than the longest pause and than the time to give up.
            await asyncio.sleep(2.0)
            proxy.cut()
            await direct.send("blue", task=asked.id)
            assert (await following)[-1].state == "completed"
            assert await logging == "completed"


async def test_a_server_that_closes_each_stream_at_once_is_given_up() -> None:
    """A stream that opens is no success by itself."""

    async def close_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(close_at_once, "127.0.0.1", 0) as server, asyncio.timeout(20):
        port = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{port}", give_up_after=0.3) as client:
            with pytest.raises(Unreachable) as lost:
                await anext(client.log.events("t"))
    assert lost.value.reason == "STREAM_CLOSED"


async def last_state(log: AsyncIterator[Logged]) -> State | None:
    return [logged async for logged in log][-1].state


async def answered(proxy: CuttingProxy, connections: int) -> None:
    """Until so many connections have passed bytes towards the client."""
    while proxy.answers < connections:
        await asyncio.sleep(0.01)


async def test_a_stream_without_success_is_given_up_after_the_given_time(plane: Plane, proxy: CuttingProxy) -> None:
    there = f"http://127.0.0.1:{proxy.port}"
    async with Client(there, give_up_after=0.3) as client, aclosing(client.stream("slow 100")) as stream:
        first = await anext(stream)
        await proxy.close()
        with pytest.raises(Unreachable) as lost:
            async with asyncio.timeout(20):
                await remaining(stream)
        assert lost.value.retryable
    async with Client(plane.gateway.url) as direct:
        await direct.cancel(first.task_id)
