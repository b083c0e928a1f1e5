"""Remote agents whose servers write the line breaks that JSON allows inside texts unescaped."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.agents.adapters.test_remote import remote
from tests.executor.plane import Stores, open_plane, text
from tests.support.sdk_server import serving

from taskplane.agents.adapters.peers.event_lines import Lines
from taskplane.agents.adapters.peers.refused import RefusedAnswer
from taskplane.api.a2a.v1 import a2a_pb2 as a2a

BREAKS = "a\u2028b\u2029c\x85d\x0be"


class Peer:
    """A server of one version that escapes only the characters that must be escaped, and sends pieces of a few
    bytes."""

    def __init__(self, version: str) -> None:
        self._version = version
        routes = [Route("/.well-known/agent-card.json", self.card), Route("/rpc", self.call, methods=["POST"])]
        self.app = Starlette(routes=routes)

    async def card(self, request: Request) -> Response:
        url = f"{request.base_url}rpc"
        old = {"protocolVersion": "0.3.0", "url": url, "preferredTransport": "JSONRPC"}
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {
            "name": "Peer",
            "description": BREAKS,
            "version": "1",
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **(old if self._version == "0.3" else {"supportedInterfaces": [interface]}),
        }
        return JSONResponse(card)

    async def call(self, request: Request) -> Response:
        asked = await request.json()
        context = asked["params"]["message"].get("contextId") or "c"

        async def body() -> AsyncIterator[bytes]:
            for result in self._events(context):
                line = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}, ensure_ascii=False)
                event = f"data: {line}\r\n\r\n".encode()
                for begin in range(0, len(event), 7):
                    yield event[begin : begin + 7]

        return StreamingResponse(body(), media_type="text/event-stream")

    def _events(self, context: str) -> list[Any]:
        place = {"taskId": "t", "contextId": context}
        if self._version == "0.3":
            said = {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": BREAKS}]}
            done = {"kind": "status-update", "final": True, **place}
            task = {"kind": "task", "id": "t", "contextId": context, "status": {"state": "working"}}
            return [task, {**done, "status": {"state": "completed", "message": said}}]
        said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": BREAKS}]}
        status = {"state": "TASK_STATE_COMPLETED", "message": said}
        task = {"id": "t", "contextId": context, "status": {"state": "TASK_STATE_WORKING"}}
        return [{"task": task}, {"statusUpdate": {**place, "status": status}}]


@pytest.mark.parametrize("version", ["0.3", "1.0"])
async def test_unescaped_line_breaks_of_a_peer_are_understood(stores: Stores, version: str) -> None:
    async with serving(Peer(version).app) as server, open_plane(stores, ("far", await remote(server.url))) as plane:
        task = await plane.run("go", context_id="c")
    assert task.status.state == a2a.TASK_STATE_COMPLETED, text(task.status.message)
    assert text(task.status.message) == BREAKS


@given(st.lists(st.text(st.sampled_from("ab\r\n\u2028\x85"), max_size=5)))
def test_lines_end_at_cr_and_lf_wherever_a_text_is_cut(pieces: list[str]) -> None:
    lines = Lines()
    found = [line for piece in pieces for line in lines.feed(piece)]
    whole = "".join(pieces).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [*found, *lines.end()] == (whole if whole[-1] else whole[:-1])


def test_a_line_is_refused_at_its_limit() -> None:
    """Before its end is seen; no more of it is buffered."""
    lines = Lines(limit=8)
    assert list(lines.feed("12345678\n1234")) == ["12345678"]
    assert not list(lines.feed("5678"))
    with pytest.raises(RefusedAnswer, match="a line of more than"):
        list(lines.feed("9"))
