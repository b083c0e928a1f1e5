"""`taskplane card check URL`: the card of any A2A server."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.cli.command import taskplane
from tests.support.http_thread import serving_thread

from taskplane.gateway.a2a.foreign_card import as_1_0

SKILL = {"id": "s", "name": "s", "description": "s", "tags": ["t"]}
COMMON: dict[str, Any] = {
    "name": "n",
    "description": "d",
    "version": "1",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [SKILL],
}


@contextmanager
def serving(files: Mapping[str, Any], seen: list[str] | None = None) -> Generator[str]:
    """A server with these JSON files; `URL` in them stands for its own address. `seen`: the keys that clients sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers.get("Authorization", ""))
            found = files.get(self.path)
            body = json.dumps(found).replace("URL", f"http://{self.headers['Host']}").encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with serving_thread(Handler) as url:
        yield url


OLD = {**COMMON, "protocolVersion": "0.3.0", "url": "URL/rpc", "preferredTransport": "JSONRPC"}
NEW = {**COMMON, "supportedInterfaces": [{"url": "URL/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]}


@pytest.mark.parametrize("card", [OLD, NEW], ids=["0.3", "1.0"])
@pytest.mark.parametrize("path", ["/.well-known/agent-card.json", "/.well-known/agent.json", "/a/card.json"])
def test_a_complete_card_of_another_server_has_no_warnings(card: dict[str, Any], path: str) -> None:
    with serving({path: card}) as url:
        done = taskplane("card", "check", url + (path if path.startswith("/a") else ""))
    assert (done.returncode, done.stderr) == (0, "No warnings.\n")


def test_a_careless_card_is_described_and_not_refused() -> None:
    """Null lists, missing members and an unknown version are warnings."""
    card = {**OLD, "skills": None, "defaultInputModes": None, "protocolVersion": "0.2", "additionalInterfaces": None}
    with serving({"/.well-known/agent-card.json": card}) as url:
        done = taskplane("card", "check", url, "-o", "json")
    assert done.returncode == 1, done.stderr
    found = {(one["code"], one["detail"]) for one in json.loads(done.stdout)}
    assert found == {("MISSING", "defaultInputModes"), ("NO_SKILLS", ""), ("UNKNOWN_VERSION", "0.2")}


def test_a_server_without_a_card_gives_a_missing_card() -> None:
    with serving({}) as url:
        done = taskplane("card", "check", url)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (5, "  NO_CARD")


def test_the_api_key_of_the_plane_is_not_sent_elsewhere() -> None:
    seen: list[str] = []
    with serving({"/.well-known/agent-card.json": NEW}, seen) as url:
        taskplane("card", "check", url, env={"TASKPLANE_TOKEN": "ann.secret"})
        taskplane("card", "check", url, "--token-env", "THEIRS", env={"THEIRS": "theirs"})
    assert seen == ["", "Bearer theirs"]


@pytest.mark.parametrize("member", ["skills", "supportedInterfaces", "capabilities", "additionalInterfaces"])
@pytest.mark.parametrize("value", [None, 3, "text", [3, None], {"a": 1}])
def test_members_of_another_type_are_left_out(member: str, value: object) -> None:
    assert isinstance(as_1_0({**OLD, member: value})["supportedInterfaces"], list)
