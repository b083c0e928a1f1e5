"""Every HTTP route, and every operation of A2A over each binding, asked for what belongs to somebody else.

The matrix is in `isolation`.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from tests.conftest import ENGINES_IF_THOROUGH
from tests.gateway.bindings import BINDINGS, Binding, Failure
from tests.gateway.built_page import build_page
from tests.gateway.isolation import OPERATIONS, ROUTES, Cell, NoId
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front, request, said
from tests.support.databases import copied
from tests.support.matrix import MADE, NAMES, filled, unknown, unnamed
from tests.support.postgres import Cluster

from taskplane.gateway import routes
from taskplane.gateway.a2a import operations
from taskplane.gateway.bindings import jsonrpc

_PROXY_SECRET: Final = "between us"


@dataclass(frozen=True)
class Who:
    """Somebody else, by the headers of the requests, and by a query that is added to each."""

    headers: Mapping[str, str]
    query: str = ""
    same_tenant: bool = True


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}.{_SECRET}"}


_SECRET: Final = "s3cret"
_FORGED: Final = {"X-Tenant": "default", "X-Forwarded-User": "ann", "X-Auth-Request-User": "ann", "Remote-User": "ann"}
OWNER: Final = Who(_bearer("ann_key"))
# Another owner of the same tenant, an owner of the same name in another tenant, and two others under the name of
# the owner, by a key and by a proxy.
OTHERS: Final = {
    "user": Who(_bearer("bob_key")),
    "tenant": Who(_bearer("ann_there"), same_tenant=False),
    "forging beside a key": Who({**_bearer("dora_key"), **_FORGED, "X-User-Id": "ann"}, "user_id=ann&owner=ann"),
    "forging behind a proxy": Who(
        {"X-Taskplane-Proxy-Secret": _PROXY_SECRET, "X-User-Id": "carl", **_FORGED}, "user_id=ann&owner=ann"
    ),
}
# The gateway knows no database; the matrix of the RPCs is asked for on both.
_KEYS: Final = {
    "ann_key": 'owner = "ann"\nscopes = ["write", "operate"]',
    "bob_key": 'owner = "bob"',
    "dora_key": 'owner = "dora"',
    "ann_there": 'owner = "ann"\ntenant = "elsewhere"',
}
# Headers that differ between two answers to one request.
# Bodies are compared without what is made, such as times, which are shorter where their milliseconds are whole.
_VOLATILE: Final = frozenset({"date", "content-length"})


@dataclass(frozen=True)
class World:
    """The things of the owner, by their names in the matrix, and who asks for them."""

    plane: Plane
    minting: Plane
    ids: Mapping[str, str]
    # Objects of the owner that each are asked for once, since the caller has one of its own afterwards.
    spare: Mapping[str, list[str]]
    # Exported sessions with the ids of their sessions: one that the owner has, and one for each other that nobody has.
    files: Mapping[str, tuple[str, bytes]]

    async def ask(self, who: Who, method: str, path: str, **more: Any) -> httpx.Response:
        return await asked(self.plane, who, method, path, **more)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES_IF_THOROUGH)
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[World, None]:
    """A plane with API keys, in which one owner has something of every kind."""
    folder = tmp_path_factory.mktemp("isolation")
    async with AsyncExitStack() as stack:
        url = ""
        if request.param == "postgres":
            cluster: Cluster = request.getfixturevalue("cluster")
            url = await stack.enter_async_context(copied(cluster))
        behind = await stack.enter_async_context(open_behind(folder, database_url=url))
        keys, page = written(folder / "keys.toml"), build_page(folder / "page")
        settings: Json = {"api_keys": str(keys), "proxy_secret": _PROXY_SECRET, "proxy_operators": ("ann",)}
        plane = await stack.enter_async_context(open_front(behind, page=page, **settings))
        minting = await stack.enter_async_context(open_front(behind, client_task_ids="create", **settings))
        yield await owned(plane, minting)


def written(path: Path) -> Path:
    digest = hashlib.sha256(_SECRET.encode()).hexdigest()
    lines = [f'[[keys]]\nid = "{name}"\nsha256 = "{digest}"\n{more}\n' for name, more in _KEYS.items()]
    path.write_text("".join(lines))
    return path


async def asked(plane: Plane, who: Who, method: str, path: str, **more: Any) -> httpx.Response:
    headers = {**who.headers, "X-Request-Id": "same", **more.pop("headers", {})}
    if who.query:
        path += f"{'&' if '?' in path else '?'}{who.query}"
    return await plane.http.request(method, path, headers=headers, **more)


async def owned(plane: Plane, minting: Plane) -> World:
    """Gives the owner sessions and tasks of every kind."""

    async def made(method: str, path: str, **more: Any) -> Any:
        reply = await asked(plane, OWNER, method, path, **more)
        assert reply.is_success, reply.text
        return reply

    async def sent(text: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Json:
        reply = await made(
            "POST", "/", json=request("SendMessage", {"message": said(text, **fields)}), headers=headers or {}
        )
        result: Json = reply.json()["result"]
        return dict(result.get("task") or result["message"])

    session, runtime, rewound = fresh(), fresh(), fresh()
    done = await sent("artifact", contextId=session)
    paused = await sent("ask Which?", contextId=session)
    await made("POST", "/api/sessions", json={"id": runtime, "agent_ref": "demo", "name": "Confidential"})
    event, document = fresh(), fresh()
    data = {"id": event, "invocationId": fresh(), "actions": {"stateDelta": {"secret": 1}}}
    await made("POST", f"/api/sessions/{runtime}/events", json={"id": event, "data": json.dumps(data)})
    await made(
        "POST",
        "/api/tasks",
        json={"id": document, "contextId": runtime, "kind": "task", "status": {"state": "working"}},
    )
    await sent("A", contextId=rewound)
    second = await sent("B", contextId=rewound)
    cut = second["history"][0]["metadata"]["kagent_invocation_id"]
    await made("POST", f"/api/sessions/{rewound}/rewind", json={"before": cut})
    files: dict[str, tuple[str, bytes]] = {}
    for name in ("foreign_file", *(f"foreign_file?{other}" for other in OTHERS)):
        context = (await sent("hello", contextId=fresh()))["contextId"]
        files[name] = context, (await made("GET", f"/api/sessions/{context}/export")).content
        if "?" in name:
            await made("DELETE", f"/api/sessions/{context}")
    spare: dict[str, list[str]] = {"spare": [], "spare_key": [], "spare_task": []}
    for _ in range(sum("{spare" in str(asking.cell) for asking in matrix()) * len(OTHERS)):
        spare["spare_key"].append(fresh())
        answer = await sent("message spare", {"Idempotency-Key": spare["spare_key"][-1]}, contextId=fresh())
        spare["spare"].append(answer["contextId"])
        held: Json = {"id": fresh(), "contextId": runtime, "kind": "task", "status": {"state": "completed"}}
        await made("POST", "/api/tasks", json=held)
        spare["spare_task"].append(held["id"])
    ids = {
        "session": session,
        "runtime": runtime,
        "rewound": rewound,
        "done": done["id"],
        "end": done["metadata"]["taskplane.dev/cursor"],
        "artifact": done["artifacts"][0]["artifactId"],
        "paused": paused["id"],
        "cursor": paused["metadata"]["taskplane.dev/cursor"],
        "turn": done["history"][0]["metadata"]["kagent_invocation_id"],
        "message": done["history"][0]["messageId"],
        "document": document,
        "event": event,
        "title": "Confidential",
    }
    return World(plane, minting, ids, spare, files)


@dataclass(frozen=True)
class Asked:
    """A cell with its route, or with its operation and the binding over which it is called."""

    cell: Cell
    route: str
    binding: Binding | None = None

    def __str__(self) -> str:
        return f"{self.route} {self.binding.name if self.binding else ''} {self.cell}"


def matrix() -> list[Asked]:
    """Each cell of a route, and each of an operation over each binding that has it."""
    found = [Asked(cell, route) for route, row in ROUTES.items() if not isinstance(row, NoId) for cell in row]
    for operation, row in OPERATIONS.items():
        if isinstance(row, NoId):
            continue
        for binding in BINDINGS:
            if operation not in binding.operations:
                continue
            found += [Asked(cell, operation, binding) for cell in row if binding.version == "0.3" or not cell.minted]
    return found


@dataclass
class Caller:
    """Somebody else, with a session and a task of its own."""

    world: World
    name: str
    who: Who
    task: str
    spare: dict[str, list[str]]

    async def both(self, asking: Asked) -> tuple[str, ...]:
        """Return the faults of the answers to requests for things that nobody has, and for those of the owner."""
        cell = asking.cell
        names = {*NAMES.findall(str(cell)), *cell.ids.values()}
        held = {name: self.world.ids[name] for name in names if name in self.world.ids}
        held |= {name: self.spare[name].pop() for name in names if name in self.spare}
        never = {name: unknown(value) for name, value in held.items()}
        first = await self._one(asking, never, f"?{self.name}")
        second = await self._one(asking, held, "")
        expected = cell.held if cell.held and self.who.same_tenant else cell.answer
        wrong: list[str] = []
        if first[0] != cell.answer:
            wrong.append(f"nobody's: {first[0]} instead of {cell.answer}: {first[2][:300]}")
        if second[0] != expected:
            wrong.append(f"the owner's: {second[0]} instead of {expected}: {second[2][:300]}")
        if expected == cell.answer and first != second:
            wrong.append(f"told apart: {first} / {second}")
        return tuple(wrong)

    async def _one(
        self, asking: Asked, ids: Mapping[str, str], which: str
    ) -> tuple[str, tuple[tuple[str, str], ...], str]:
        """The answer in short, its headers, and its body, with the names of ids in place of ids."""
        cell = asking.cell
        named = {**ids, "new": fresh(), "mine_task": self.task, "file": self.world.files[f"foreign_file{which}"][0]}
        if "{mine}" in str(cell) or "mine" in cell.ids.values():
            made = await self.world.ask(self.who, "POST", "/api/sessions", json={"agent_ref": "demo"})
            named["mine"] = made.json()["data"]["id"]
        headers = {"Content-Type": "application/json", **filled(cell.headers, named)}
        body = filled(cell.body, named)
        content: bytes | None = None
        if asking.binding is not None:
            framed = asking.binding.frame(asking.route, body)
            verb, path = framed.verb, framed.path
            content = None if framed.body is None else json.dumps(framed.body).encode()
        else:
            verb, _, pattern = asking.route.partition(" ")
            path = NAMES.sub(lambda found: _segment(found[1], cell, named), pattern)
            if cell.query:
                path += f"?{filled(cell.query, named)}"
            if body is not None:
                content = await self._bytes(cell.body, body, which)
        plane = self.world.minting if cell.minted else self.world.plane
        reply = await asked(plane, self.who, verb, path, headers=headers, content=content)
        kept = [(name, MADE.sub("<made>", value)) for name, value in reply.headers.items() if name not in _VOLATILE]
        return summary(asking, reply), tuple(sorted(kept)), unnamed(reply.text, named)

    async def _bytes(self, template: Any, body: Any, which: str) -> bytes:
        if template == "{foreign_file}":
            return self.world.files[f"foreign_file{which}"][1]
        if template == "{file}":
            reply = await self.world.ask(self.who, "GET", f"/api/tasks/{self.task}")
            context = reply.json()["data"]["contextId"]
            return (await self.world.ask(self.who, "GET", f"/api/sessions/{context}/export")).content
        return json.dumps(body).encode()


def _segment(parameter: str, cell: Cell, named: Mapping[str, str]) -> str:
    if parameter in ("agent", "namespace"):
        return "demo"
    return quote(named[cell.ids[parameter]], safe="")


def summary(asking: Asked, reply: httpx.Response) -> str:
    """The code of the error of an operation; of a route the status, and the code of the error if it is one."""
    if reply.headers.get("content-type") == "text/event-stream":
        bodies = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]
    else:
        bodies = [reply.json()] if "json" in reply.headers.get("content-type", "") else []
    if asking.binding is not None:
        results = [asking.binding.read(asking.route, body) for body in bodies]
        return " ".join(str(result.code) for result in results if isinstance(result, Failure))
    codes = [str(body["error"]["code"] if "jsonrpc" in body else body["code"]) for body in bodies if body.get("error")]
    return " ".join([str(reply.status_code), *codes])


# Streams, figures, and what is refused whatever the id is.
_NO_VIEWS: Final = ("/watch", "/stats", ":subscribe", "/pushNotificationConfigs", "{config}", "/extendedAgentCard")


async def views(world: World) -> dict[str, tuple[int, str, str]]:
    """Everything that the owner is shown, by its path."""
    paths = {"/api/sessions", *(f"/api/sessions/{context}/export" for context in world.spare["spare"])}
    for route in routes.ROUTES:
        if route.method != "GET" or "{" not in route.path or route.path.endswith(_NO_VIEWS):
            continue
        for name in ("session", "runtime", "rewound", "done", "paused", "document"):
            named = {"session": world.ids[name], "task": world.ids[name], "artifact": world.ids["artifact"]}
            # The log of a task that has not ended is a stream that does not.
            if not (route.path.endswith("/events") and name in ("paused", "document")):
                paths.add(filled(route.path, {**named, "agent": "demo", "namespace": "demo"}))

    async def look(path: str) -> tuple[int, str, str]:
        reply = await world.ask(OWNER, "GET", path)
        assert reply.status_code in (200, 404), (path, reply.text)
        return reply.status_code, reply.headers.get("etag", ""), reply.text

    return {path: await look(path) for path in sorted(paths)}


def test_every_route_and_operation_has_a_row_and_every_row_its_route_or_operation() -> None:
    """A route or an operation that is added is refused here until it is known how it treats the ids of others."""
    assert list(ROUTES) == [f"{route.method} {route.path}" for route in routes.ROUTES]
    assert list(OPERATIONS) == list(operations.OPERATIONS)
    assert [asking for asking in matrix() if bool(asking.cell.held) != bool(asking.cell.reason)] == []
    framed = [
        binding.frame(name, {"message": said(""), "id": "t", "taskId": "t"})
        for binding in BINDINGS
        for name in binding.operations
    ]
    assert {one.body["method"] for one in framed if one.path == "/"} == set(jsonrpc.METHODS)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_somebody_else_has_is_answered_like_what_nobody_has(world: World, other: str) -> None:
    """S2, S6, T3: status, code, headers and body are the same but for the id, and nothing of the owner changes.

    Nor does it help to name the owner.
    """
    who = OTHERS[other]
    made = await world.ask(who, "POST", "/", json=request("SendMessage", {"message": said("hello")}))
    share = {name: ids[list(OTHERS).index(other) :: len(OTHERS)] for name, ids in world.spare.items()}
    caller = Caller(world, other, who, made.json()["result"]["task"]["id"], share)
    before = await views(world)
    wrong = [f"{asking}: {what}" for asking in matrix() for what in await caller.both(asking)]
    assert not wrong, "\n".join(wrong)
    after = await views(world)
    assert {path for path in before if before[path] != after[path]} == set()


@pytest.mark.asyncio(loop_scope="module")
async def test_what_takes_no_id_shows_nothing_of_an_owner(world: World) -> None:
    """S2: neither cards nor metrics, which nobody needs a key for, contain an id or a title."""
    for at, row in ROUTES.items():
        verb, _, pattern = at.partition(" ")
        if isinstance(row, NoId):
            assert verb == "GET"
            reply = await world.plane.http.get(NAMES.sub("demo", pattern), headers=row.headers)
            assert reply.status_code == row.status, at
            assert [name for name, value in world.ids.items() if len(value) > 8 and value in reply.text] == [], at
