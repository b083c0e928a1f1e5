"""Identification of the caller, over all modes of authentication and all positions of a user name in a request.

`test_isolation_matrix` requests resources of other users on every route and method, under forged names.
"""

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from tests.gateway.auth.naming import KEYS, LOOPBACK, MODES, NAMED, PLACES, PROXY, SECRET, Place
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front, request, said


@dataclass(frozen=True)
class World:
    """A gateway for each mode of authentication, and a session and a task of the user `NAMED`."""

    planes: Mapping[str, Plane]
    session: str
    task: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World, None]:
    folder = tmp_path_factory.mktemp("identity")
    keys = folder / "keys.toml"
    digest = hashlib.sha256(b"s3cret").hexdigest()
    keys.write_text("".join(f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\n{more}\n' for name, more in KEYS.items()))
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(open_behind(folder))
        planes: dict[str, Plane] = {}
        for name, mode in MODES.items():
            settings: Json = {**mode.settings, "proxy_operators": (NAMED,)}
            if "api_keys" in settings:
                settings["api_keys"] = str(keys)
            planes[name] = await stack.enter_async_context(open_front(behind, **settings))
        session = fresh()
        mine = {"Authorization": "Bearer olga_key.s3cret"}
        reply = await planes["keys"].http.post(
            "/", json=request("SendMessage", {"message": said("hello", contextId=session)}), headers=mine
        )
        yield World(planes, session, reply.json()["result"]["task"]["id"])


@dataclass(frozen=True)
class Requester:
    """Sends requests in one mode, with a user name in one position."""

    world: World
    mode: str
    place: Place

    async def ask(
        self, method: str, path: str, body: Json | None = None, *, lines: bytes | None = None
    ) -> httpx.Response:
        mode = MODES[self.mode]
        headers = [pair for pair in mode.headers.items() if not (self.place.instead and pair[0] == "X-User-Id")]
        if lines is not None:
            headers.append(("Content-Type", "application/x-ndjson"))
        joint = "&" if "?" in path else "?"
        return await self.world.planes[self.mode].http.request(
            method,
            path + (joint + self.place.query if self.place.query else ""),
            json=None if body is None else {**body, **self.place.body},
            content=lines,
            headers=[*headers, *self.place.headers],
        )

    async def rpc(self, method: str, params: Json) -> httpx.Response:
        forged = {"metadata": self.place.metadata} if self.place.metadata else {}
        # The tenant of somebody else is refused there, whoever calls (`test_tenants`).
        body = {name: value for name, value in self.place.body.items() if name != "tenant"}
        return await self.ask("POST", "/", request(method, {**params, **forged, **body}))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_user_name_has_an_effect_only_where_its_mode_reads_it(world: World, mode: str, place: str) -> None:
    """S2, V3: on loopback the client names the user. With authentication the key does, or the proxy by one header."""
    requester = Requester(world, mode, PLACES[place])
    if mode in requester.place.refused:
        await check_refused(requester)
    elif mode in requester.place.counts:
        await check_named_user(requester)
    else:
        await check_authenticated_user(requester, MODES[mode].user)


async def check_refused(requester: Requester) -> None:
    mine = requester.world
    for method, path, body in (
        ("GET", "/api/sessions", None),
        ("DELETE", f"/api/sessions/{mine.session}", None),
        ("GET", "/api/ops/overview", None),
        ("POST", "/", request("GetTask", {"id": mine.task})),
        ("GET", f"/api/tasks/{mine.task}/events", None),
    ):
        reply = await requester.ask(method, path, body)
        assert reply.status_code == 401, (path, reply.text)
        assert reply.json()["code"] in ("AMBIGUOUS_USER", "NO_CREDENTIALS")
        assert reply.headers["www-authenticate"]


async def check_named_user(requester: Requester) -> None:
    assert (await shown(requester))["user"] == NAMED
    assert (await requester.ask("GET", f"/api/sessions/{requester.world.session}")).status_code == 200
    assert (await requester.rpc("GetTask", {"id": requester.world.task})).json()["result"]["id"] == requester.world.task
    assert (await requester.ask("GET", "/api/ops/overview")).status_code == 200


async def check_authenticated_user(requester: Requester, user: str) -> None:
    """Check that this user reads and writes, and is an operator on loopback only."""
    mine, loopback = requester.world, requester.mode in LOOPBACK
    caller = await shown(requester)
    assert (caller["user"], caller["tenant"], caller["mayOperate"]) == (user, "default", loopback)
    assert (await requester.ask("GET", "/api/ops/overview")).status_code == (200 if loopback else 403)
    context = fresh()
    made = await requester.ask("POST", "/api/sessions", {"id": context, "agent_ref": "demo"})
    assert (made.status_code, made.json()["data"]["user_id"]) == (201, user)
    assert (await requester.rpc("SendMessage", {"message": message_with_metadata(requester, context)})).json()[
        "result"
    ]["task"]
    document = {"id": fresh(), "contextId": context, "kind": "task", "status": {"state": "working"}}
    stored = await requester.ask("POST", "/api/tasks", {**document, "metadata": dict(requester.place.metadata)})
    assert stored.status_code == 201, stored.text
    copy = await imported(requester, context)
    listed = (await requester.ask("GET", "/api/sessions")).json()["data"]
    assert {row["user_id"] for row in listed} == {user}
    assert {context, copy} <= {row["id"] for row in listed}
    for method, path in (
        ("GET", f"/api/sessions/{mine.session}"),
        ("GET", f"/api/sessions/{mine.session}/messages"),
        ("GET", f"/api/sessions/{mine.session}/export"),
        ("GET", f"/api/tasks/{mine.task}"),
        ("GET", f"/api/tasks/{mine.task}/events"),
        ("DELETE", f"/api/sessions/{mine.session}"),
        ("DELETE", f"/api/tasks/{mine.task}"),
    ):
        assert (await requester.ask(method, path)).status_code == 404, path
    for rpc in ("GetTask", "CancelTask"):
        assert (await requester.rpc(rpc, {"id": mine.task})).json()["error"]["code"] == -32001


async def shown(requester: Requester) -> Json:
    """Return the caller as the page sees it."""
    found: Json = (await requester.ask("GET", "/api/ui-config")).json()["data"]["caller"]
    return found


def message_with_metadata(requester: Requester, context: str) -> Json:
    message = said("hello", contextId=context)
    return {**message, "metadata": dict(requester.place.metadata)} if requester.place.metadata else message


async def imported(requester: Requester, context: str) -> str:
    """Export a session, put the forged names into its header, import it and return the id of the copy."""
    exported = (await requester.ask("GET", f"/api/sessions/{context}/export")).content.splitlines(keepends=True)
    header = json.loads(exported[0])
    header["session"] |= {"owner": requester.place.body["owner"]} if requester.place.body else {}
    first = json.dumps(header).encode() + b"\n"
    end = json.loads(exported[-1])
    end["sha256"] = hashlib.sha256(b"".join([first, *exported[1:-1]])).hexdigest()
    lines = b"".join([first, *exported[1:-1], json.dumps(end).encode() + b"\n"])
    copy = fresh()
    reply = await requester.ask("POST", f"/api/sessions/import?id={copy}", lines=lines)
    assert reply.status_code == 201, reply.text
    return copy


@pytest.mark.asyncio(loop_scope="module")
async def test_a_user_name_with_a_missing_or_wrong_proxy_secret_is_refused(world: World) -> None:
    """S2: both in the header and in the query, also with a part of the secret."""
    for mode in ("keys", "proxy", "keys and proxy, by key"):
        http = world.planes[mode].http
        for secret in ({}, {"X-Taskplane-Proxy-Secret": SECRET[:-1]}, {"X-Taskplane-Proxy-Secret": ""}):
            for path in (f"/api/sessions/{world.session}", f"/api/ops/overview?user_id={NAMED}"):
                reply = await http.get(path, headers={"X-User-Id": NAMED, **secret})
                assert (reply.status_code, reply.json()["code"]) == (401, "NO_CREDENTIALS")


@pytest.mark.asyncio(loop_scope="module")
async def test_ignored_user_names_are_counted_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """S2: clients of kagent name the user in each request, which would fill the log."""
    caplog.set_level(logging.INFO)
    async with open_behind(tmp_path) as behind, open_front(behind, proxy_secret=SECRET) as plane:
        before = {each: await ignored(plane, each) for each in ("query", "header")}
        for _ in range(3):
            await plane.http.get("/api/sessions?user_id=bob", headers={**PROXY, "X-User-Id": "ann"})
        assert await ignored(plane, "query") == before["query"] + 3
        assert await ignored(plane, "header") == before["header"]
        for _ in range(2):
            await plane.http.get("/api/sessions", headers={"X-User-Id": "ann"})
        assert await ignored(plane, "header") == before["header"] + 2
    logged = [record.getMessage() for record in caplog.records if "names nobody" in record.getMessage()]
    assert [text.split(" names")[0].rpartition(" ")[2] for text in logged] == ["user_id", "X-User-Id"]


async def ignored(plane: Plane, place: str) -> float:
    """Return the number of ignored names in one position, from the metrics."""
    series = f'taskplane_http_ignored_names_total{{place="{place}"}} '
    lines = (await plane.http.get("/metrics")).text.splitlines()
    return next((float(line.removeprefix(series)) for line in lines if line.startswith(series)), 0.0)
