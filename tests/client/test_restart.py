"""A plane that is killed and started again in mid-stream."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit

import pytest
from tests.cli.command import Dev, dev
from tests.support.cutting import cutting

from taskplane.client import Client

pytestmark = pytest.mark.more


def address(plane: Dev) -> tuple[str, int]:
    server = urlsplit(plane.url)
    assert server.hostname is not None
    assert server.port is not None
    return server.hostname, server.port


async def test_c5_a_stream_continues_after_a_restart_of_the_killed_plane_without_loss(tmp_path: Path) -> None:
    """The stream ends with the failure of the task, because its agent was lost."""
    with dev(cwd=tmp_path, afresh=True) as first:
        async with (
            cutting(*address(first)) as proxy,
            Client(f"http://127.0.0.1:{proxy.port}") as client,
            aclosing(client.stream("slow 1000", key="the one")) as stream,
        ):
            events = [await anext(stream) for _ in range(5)]
            first.signal(SIGKILL)
            with dev(cwd=tmp_path, afresh=True) as second:
                proxy.aim(*address(second))
                async with asyncio.timeout(60):
                    events += [received async for received in stream]
                log = [logged async for logged in client.log.events(events[0].task_id)]
                (again,) = [received async for received in client.stream("slow 1000", key="the one")]
    assert events[-1].state == "failed"
    assert sum(received.resumed_after is not None for received in events) == 1
    shown = [received.cursor for received in events]
    assert shown == [logged.cursor for logged in log if logged.event is not None]
    assert (again.task_id, again.cursor) == (events[0].task_id, shown[-1])
