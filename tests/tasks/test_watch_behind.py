"""Watches that catch up with a long log, and those that have caught up."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.tasks.plane import TERMINAL, chunk, opened

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.tasks.pages import PAGE_EVENTS
from taskplane.tasks.watch.stream import BATCH_BYTES

KINDS = pytest.mark.parametrize("kind", ["inprocess", "socket"])


async def generations(stream: AsyncIterator[pb.WatchTaskResponse]) -> list[int]:
    """All that a stream brings until its end."""
    return [event.generation async for response in stream for event in response.events.events]


async def following(stream: AsyncIterator[pb.WatchTaskResponse]) -> list[int]:
    """The next message."""
    return [event.generation for event in (await anext(stream)).events.events]


@KINDS
async def test_a_watcher_that_catches_up_gets_short_messages(url: str, kind: str) -> None:
    """C13: limited in events and in bytes, so each message delays other watchers only for a moment."""
    async with opened(url, lease_ttl=60.0) as plane:
        run = await plane.create(working=True)
        await run.chunks(700, each=350)
        await run.chunks(20, size=20_000, each=20)
        await run.complete()
    async with opened(url, lease_ttl=60.0) as plane:
        seen: list[int] = []
        async for response in plane.watch(run.id, run.at(1), stop_at=TERMINAL, kind=kind):
            events = response.events.events
            assert len(events) <= PAGE_EVENTS
            assert sum(len(event.event.SerializeToString()) for event in events) <= BATCH_BYTES
            seen.extend(event.generation for event in events)
        assert seen == list(range(2, 724))


@KINDS
async def test_a_watcher_at_the_end_does_not_wait_for_watchers_that_catch_up(url: str, kind: str) -> None:
    """C13: while others read the middle of a long log, a watcher of its end gets the next event."""
    async with opened(url, lease_ttl=60.0) as plane:
        run = await plane.create(working=True)
        await run.chunks(1000, each=500)
    async with opened(url, lease_ttl=60.0) as plane:
        run.plane = plane
        end = plane.watch(run.id, run.at(1001), kind=kind)
        assert await following(end) == [1002]
        async with plane.pacer.piece():
            readers = [plane.watch(run.id, run.at(1), stop_at=TERMINAL, kind=kind) for _ in range(5)]
            for reader in readers:
                assert len(await following(reader)) == PAGE_EVENTS
            rest = [asyncio.create_task(generations(reader)) for reader in readers]
            await run.append(chunk(append=True))
            assert await following(end) == [1003]
            assert not any(each.done() for each in rest)
            await run.complete()
            assert await following(end) == [1004]
        for seen in await asyncio.gather(*rest):
            assert seen == list(range(2 + PAGE_EVENTS, 1005))
        end.cancel()
