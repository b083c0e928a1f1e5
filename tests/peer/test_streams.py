"""Streams and their cost, where the SDK's server beside them grows, cuts off, repeats and forgets."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from bench.counting import bytes_counted
from bench.load import chunk
from bench.peer import Workloads
from tests.gateway.bindings import Client, Grpc, JsonRpc, Rest
from tests.gateway.plane import open_all
from tests.peer.peers import (
    WHOLE,
    Executions,
    Pieces,
    PiecesAgent,
    bytes_per_chunk,
    in_state,
    joined,
    parts,
    pieces,
    sdk_on_sqlite,
    streamed,
)
from tests.support.sdk_server import sdk_server
from tests.system.wire import Sse, call, client, stream, task_of, text_message, until

COMPLETED = "TASK_STATE_COMPLETED"
# A client that reads little: the rest of a stream waits at the server.
SMALL = 32 * 1024


async def test_w1_the_bytes_of_an_event_do_not_grow_with_its_stream(tmp_path: Path) -> None:
    """W1: 2,000 chunks cost no more each than 250, but for a twentieth. There each costs three times as much in a
    stream that is four times as long."""
    with bytes_counted():
        async with open_all(tmp_path) as plane, client(plane.gateway.url) as http:
            short, long = [await bytes_per_chunk(http, count) for count in (250, 2_000)]
        async with sdk_on_sqlite(Workloads(), tmp_path / "sdk.db") as peer, client(peer.url) as http:
            there = [await bytes_per_chunk(http, count) for count in (25, 100)]
    print(f"bytes per event: {short:.0f} and {long:.0f}; there {there}")
    assert long < 1.05 * short
    assert there[1] > 3 * there[0]


async def test_w3_two_thousand_appended_texts_are_one_part(tmp_path: Path) -> None:
    """W3: with the bytes that a watcher received. There each text stays a part of its own."""
    async with open_all(tmp_path) as plane, sdk_server(Workloads()) as peer:
        async with client(plane.gateway.url) as http:
            found = await streamed(http, "chunks 2000 16")
            assert await parts(http, task_of(found)["id"]) == ["".join(pieces(found))]
            assert pieces(found) == [chunk(index, 16) for index in range(2_000)]
        async with client(peer.url) as http:
            found = await streamed(http, "chunks 200 16")
            assert (
                await parts(http, task_of(found)["id"]) == pieces(found) == [chunk(index, 16) for index in range(200)]
            )


@asynccontextmanager
async def late_reader(url: str, chunks: int) -> AsyncGenerator[list[Sse]]:
    """The events that a client gets that reads on only when the task has completed."""
    buffers = [(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)]
    transport = httpx.AsyncHTTPTransport(socket_options=buffers, verify=False)
    async with (
        httpx.AsyncClient(base_url=url, timeout=60.0, transport=transport) as slow,
        client(url) as http,
        stream(slow, "SendStreamingMessage", {"message": text_message(f"chunks {chunks} 64")}) as events,
    ):
        coming = aiter(events)
        found = [await anext(coming)]
        await until(partial(in_state, http, task_of(found)["id"], COMPLETED), 60.0)
        found += [event async for event in coming]
        yield found


async def test_w8_a_slow_reader_gets_every_event_or_resumes_where_it_was_cut_off(tmp_path: Path) -> None:
    """W8: all 3,003 of them, in order; from where it leaves, exactly the rest. There its stream ends after a piece of
    an artifact, without an error."""
    async with open_all(tmp_path) as plane, sdk_server(Workloads(), send_buffer=SMALL) as peer:
        async with late_reader(plane.gateway.url, 3_000) as found, client(plane.gateway.url) as http:
            assert [event.generation for event in found] == list(range(1, 3_004))
            task_id = task_of(found)["id"]
            for cut in (1, 1_200, 3_002):
                header = {"Last-Event-ID": found[cut - 1].id}
                async with stream(http, "SubscribeToTask", {"id": task_id}, **header) as events:
                    assert [event.id async for event in events] == [event.id for event in found[cut:]]
        async with late_reader(peer.url, 2_000) as found:
            assert len(found) < 2_000
            assert all("artifactUpdate" in event.result for event in found[-10:])


async def test_w9_a_reader_that_joins_a_stream_has_each_piece_once(tmp_path: Path) -> None:
    """W9: 50 readers at random moments of a stream of 200 pieces. There some have pieces twice."""
    seen, there = Executions(), Executions()
    agent = ("pieces", PiecesAgent(seen))
    async with open_all(tmp_path, agent, max_streams_per_principal=60) as plane, client(plane.gateway.url) as http:
        assert await joined(http, http, seen, 50) == [WHOLE] * 50
    async with sdk_server(Pieces(there)) as peer, client(peer.url) as http:
        assert max(map(len, await joined(http, http, there, 20))) > len(WHOLE)


@pytest.mark.more
@pytest.mark.parametrize("binding", [JsonRpc(), Rest(), Grpc()], ids=lambda binding: binding.name)
async def test_w10_a_finished_task_is_replayed_from_every_position_after_a_restart(
    binding: JsonRpc | Rest | Grpc, tmp_path: Path
) -> None:
    """W10: by each binding. Without a cursor it is refused, as A2A demands."""
    async with open_all(tmp_path) as plane, client(plane.gateway.url) as http:
        found = await streamed(http, "chunks 197 16")
    assert len(found) == 200
    task_id = task_of(found)["id"]
    before = found[0].id.replace("-1", "-0")
    async with open_all(tmp_path) as plane:
        http_client = Client(plane, binding)
        for cut, cursor in enumerate([before, *(event.id for event in found)]):
            events = await http_client.streamed("SubscribeToTask", {"id": task_id}, last_event_id=cursor)
            assert [event.id for event in events] == [event.id for event in found[cut:]]
        assert (await http_client.error("SubscribeToTask", {"id": task_id})).reason == "UNSUPPORTED_OPERATION"


async def test_w10_the_sdk_has_neither_ids_nor_a_stream_of_a_finished_task(tmp_path: Path) -> None:
    """W10: the SDK's server knows no place in a stream."""
    async with sdk_on_sqlite(Workloads(), tmp_path / "sdk.db") as peer, client(peer.url) as http:
        found = await streamed(http, "chunks 20 16")
        assert {event.id for event in found} == {""}
        refused = await call(http, "SubscribeToTask", {"id": task_of(found)["id"]})
        assert refused["error"]["code"] == -32004
