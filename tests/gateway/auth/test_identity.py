"""Who calls, over all modes of authentication and all places where a request can name a user.

`test_isolation_matrix` asks every route and method for the things of others under forged names.
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
    """A gateway for each setting of authentication, and the things of the user that is named."""

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
class Asking:
    """Requests in one mode with a name in one place."""

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
        return await self.ask("POST", "/", request(method, {**params, **forged, **self.place.body}))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_name_counts_only_in_the_place_that_its_mode_reads(world: World, mode: str, place: str) -> None:
    """S2, V3: on loopback the client names the user; with authentication its key does, or its proxy by one header."""
    asking = Asking(world, mode, PLACES[place])
    if mode in asking.place.refused:
        await is_refused(asking)
    elif mode in asking.place.counts:
        await is_the_one_named(asking)
    else:
        await is_the_caller(asking, MODES[mode].user)


async def is_refused(asking: Asking) -> None:
    mine = asking.world
    for method, path, body in (
        ("GET", "/api/sessions", None),
        ("DELETE", f"/api/sessions/{mine.session}", None),
        ("GET", "/api/ops/overview", None),
        ("POST", "/", request("GetTask", {"id": mine.task})),
        ("GET", f"/api/tasks/{mine.task}/events", None),
    ):
        reply = await asking.ask(method, path, body)
        assert reply.status_code == 401, (path, reply.text)
        assert reply.json()["code"] in ("AMBIGUOUS_USER", "NO_CREDENTIALS")
        assert reply.headers["www-authenticate"]


async def is_the_one_named(asking: Asking) -> None:
    assert (await shown(asking))["user"] == NAMED
    assert (await asking.ask("GET", f"/api/sessions/{asking.world.session}")).status_code == 200
    assert (await asking.rpc("GetTask", {"id": asking.world.task})).json()["result"]["id"] == asking.world.task
    assert (await asking.ask("GET", "/api/ops/overview")).status_code == 200


async def is_the_caller(asking: Asking, user: str) -> None:
    """It is this user who reads, writes and is no operator but on loopback."""
    mine, loopback = asking.world, asking.mode in LOOPBACK
    caller = await shown(asking)
    assert (caller["user"], caller["tenant"], caller["mayOperate"]) == (user, "default", loopback)
    assert (await asking.ask("GET", "/api/ops/overview")).status_code == (200 if loopback else 403)
    context = fresh()
    made = await asking.ask("POST", "/api/sessions", {"id": context, "agent_ref": "demo"})
    assert (made.status_code, made.json()["data"]["user_id"]) == (201, user)
    assert (await asking.rpc("SendMessage", {"message": told(asking, context)})).json()["result"]["task"]
    document = {"id": fresh(), "contextId": context, "kind": "task", "status": {"state": "working"}}
    stored = await asking.ask("POST", "/api/tasks", {**document, "metadata": dict(asking.place.metadata)})
    assert stored.status_code == 201, stored.text
    copy = await imported(asking, context)
    listed = (await asking.ask("GET", "/api/sessions")).json()["data"]
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
        assert (await asking.ask(method, path)).status_code == 404, path
    for rpc in ("GetTask", "CancelTask"):
        assert (await asking.rpc(rpc, {"id": mine.task})).json()["error"]["code"] == -32001


async def shown(asking: Asking) -> Json:
    """The caller as the page is told."""
    found: Json = (await asking.ask("GET", "/api/ui-config")).json()["data"]["caller"]
    return found


def told(asking: Asking, context: str) -> Json:
    message = said("hello", contextId=context)
    return {**message, "metadata": dict(asking.place.metadata)} if asking.place.metadata else message


async def imported(asking: Asking, context: str) -> str:
    """The id of a session that was exported, with names in its header as in the place, and imported again."""
    exported = (await asking.ask("GET", f"/api/sessions/{context}/export")).content.splitlines(keepends=True)
    header = json.loads(exported[0])
    header["session"] |= {"owner": asking.place.body["owner"]} if asking.place.body else {}
    first = json.dumps(header).encode() + b"\n"
    end = json.loads(exported[-1])
    end["sha256"] = hashlib.sha256(b"".join([first, *exported[1:-1]])).hexdigest()
    lines = b"".join([first, *exported[1:-1], json.dumps(end).encode() + b"\n"])
    copy = fresh()
    reply = await asking.ask("POST", f"/api/sessions/import?id={copy}", lines=lines)
    assert reply.status_code == 201, reply.text
    return copy


@pytest.mark.asyncio(loop_scope="module")
async def test_a_name_without_the_proxys_secret_or_with_a_wrong_one_is_no_credential(world: World) -> None:
    """S2: neither in the header nor in the query, and beside neither half of the secret."""
    for mode in ("keys", "proxy", "keys and proxy, by key"):
        http = world.planes[mode].http
        for secret in ({}, {"X-Taskplane-Proxy-Secret": SECRET[:-1]}, {"X-Taskplane-Proxy-Secret": ""}):
            for path in (f"/api/sessions/{world.session}", f"/api/ops/overview?user_id={NAMED}"):
                reply = await http.get(path, headers={"X-User-Id": NAMED, **secret})
                assert (reply.status_code, reply.json()["code"]) == (401, "NO_CREDENTIALS")


@pytest.mark.asyncio(loop_scope="module")
async def test_names_that_are_ignored_are_counted_and_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S2: clients of kagent name the user in each request, so that the log would be full of it."""
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
    said_once = [record.getMessage() for record in caplog.records if "names nobody" in record.getMessage()]
    assert [text.split(" names")[0].rpartition(" ")[2] for text in said_once] == ["user_id", "X-User-Id"]


async def ignored(plane: Plane, place: str) -> float:
    """The number of ignored names in a place, as the metrics tell it."""
    series = f'taskplane_http_ignored_names_total{{place="{place}"}} '
    lines = (await plane.http.get("/metrics")).text.splitlines()
    return next((float(line.removeprefix(series)) for line in lines if line.startswith(series)), 0.0)
