"""Streams that are silent: comments keep the connection of a client that waits a few seconds for a byte."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from tests.executor.scripted import Stepped
from tests.gateway.bindings import HttpBinding
from tests.gateway.plane import open_all, said

from taskplane.gateway.settings import GatewaySettings

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_silent_stream_has_comments_that_are_no_events_and_outlives_the_patience_of_its_client(
    http_binding: HttpBinding, tmp_path: Path
) -> None:
    """a2a C15, K14: no blank line follows a comment, and every event has an id and data. By default a comment comes
    before clients that wait 5 seconds give up."""
    assert GatewaySettings().keep_alive == 3.0
    agent = Stepped()
    async with open_all(tmp_path, ("a", agent), keep_alive=0.05) as plane:
        framed = http_binding.frame("SendStreamingMessage", {"message": said("go")})
        patience = httpx.Timeout(20.0, read=2.0)
        received = b""
        async with (
            asyncio.timeout(20),
            plane.http.stream(framed.verb, framed.path, json=framed.body, timeout=patience) as reply,
        ):
            async for piece in reply.aiter_bytes():
                received += piece
                # Longer than the client would wait for a byte.
                if received.count(b": ping\n") == 50:
                    agent.end()
    assert received.count(b": ping\n") >= 50
    events = received.replace(b": ping\n", b"").decode()
    assert re.fullmatch(r"(id: [a-z0-9]+-\d+\ndata: [^\n]+\n\n)+", events), events
    assert b"\n\n\n" not in received and b": ping\n\n" not in received
