"""The order in which a request is checked, the same over each binding of HTTP (a2a K6)."""

import hashlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.gateway.plane import Json, Plane, open_all, request, said

from taskplane.agents.demo import Demo
from taskplane.api.a2a.v1.a2a_pb2 import AgentExtension

NEEDED: Final = "urn:needed"
KEY: Final = "Bearer ann.s3cret"
LONG: Final = "x" * 256
METHODS: Final = {"jsonrpc-1.0": "SubscribeToTask", "jsonrpc-0.3": "tasks/resubscribe"}

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Demanding(Demo):
    """The demo, of clients that know an extension. `streams`: whether its card says that it streams."""

    def __init__(self, *, streams: bool) -> None:
        super().__init__()
        self.card.capabilities.streaming = streams
        self.card.capabilities.extensions.append(AgentExtension(uri=NEEDED, required=True))


@dataclass
class Sent:
    """A subscription to a task that has ended, without any other fault."""

    form: str
    task: str
    method: str = ""
    agent: str = "streaming"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    def __post_init__(self) -> None:
        self.headers = {"Authorization": KEY, "Content-Type": "application/json", "A2A-Extensions": NEEDED}
        self.method = METHODS.get(self.form, "")

    async def code(self, plane: Plane) -> int:
        """Return the code of the error in JSON-RPC, or the HTTP status of a caller that is not known."""
        base = f"/agents/{self.agent}"
        if self.method:
            body = json.dumps(request(self.method, {"id": self.task})).encode()
            path = base
        else:
            body, path = b"{}", f"{base}{'/v1' if self.form == 'rest-0.3' else ''}/tasks/{self.task}:subscribe"
        reply = await plane.http.post(path, content=self.body or body, headers=self.headers)
        if reply.status_code == 401:
            return 401
        text = reply.text.removeprefix("data: ")
        return _code(json.loads(text), reply.status_code)


_CODES: Final = {
    ("VERSION_NOT_SUPPORTED", 400): -32009,
    ("EXTENSION_SUPPORT_REQUIRED", 400): -32008,
    ("UNSUPPORTED_OPERATION", 400): -32004,
    ("TASK_NOT_FOUND", 404): -32001,
    ("CONTENT_TYPE_NOT_SUPPORTED", 415): -32005,
    ("PARSE_ERROR", 400): -32700,
    ("INVALID_PARAMS", 400): -32602,
}


def _code(body: Json, status: int) -> int:
    if "code" in body:
        return int(body["code"])
    error: Any = body["error"]
    return int(error["code"]) if "jsonrpc" in body else _CODES[error["details"][0]["reason"], status]


def _unknown_caller(sent: Sent) -> None:
    del sent.headers["Authorization"]


def _text(sent: Sent) -> None:
    sent.headers["Content-Type"] = "text/plain"


def _broken(sent: Sent) -> None:
    sent.body = b"{"


def _no_method(sent: Sent) -> None:
    if sent.method:
        sent.method = "Nothing"


def _version(sent: Sent) -> None:
    sent.headers["A2A-Version"] = "99.0"


def _no_extension(sent: Sent) -> None:
    del sent.headers["A2A-Extensions"]


def _long_id(sent: Sent) -> None:
    sent.task = LONG


def _no_stream(sent: Sent) -> None:
    sent.agent = "unary"


def _unknown_task(sent: Sent) -> None:
    if sent.task != LONG:
        sent.task = "none"


FAULTS: Final = (
    (_unknown_caller, 401),
    (_text, -32005),
    (_broken, -32700),
    (_no_method, -32601),
    (_version, -32009),
    (_no_extension, -32008),
    (_long_id, -32602),
    (_no_stream, -32004),
    (_unknown_task, -32001),
)
"""The faults in the order of their checks, with their errors. A task that has ended is the last one."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[tuple[Plane, str], None]:
    """A plane that requires a key, with the id of a task that has ended."""
    folder: Path = tmp_path_factory.mktemp("strict")
    keys = folder / "keys.toml"
    keys.write_text(f'[[keys]]\nid = "ann"\nowner = "ann"\nsha256 = "{hashlib.sha256(b"s3cret").hexdigest()}"\n')
    agents = (("streaming", Demanding(streams=True)), ("unary", Demanding(streams=False)))
    async with open_all(folder, *agents, api_keys=str(keys)) as plane:
        plane.http.headers["A2A-Version"] = ""
        headers = {"Authorization": KEY, "A2A-Extensions": NEEDED}
        reply = await plane.http.post("/", json=request("SendMessage", {"message": said("hello")}), headers=headers)
        yield plane, reply.json()["result"]["task"]["id"]


@pytest.mark.parametrize("form", ["jsonrpc-1.0", "jsonrpc-0.3", "rest-1.0", "rest-0.3"])
async def test_a_request_with_several_faults_gets_the_error_of_the_check_that_comes_first(
    strict: tuple[Plane, str], form: str
) -> None:
    """a2a K6: caller, media type, JSON, method, version, extensions, params, capability, task, state."""
    plane, ended = strict
    assert await Sent(form, ended).code(plane) == -32004
    for first, (_, code) in enumerate(FAULTS):
        if code == -32601 and form not in METHODS:
            continue
        sent = Sent(form, ended)
        for fault, _ in FAULTS[first:]:
            fault(sent)
        assert await sent.code(plane) == code, (form, first)
