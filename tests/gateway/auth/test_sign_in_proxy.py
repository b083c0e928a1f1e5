"""The sign-in proxy of docs/security.md: a real nginx that requires passwords and sends the user name to the
gateway."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest
import pytest_asyncio
from tests.gateway.plane import Json, Plane, events, open_behind, open_front, request, said
from tests.repo.tree import ROOT
from tests.support.nginx import NO_NGINX, nginx

pytestmark = [pytest.mark.asyncio(loop_scope="module"), NO_NGINX]

PASSWORD: Final = "a long password"
ANN: Final = httpx.BasicAuth("ann", PASSWORD)
BOB: Final = httpx.BasicAuth("bob", PASSWORD)


@dataclass(frozen=True)
class Signing:
    """A gateway that trusts the proxy, and a client of the proxy."""

    plane: Plane
    http: httpx.AsyncClient


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def signing(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Signing, None]:
    """The proxy with the configuration lines of the page, for two users."""
    folder = tmp_path_factory.mktemp("nginx")
    page = (ROOT / "docs" / "security.md").read_text()
    [adding] = re.findall(r"```sh\n(printf .*?)```", page, re.DOTALL)
    [location] = re.findall(r"```nginx\n(location / .*?)```", page, re.DOTALL)
    for name in ("ann", "bob"):
        await ran(adding.replace("ann", name), folder)
    async with (
        open_behind(tmp_path_factory.mktemp("plane")) as behind,
        open_front(behind, proxy_secret="change-me") as plane,
        nginx(location.replace("http://127.0.0.1:8080", plane.gateway.url), folder) as url,
        httpx.AsyncClient(base_url=url, timeout=20.0, verify=False) as http,
    ):
        yield Signing(plane, http)


async def ran(command: str, folder: Path) -> None:
    """Run a command of the page in a folder."""
    process = await asyncio.create_subprocess_exec("bash", "-c", command, cwd=folder)
    assert await process.wait() == 0


async def user_of(reply: httpx.Response) -> Json | None:
    """Return the caller that the gateway sees."""
    assert reply.status_code == 200, reply.text
    caller: Json | None = reply.json()["data"]["caller"]
    return caller


async def test_a_call_without_a_password_does_not_reach_the_gateway(signing: Signing) -> None:
    reply = await signing.http.get("/api/ui-config")
    assert (reply.status_code, reply.headers["www-authenticate"]) == (401, 'Basic realm="taskplane"')


@pytest.mark.parametrize(
    "forged",
    [
        [],
        [("X-User-Id", "bob")],
        [("X-User-Id", "bob"), ("X-User-Id", "bob")],
        [("x-user-id", "bob"), ("X-Taskplane-Proxy-Secret", "of the client")],
        [("X-API-Key", "bob.secret")],
    ],
)
@pytest.mark.parametrize("query", ["", "?user_id=bob"])
async def test_the_signed_in_user_is_the_caller(signing: Signing, forged: list[tuple[str, str]], query: str) -> None:
    """Headers and queries of the client are ignored."""
    reply = await signing.http.get(f"/api/ui-config{query}", headers=forged, auth=ANN)
    caller = await user_of(reply)
    assert caller is not None and caller["user"] == "ann"


async def test_a_call_that_bypasses_the_proxy_is_refused_with_401(signing: Signing) -> None:
    reply = await signing.plane.http.get("/api/sessions", headers={"X-User-Id": "ann"})
    assert reply.status_code == 401


async def test_users_of_the_proxy_see_their_own_sessions_only(signing: Signing) -> None:
    sent = await signing.http.post("/", json=request("SendMessage", {"message": said("hello")}), auth=ANN)
    session = sent.json()["result"]["task"]["contextId"]
    assert (await signing.http.get(f"/api/sessions/{session}", auth=ANN)).status_code == 200
    assert (await signing.http.get(f"/api/sessions/{session}", auth=BOB)).status_code == 404


async def test_the_proxy_does_not_buffer_streams(signing: Signing) -> None:
    """The first event arrives while the task runs."""
    body = json.dumps(request("SendStreamingMessage", {"message": said("slow 400")}))
    headers = {"Content-Type": "application/json"}
    async with asyncio.timeout(20), signing.http.stream("POST", "/", content=body, headers=headers, auth=ANN) as reply:
        first = await anext(events(reply))
    task = first.data["result"]["task"]["id"]
    canceled = await signing.http.post("/", json=request("CancelTask", {"id": task}), auth=ANN)
    assert canceled.json()["result"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_a_wrong_password_does_not_reach_the_gateway(signing: Signing) -> None:
    wrong = await signing.http.get("/api/ui-config", auth=httpx.BasicAuth("ann", "another one"))
    assert wrong.status_code == 401
