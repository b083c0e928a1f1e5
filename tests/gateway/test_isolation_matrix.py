"""Requests for resources of another owner, on every HTTP route and by every operation of A2A over each binding.

The matrix is in `isolation`.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from tests.conftest import ENGINES_IF_THOROUGH
from tests.gateway.bindings import BINDINGS, HTTP_BINDINGS, Grpc, HttpBinding
from tests.gateway.built_page import build_page
from tests.gateway.failures import Failure
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
class Identity:
    """An identity of another caller, by the headers of its requests and a query that is added to each."""

    headers: Mapping[str, str]
    query: str = ""
    same_tenant: bool = True


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}.{_SECRET}"}


_SECRET: Final = "s3cret"
_FORGED: Final = {"X-Tenant": "default", "X-Forwarded-User": "ann", "X-Auth-Request-User": "ann", "Remote-User": "ann"}
OWNER: Final = Identity(_bearer("ann_key"))
# Another owner of the same tenant, an owner of the same name in another tenant, and two others under the name of
# the owner, by a key and by a proxy.
OTHERS: Final = {
    "user": Identity(_bearer("bob_key")),
    "tenant": Identity(_bearer("ann_there"), same_tenant=False),
    "forging beside a key": Identity({**_bearer("dora_key"), **_FORGED, "X-User-Id": "ann"}, "user_id=ann&owner=ann"),
    "forging behind a proxy": Identity(
        {"X-Taskplane-Proxy-Secret": _PROXY_SECRET, "X-User-Id": "carl", **_FORGED}, "user_id=ann&owner=ann"
    ),
}
# The matrix of the RPCs runs on both engines.
_KEYS: Final = {
    "ann_key": 'owner = "ann"\nscopes = ["write", "operate"]',
    "bob_key": 'owner = "bob"',
    "dora_key": 'owner = "dora"',
    "ann_there": 'owner = "ann"\ntenant = "elsewhere"',
}
# Headers that differ between two answers to one request. The length differs since a time with whole milliseconds is
# shorter. Bodies are compared with such values masked.
_VOLATILE: Final = frozenset({"date", "content-length"})


@dataclass(frozen=True)
class World:
    """The resources of the owner, by their names in the matrix."""

    plane: Plane
    minting: Plane
    ids: Mapping[str, str]
    # Objects of the owner that are requested once each, since the caller has one of its own afterwards.
    spare: Mapping[str, list[str]]
    # Exported sessions with their ids: one of the owner, and for each other caller one that was deleted.
    files: Mapping[str, tuple[str, bytes]]

    async def ask(self, identity: Identity, method: str, path: str, **more: Any) -> httpx.Response:
        return await send_as(self.plane, identity, method, path, **more)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES_IF_THOROUGH)
async def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[World, None]:
    """A plane with API keys, in which one owner has resources of every kind."""
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


async def send_as(plane: Plane, identity: Identity, method: str, path: str, **more: Any) -> httpx.Response:
    headers = {**identity.headers, "X-Request-Id": "same", **more.pop("headers", {})}
    if identity.query:
        path += f"{'&' if '?' in path else '?'}{identity.query}"
    return await plane.http.request(method, path, headers=headers, **more)


async def owned(plane: Plane, minting: Plane) -> World:
    """Create sessions and tasks of every kind for the owner."""

    async def made(method: str, path: str, **more: Any) -> Any:
        reply = await send_as(plane, OWNER, method, path, **more)
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
    for _ in range(sum("{spare" in str(request_.cell) for request_ in matrix()) * len(OTHERS)):
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
class Request:
    """A cell with its route, or with its operation and the binding over which it is called."""

    cell: Cell
    route: str
    binding: Grpc | HttpBinding | None = None

    def __str__(self) -> str:
        return f"{self.route} {self.binding.name if self.binding else ''} {self.cell}"


def matrix() -> list[Request]:
    """Return each cell of a route, and each cell of an operation over each binding that has it."""
    found = [Request(cell, route) for route, row in ROUTES.items() if not isinstance(row, NoId) for cell in row]
    for operation, row in OPERATIONS.items():
        if isinstance(row, NoId):
            continue
        for binding in BINDINGS:
            if operation not in binding.operations:
                continue
            found += [Request(cell, operation, binding) for cell in row if binding.version == "0.3" or not cell.minted]
    return found


@dataclass
class Caller:
    """Another caller, with a session and a task of its own."""

    world: World
    name: str
    identity: Identity
    task: str
    spare: dict[str, list[str]]
    contexts: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.contexts = tuple(self.spare["spare"])

    async def both(self, request_: Request) -> tuple[str, ...]:
        """Return the faults of the answers for unknown ids, and for ids of the owner."""
        cell = request_.cell
        names = {*NAMES.findall(str(cell)), *cell.ids.values()}
        held = {name: self.world.ids[name] for name in names if name in self.world.ids}
        held |= {name: self.spare[name].pop() for name in names if name in self.spare}
        never = {name: unknown(value) for name, value in held.items()}
        first = await self._one(request_, never, f"?{self.name}")
        second = await self._one(request_, held, "")
        expected = cell.held if cell.held and self.identity.same_tenant else cell.answer
        wrong: list[str] = []
        if first[0] != cell.answer:
            wrong.append(f"unknown: {first[0]} instead of {cell.answer}: {first[2][:300]}")
        if second[0] != expected:
            wrong.append(f"the owner's: {second[0]} instead of {expected}: {second[2][:300]}")
        if expected == cell.answer and first != second:
            wrong.append(f"different: {first} / {second}")
        return tuple(wrong)

    async def _one(
        self, request_: Request, ids: Mapping[str, str], which: str
    ) -> tuple[str, tuple[tuple[str, str], ...], str]:
        """Return the answer in short, its headers, and its body with names in place of ids."""
        cell = request_.cell
        named = {**ids, "new": fresh(), "mine_task": self.task, "file": self.world.files[f"foreign_file{which}"][0]}
        if "{mine}" in str(cell) or "mine" in cell.ids.values():
            made = await self.world.ask(self.identity, "POST", "/api/sessions", json={"agent_ref": "demo"})
            named["mine"] = made.json()["data"]["id"]
        headers = {"Content-Type": "application/json", **filled(cell.headers, named)}
        body = filled(cell.body, named)
        content: bytes | None = None
        plane = self.world.minting if cell.minted else self.world.plane
        if isinstance(request_.binding, Grpc):
            sent = {**self.identity.headers, "X-Request-Id": "same", **filled(cell.headers, named)}
            found, beside = await request_.binding.whole(plane, request_.route, body, sent)
            code = str(found.code) if isinstance(found, Failure) else ""
            return code, (), unnamed(f"{found} {beside}", named)
        if request_.binding is not None:
            framed = request_.binding.frame(request_.route, body)
            verb, path = framed.verb, framed.path
            content = None if framed.body is None else json.dumps(framed.body).encode()
        else:
            verb, _, pattern = request_.route.partition(" ")
            path = NAMES.sub(lambda found: _segment(found[1], cell, named), pattern)
            if cell.query:
                path += f"?{filled(cell.query, named)}"
            if body is not None:
                content = await self._bytes(cell.body, body, which)
        reply = await send_as(plane, self.identity, verb, path, headers=headers, content=content)
        kept = [(name, MADE.sub("<made>", value)) for name, value in reply.headers.items() if name not in _VOLATILE]
        return summary(request_, reply), tuple(sorted(kept)), unnamed(reply.text, named)

    async def _bytes(self, template: Any, body: Any, which: str) -> bytes:
        if template == "{foreign_file}":
            return self.world.files[f"foreign_file{which}"][1]
        if template == "{file}":
            reply = await self.world.ask(self.identity, "GET", f"/api/tasks/{self.task}")
            context = reply.json()["data"]["contextId"]
            return (await self.world.ask(self.identity, "GET", f"/api/sessions/{context}/export")).content
        return json.dumps(body).encode()


def _segment(parameter: str, cell: Cell, named: Mapping[str, str]) -> str:
    if parameter in ("agent", "namespace"):
        return "demo"
    return quote(named[cell.ids[parameter]], safe="")


def summary(request_: Request, reply: httpx.Response) -> str:
    """Return the error code of an operation, or the status of a route and the code of its error."""
    if reply.headers.get("content-type") == "text/event-stream":
        bodies = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]
    else:
        bodies = [reply.json()] if "json" in reply.headers.get("content-type", "") else []
    if request_.binding is not None:
        assert not isinstance(request_.binding, Grpc)
        results = [request_.binding.read(request_.route, body) for body in bodies]
        return " ".join(str(result.code) for result in results if isinstance(result, Failure))
    codes = [str(body["error"]["code"] if "jsonrpc" in body else body["code"]) for body in bodies if body.get("error")]
    return " ".join([str(reply.status_code), *codes])


# Streams, statistics, and routes that refuse every id.
_NO_VIEWS: Final = (
    *("/watch", "/stats", ":subscribe", "/pushNotificationConfigs", "{config}"),
    *("/extendedAgentCard", "/v1/tasks"),
)


async def views(world: World, contexts: Iterable[str]) -> dict[str, tuple[int, str, str]]:
    """Return everything that the owner sees, by its path; of the sessions that are named once each, those in
    `contexts`, by the history with its version."""
    paths = {"/api/sessions", *(f"/api/sessions/{context}/effective_history" for context in contexts)}
    for route in routes.ROUTES:
        if route.method != "GET" or "{" not in route.path or route.path.endswith(_NO_VIEWS):
            continue
        for name in ("session", "runtime", "rewound", "done", "paused", "document"):
            named = {"session": world.ids[name], "task": world.ids[name], "artifact": world.ids["artifact"]}
            # The log of an unfinished task is a stream without an end.
            if not (route.path.endswith("/events") and name in ("paused", "document")):
                paths.add(filled(route.path, {**named, "agent": "demo", "namespace": "demo", "tenant": "demo"}))

    async def look(path: str) -> tuple[int, str, str]:
        reply = await world.ask(OWNER, "GET", path)
        assert reply.status_code in (200, 404), (path, reply.text)
        return reply.status_code, reply.headers.get("etag", ""), reply.text

    return {path: await look(path) for path in sorted(paths)}


def test_the_matrix_has_exactly_one_row_per_route_and_operation() -> None:
    """A new route or operation needs a row that states its treatment of foreign ids."""
    assert list(ROUTES) == [f"{route.method} {route.path}" for route in routes.ROUTES]
    assert list(OPERATIONS) == list(operations.OPERATIONS)
    assert [request_ for request_ in matrix() if bool(request_.cell.held) != bool(request_.cell.reason)] == []
    framed = [
        binding.frame(name, {"message": said(""), "id": "t", "taskId": "t"})
        for binding in HTTP_BINDINGS
        for name in binding.operations
    ]
    assert {one.body["method"] for one in framed if one.path == "/"} == set(jsonrpc.METHODS)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.asyncio(loop_scope="module")
async def test_foreign_ids_are_answered_like_unknown_ids(world: World, other: str) -> None:
    """S2, S6, T3, W18, a2a E1, H15: status, code, headers and body are the same except for the id, and nothing of the
    owner changes. This holds also under a forged name of the owner."""
    identity = OTHERS[other]
    made = await world.ask(identity, "POST", "/", json=request("SendMessage", {"message": said("hello")}))
    share = {name: ids[list(OTHERS).index(other) :: len(OTHERS)] for name, ids in world.spare.items()}
    caller = Caller(world, other, identity, made.json()["result"]["task"]["id"], share)
    before = await views(world, caller.contexts)
    wrong = [f"{request_}: {fault}" for request_ in matrix() for fault in await caller.both(request_)]
    assert not wrong, "\n".join(wrong)
    after = await views(world, caller.contexts)
    assert {path for path in before if before[path] != after[path]} == set()


@pytest.mark.asyncio(loop_scope="module")
async def test_routes_without_an_id_reveal_nothing_of_an_owner(world: World) -> None:
    """S2: cards and metrics, which need no key, contain neither ids nor titles."""
    for at, row in ROUTES.items():
        verb, _, pattern = at.partition(" ")
        if isinstance(row, NoId):
            assert verb == "GET"
            reply = await world.plane.http.get(NAMES.sub("demo", pattern), headers=row.headers)
            assert reply.status_code == row.status, at
            assert [name for name, value in world.ids.items() if len(value) > 8 and value in reply.text] == [], at
