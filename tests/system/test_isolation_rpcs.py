"""Every RPC, asked for data of another owner (see `isolation`)."""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import grpc
import pytest
import pytest_asyncio
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.json_format import MessageToJson, ParseDict
from google.protobuf.message_factory import GetMessageClass
from tests.support.matrix import NAMES, filled, unknown, unnamed
from tests.system.isolation import HASH, SERVICES, SWEEP, Cell, Json, NoId
from tests.system.plane import Plane, on_both_engines
from tests.system.wire import client as http_client
from tests.system.wire import send

from taskplane.api.executor.v1 import executor_pb2
from taskplane.api.executor.v1.executor_pb2_grpc import AgentExecutorStub
from taskplane.api.sessions.v1 import sessions_pb2
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1 import tasks_pb2
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskOperationsStub, TaskQueueStub, TaskStoreStub
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.more

_OWNER: Final = Principal("default", "ann", "ann")
# Another owner of the same tenant, and an owner of the same name in another tenant.
_OTHERS: Final = {"user": Principal("default", "bob", "bob"), "tenant": Principal("elsewhere", "ann", "ann")}
_STUBS: Final = (TaskStoreStub, TaskQueueStub, TaskOperationsStub, SessionHistoryStub, AgentExecutorStub)
_FILES: Final = (tasks_pb2.DESCRIPTOR, sessions_pb2.DESCRIPTOR, executor_pb2.DESCRIPTOR)
RPCS: Final[dict[str, dict[str, MethodDescriptor]]] = {
    service.full_name: {method.name: method for method in service.methods}
    for file in _FILES
    for service in file.services_by_name.values()
}


@dataclass(frozen=True)
class World:
    """Data of the owner, by its name in the matrix; `spare`: data for a single request. `staged`: unfinished imports of
    the owner, by service, session and import."""

    channel: grpc.aio.Channel
    ids: Mapping[str, str]
    spare: Mapping[str, list[str]]
    contexts: Sequence[str] = ()
    staged: Sequence[tuple[str, str, str]] = ()

    async def call(self, who: Principal, service: str, name: str, request: Json) -> tuple[str, str]:
        """The code and reason of an RPC, and the reply or the error as text; of a stream its first reply."""
        stub = next(stub for stub in _STUBS if stub.__name__.removesuffix("Stub") == service.rpartition(".")[2])
        method = RPCS[service][name]
        message = ParseDict(request, GetMessageClass(method.input_type)())
        call = getattr(stub(client(self.channel, identity=who)), name)(message)
        try:
            reply = await anext(aiter(call)) if method.server_streaming else await call
        except PlaneError as error:
            more = [error.message, error.fields, error.metadata, error.suggestion, error.retry_after]
            return f"{error.code} {error.reason}", json.dumps(more)
        finally:
            if method.server_streaming:
                call.cancel()
        return "OK", MessageToJson(reply, preserving_proto_field_name=True, indent=None)

    async def made(self, who: Principal, service: str, name: str, **request: Any) -> Json:
        code, text = await self.call(who, service, name, request)
        assert code == "OK", text
        found: Json = json.loads(text)
        return found


_TASKS, _SESSIONS = "taskplane.api.tasks.v1.TaskStore", "taskplane.api.sessions.v1.SessionHistory"


@pytest_asyncio.fixture(loop_scope="module")
async def world(plane: Plane) -> AsyncGenerator[World, None]:
    """An owner with data of every kind."""
    async with AsyncExitStack() as stack:
        channel = await stack.enter_async_context(connect(plane.tasks_target))
        http = await stack.enter_async_context(http_client(plane.url, **{"X-User-Id": _OWNER.owner}))
        session, runtime, rewound = uuid4().hex, uuid4().hex, uuid4().hex
        done = (await send(http, "artifact", contextId=session))["task"]
        paused = (await send(http, "ask Which?", contextId=session))["task"]
        await http.post("/api/sessions", json={"id": runtime, "agent_ref": "demo", "name": "Confidential"})
        event, document = uuid4().hex, uuid4().hex
        runs = {"id": event, "data": json.dumps({"id": event, "actions": {"stateDelta": {"secret": 1}}})}
        assert (await http.post(f"/api/sessions/{runtime}/events", json=runs)).status_code == 201
        body: Json = {"id": document, "contextId": runtime, "kind": "task", "status": {"state": "working"}}
        assert (await http.post("/api/tasks", json=body)).status_code == 201
        await send(http, "A", contextId=rewound)
        cut = (await send(http, "B", contextId=rewound))["task"]["history"][0]["metadata"]["kagent_invocation_id"]
        assert (await http.post(f"/api/sessions/{rewound}/rewind", json={"before": cut})).status_code == 200
        spare: dict[str, list[str]] = {"spare": [], "spare_key": [], "spare_task": [], "spare_turn": []}
        spare |= {"staging": [], "staged": []}
        for _ in range(sum("{spare" in str(cell) for _, _, cell in matrix())):
            key, context = uuid4().hex, uuid4().hex
            said = await send(http, "message spare", contextId=context, headers={"Idempotency-Key": key})
            spare["spare_turn"].append(said["message"]["metadata"]["kagent_invocation_id"])
            spare["spare_task"].append(uuid4().hex)
            body = {"id": spare["spare_task"][-1], "contextId": runtime, "kind": "task", "status": {"state": "working"}}
            assert (await http.post("/api/tasks", json=body)).status_code == 201
            spare["spare"].append(context)
            spare["spare_key"].append(key)
        begun = World(channel, {}, spare)
        staged: list[tuple[str, str, str]] = []
        for service, _, cell in matrix():
            if "{staged}" in str(cell):
                context, staging = uuid4().hex, uuid4().hex
                page = {"context_id": context, "import_id": staging, "number": 1, "data": "AAAA"}
                await begun.made(_OWNER, service, "StageImport", **page)
                spare["staged"].append(context)
                spare["staging"].append(staging)
                staged.append((service, context, staging))
        ids = {
            "session": session,
            "runtime": runtime,
            "rewound": rewound,
            "done": done["id"],
            "paused": paused["id"],
            "document": document,
            "cursor": paused["metadata"]["taskplane.dev/cursor"],
            "turn": done["history"][0]["metadata"]["kagent_invocation_id"],
            "message": done["history"][0]["messageId"],
            "artifact": done["artifacts"][0]["artifactId"],
            "title": "Confidential",
            "entry": (await begun.made(_OWNER, _SESSIONS, "ListEntries", context_id=session))["entries"][0]["id"],
        }
        for name in ("done", "paused"):
            ids[f"{name}_uid"] = (await begun.made(_OWNER, _TASKS, "GetTask", task_id=ids[name]))["record"]["uid"]
        yield World(channel, ids, spare, tuple(spare["spare"]), staged)


def matrix() -> Iterator[tuple[str, str, Cell]]:
    """Each cell with its service and its RPC."""
    for service, rows in SERVICES.items():
        for name, row in rows.items():
            if not isinstance(row, NoId):
                yield from ((service, name, cell) for cell in row)


async def views(world: World) -> Json:
    """Everything that the owner is shown: the replies to every request of the matrix that only reads."""
    found: Json = {}
    for service, name, cell in matrix():
        reads = RPCS[service][name].GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
        # A watch that would wait for the next event shows nothing.
        if reads and "{mine}" not in str(cell) and "{cursor}" not in str(cell) and name != "GetSessionFigures":
            request = filled(cell.request, world.ids)
            found[f"{name} {request}"] = await world.call(_OWNER, service, name, request)
    for context in world.contexts:
        found[context] = await world.call(_OWNER, _SESSIONS, "ListEntries", {"context_id": context})
    return found


# The names of fields that name something.
_NAMING: Final = re.compile(r"(?:^|_)(?:id|ids|uid)$|^(?:before|cursor|expected_context|idempotency_key|shown|target)$")


def id_fields(message: Descriptor) -> set[str]:
    """Returns the fields that name something, by their names, without those inside A2A messages in them."""
    found: set[str] = set()
    for field in message.fields:
        within = field.message_type
        if within is not None and within.full_name.startswith("taskplane.api."):
            if not within.full_name.startswith("taskplane.api.a2a."):
                found |= id_fields(within)
        elif field.type == field.TYPE_STRING and _NAMING.search(field.name):
            found.add(field.name)
    return found


def test_every_rpc_has_a_row_and_every_id_in_its_request_a_cell() -> None:
    """A new RPC, or a new id in a request, fails here until its treatment of other owners is declared."""
    assert {service: list(rows) for service, rows in SERVICES.items()} == {
        service: list(methods) for service, methods in RPCS.items()
    }
    missing: set[tuple[str, str]] = set()
    for service, methods in RPCS.items():
        for name, method in methods.items():
            row = SERVICES[service][name]
            named = "" if isinstance(row, NoId) else " ".join(str(cell.request) for cell in row)
            if row is not SWEEP:
                missing |= {(name, field) for field in id_fields(method.input_type) if f"'{field}'" not in named}
    assert sorted(missing) == []
    assert [cell for _, _, cell in matrix() if bool(cell.held) != bool(cell.reason)] == []


@on_both_engines
@pytest.mark.parametrize("other", _OTHERS)
@pytest.mark.asyncio(loop_scope="module")
async def test_data_of_another_owner_is_answered_like_unknown_data(world: World, other: str) -> None:
    """S2, S6, T3, W18: code, reason and content are equal except for the id, and nothing of the owner changes."""
    who = _OTHERS[other]
    before = await views(world)
    wrong = [
        f"{name} {cell}: {what}"
        for service, name, cell in matrix()
        for what in await both(world, who, service, name, cell)
    ]
    assert not wrong, "\n".join(wrong)
    service = Principal(who.tenant, who.owner, "service", service=True)
    await world.made(service, _SESSIONS, "DeleteUserState")
    await world.made(service, "taskplane.api.executor.v1.AgentExecutor", "EraseOwner")
    after = await views(world)
    for of, context, staging in world.staged:
        await world.made(_OWNER, of, "StageImport", context_id=context, import_id=staging, number=2, data="AAAA")
    assert {name: (before[name], after[name]) for name in before if before[name] != after[name]} == {}


async def both(world: World, who: Principal, service: str, name: str, cell: Cell) -> Iterator[str]:
    """Return the faults of the answers to requests for unknown data, and for data of the owner."""
    names = NAMES.findall(str(cell.request))
    held = {each: world.ids[each] for each in names if each in world.ids}
    held |= {each: world.spare[each].pop() for each in names if each in world.spare}
    first = await one(world, who, service, name, cell, {each: unknown(value) for each, value in held.items()})
    second = await one(world, who, service, name, cell, held)
    expected = cell.held if cell.held and who.tenant == _OWNER.tenant else cell.answer
    wrong: list[str] = []
    if first[0] != cell.answer:
        wrong.append(f"nobody's: {first} instead of {cell.answer}")
    if second[0] != expected:
        wrong.append(f"the owner's: {second} instead of {expected}")
    if expected == cell.answer and first != second:
        wrong.append(f"told apart: {first} / {second}")
    return iter(wrong)


async def one(
    world: World, who: Principal, service: str, name: str, cell: Cell, ids: Mapping[str, str]
) -> tuple[str, str]:
    """Returns the answer to a request, with the names of ids in place of ids."""
    named = {**ids, "new": uuid4().hex}
    if "{mine}" in str(cell):
        made = await world.made(who, _SESSIONS, "CreateSession", agent="demo")
        named["mine"] = made["session"]["context_id"]
    if "{mine_task}" in str(cell):
        message = {"message_id": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "x"}]}
        request = {"invocation_id": uuid4().hex, "request_hash": HASH, "agent": "nobody", "context_id": uuid4().hex}
        made = await world.made(who, _TASKS, "CreateTask", **request, message=message)
        named["mine_task"] = made["record"]["id"]
    caller = Principal(who.tenant, who.owner, who.actor, service=cell.service, operator=cell.operator)
    code, text = await world.call(caller, service, name, filled(cell.request, named))
    return code, unnamed(text, named)


@pytest.mark.asyncio(loop_scope="module")
async def test_calls_about_all_owners_are_refused_to_users(world: World) -> None:
    """C8: sweeps and the erasure of an owner."""
    for service, rows in SERVICES.items():
        for name, row in rows.items():
            if isinstance(row, NoId) and name not in ("ListAgents", "GetAgentCard"):
                assert (await world.call(_OTHERS["user"], service, name, {}))[0].startswith("PERMISSION_DENIED"), name
