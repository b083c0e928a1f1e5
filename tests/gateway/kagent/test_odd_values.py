"""Values that protobuf, the databases or JSON cannot represent, on every route that accepts them."""

import json
import math
import re
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.gateway.conversing import WAYS, Way, data, name_of, payload
from tests.gateway.plane import JSON_TYPE, Json, Plane, fresh, named, open_front, said, said_0_3
from tests.system.wire import until

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as tasks
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskStoreStub
from taskplane.runtime.channel import client
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

BIG = 653247040368672769
CONVERTED = "taskplane.dev/converted"
# Values that a runtime may write, and their stored form.
ODD = (
    '{"nul": "a\\u0000b", "half": "a\\ud83db", "\\u0000": 1, "nan": NaN, "inf": [-Infinity, Infinity],'
    f' "big": [{BIG}, {"9" * 30}], "whole": [1e16, {2**53}, 100000000000000000000, 1.0, 0.1]}}'
)
KEPT = {
    "nul": "a\ufffdb",
    "half": "a\ufffdb",
    "\ufffd": 1,
    "nan": None,
    "inf": [None, None],
    "big": [str(BIG), "9" * 30],
    "whole": [10**16, 2**53, 10**20, 1, 0.1],
}
PATHS = ["data.big[0]", "data.big[1]"]


async def sent(plane: Plane, method: str, path: str, body: str, **headers: str) -> Json:
    reply = await plane.http.request(method, path, content=body, headers={**JSON_TYPE, **named(headers)})
    assert reply.status_code in (200, 201), reply.text
    found: Json = json.loads(reply.content)
    return found


# A JSON number with an exponent; in base64 no such character precedes one.
EXPONENT = re.compile(r"[:,\[ ]-?[\d.]+e\+")


def of(message: str) -> str:
    """Return the JSON of a runtime's message with the odd data, and with an odd text."""
    text = '{"kind": "text", "text": "a\\u0000b\\ud83d"}'
    parts = f'[{{"kind": "data", "data": {ODD}, "metadata": {ODD}}}, {text}]'
    return f'{{"messageId": "{message}", "role": "agent", "parts": {parts}, "metadata": {ODD}}}'


def check(message: Json) -> None:
    (part, text) = message["parts"]
    assert part["data"] == KEPT and part["metadata"] == KEPT and text["text"] == "a\ufffdb\ufffd"
    metadata = message["metadata"]
    assert {key: value for key, value in metadata.items() if key in KEPT} == KEPT
    listed = [f"parts[0].{path}" for path in PATHS]
    listed += [path.replace(".data.", ".metadata.") for path in listed] + ["metadata.big[0]", "metadata.big[1]"]
    assert sorted(metadata[CONVERTED]) == sorted(listed)


def nested(levels: int, list_: bool = False) -> str:
    begin, end = ("[", "]") if list_ else ('{"a":', "}")
    return begin * levels + '"x"' + end * levels


async def test_odd_values_of_a_document_are_stored_in_converted_form(plane: Plane) -> None:
    """T3: as those of an agent's output are. The returned document can be stored again."""
    task, context = fresh(), fresh()
    artifact = f'{{"artifactId": "a", "name": "n\\u0000", "parts": [{{"kind": "data", "data": {ODD}}}]}}'
    status = f'{{"state": "working", "message": {of("s")}}}'
    document = (
        f'{{"id": "{task}", "contextId": "{context}", "kind": "task", "status": {status},'
        f' "history": [{of("h")}], "artifacts": [{artifact}], "metadata": {ODD}}}'
    )
    await sent(plane, "POST", "/api/tasks", document)
    for _ in range(2):
        read = await data(plane, f"/api/tasks/{task}")
        first, last = read["history"]
        check(first)
        check(last)
        assert read["artifacts"][0]["name"] == "n\ufffd" and read["artifacts"][0]["parts"][0]["data"] == KEPT
        assert read["artifacts"][0]["metadata"][CONVERTED] == [f"parts[0].{path}" for path in PATHS]
        assert read["metadata"]["big"] == KEPT["big"]
        assert read["metadata"][CONVERTED] == ["metadata.big[0]", "metadata.big[1]"]
        await sent(plane, "POST", "/api/tasks", json.dumps({**read, "history": [first]}))


@pytest.mark.parametrize("list_", [False, True], ids=["objects", "lists"])
@pytest.mark.parametrize("levels", [28, 29, 42, 43, 64, 120, 400])
async def test_a_too_deep_value_of_a_document_becomes_its_json_text(plane: Plane, levels: int, list_: bool) -> None:
    """T3: the limit is that of protobuf parsers. Deeper values are kept as text."""
    task, context = fresh(), fresh()
    parts = f'[{{"kind": "data", "data": {{"r": {nested(levels, list_)}}}}}]'
    history = f'[{{"role": "agent", "messageId": "m", "parts": {parts}}}]'
    document = f'{{"id": "{task}", "contextId": "{context}", "status": {{"state": "completed"}}, "history": {history}}}'
    await sent(plane, "POST", "/api/tasks", document)
    (message,) = (await data(plane, f"/api/tasks/{task}"))["history"]
    found, depth = message["parts"][0]["data"]["r"], 0
    while not isinstance(found, str):
        found, depth = (found[0] if list_ else found["a"]), depth + 1
    most = (81 // 2) if list_ else 27
    assert depth == min(levels, most)
    assert found == "x" if levels <= most else json.loads(found) == json.loads(nested(levels - most, list_))
    exported = await plane.http.get(f"/api/tasks/{task}/events")
    assert exported.status_code == 200


@pytest.mark.parametrize("levels", [501, 2_000, 100_000])
async def test_a_document_beyond_the_limit_is_refused_as_too_deep(plane: Plane, levels: int) -> None:
    """T3: the error is TOO_DEEP at every depth, never a JSON syntax error."""
    document = f'{{"id": "{fresh()}", "contextId": "{fresh()}", "metadata": {{"r": {nested(levels, list_=True)}}}}}'
    reply = await plane.http.post("/api/tasks", content=document, headers=JSON_TYPE)
    assert (reply.status_code, reply.json()["code"]) == (400, "TOO_DEEP")
    assert "500 levels" in reply.json()["error"]


async def test_odd_values_of_a_pushed_history_and_an_event_are_stored(plane: Plane) -> None:
    """R5, R12, S5: the state has the converted values. The event keeps its text."""
    context = fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    path = f"/api/sessions/{context}"
    pushed = await sent(plane, "PUT", f"{path}/effective_history", f"[{of('p')}]")
    check(pushed["data"]["messages"][0])
    text = f'{{"invocation_id": "i", "actions": {{"state_delta": {ODD}}}}}'
    await sent(plane, "POST", f"{path}/events", json.dumps({"id": "e1", "data": text}))
    await sent(plane, "POST", f"{path}/events", f'{{"id": "e2", "data": {text}}}')
    found = (await data(plane, f"{path}/state"))["state"]
    assert {key: found.get(key) for key in KEPT} == KEPT
    (second, first) = (await data(plane, path))["events"]
    assert first["data"] == text and json.loads(second["data"])["actions"]["state_delta"]["big"][0] == BIG
    deep = f'{{"invocation_id": "j", "actions": {{"state_delta": {{"deep": {nested(100)}}}}}}}'
    await sent(plane, "POST", f"{path}/events", json.dumps({"id": "e3", "data": deep}))
    assert (await data(plane, f"{path}/state"))["state"]["deep"]["a"]["a"]


@pytest.mark.parametrize("way", WAYS, ids=name_of)
async def test_numbers_of_a_message_are_equal_on_every_route(plane: Plane, way: Way) -> None:
    """B4: in the answer, the stream, the task, the conversation, the log, and after an export and import."""
    context = fresh()
    value = {"n": 10**16, "two": 2.0**53, "big": BIG, "huge": 123456789012345678901, "e20": 10**20, "f": 1.5}
    shown = {**value, "two": 2**53, "big": str(BIG), "huge": "123456789012345678901"}
    part = {"data": value} if way.version == "1.0" else {"kind": "data", "data": value}
    make = said if way.version == "1.0" else said_0_3
    message = make("x", contextId=context, metadata={"m": BIG})
    message["parts"].append(part)
    paths = ["parts[1].data.big", "parts[1].data.huge", "metadata.m"]

    def check_message(found: Json) -> None:
        assert found["parts"][1]["data"] == shown
        assert (found["metadata"]["m"], found["metadata"][CONVERTED]) == (str(BIG), paths)

    params = {"message": message, "configuration": {"blocking": True}}
    if way.streams:
        task = payload((await plane.streamed(way.method, params))[0].result)[1]
    else:
        task = payload(await plane.result(way.method, params))[1]
    read = await data(plane, f"/api/tasks/{task['id']}")
    await until(lambda: _is_done(plane, context))
    check_message(read["history"][0])
    check_message((await data(plane, f"/api/sessions/{context}/messages"))["messages"][0])
    check_message((await data(plane, f"/api/sessions/{context}/effective_history"))["messages"][0])
    log = (await plane.http.get(f"/api/tasks/{task['id']}/events")).text
    assert '"n":10000000000000000' in log.replace(" ", "") and ":100000000000000000000" in log.replace(" ", "")
    assert not EXPONENT.search(log)
    exported = (await plane.http.get(f"/api/sessions/{context}/export")).content
    assert b'"two":9007199254740992' in exported and b'"n":10000000000000000' in exported
    assert not EXPONENT.search(exported.decode())
    new = fresh()
    reply = await plane.http.post(
        f"/api/sessions/import?id={new}", content=exported, headers={"content-type": "application/x-ndjson"}
    )
    assert reply.status_code == 201, reply.text
    check_message((await data(plane, f"/api/sessions/{new}/messages"))["messages"][0])


async def _is_done(plane: Plane, context: str) -> bool:
    tasks = await data(plane, f"/api/sessions/{context}/tasks")
    return all(one["status"]["state"] == "completed" for one in tasks)


@pytest.mark.parametrize(
    "rpc_id", ["123456789012345678901", "-123456789012345678901", "1" * 5000, "9007199254740993", "1e400", '"\\u2028"']
)
@pytest.mark.parametrize("method", ["GetTask", "message/stream", "Nothing"])
async def test_the_answer_has_the_exact_id_of_its_request(plane: Plane, rpc_id: str, method: str) -> None:
    """B1: in results, errors and streams."""
    params = {"message": said_0_3("hello")} if "stream" in method else {"id": "none"}
    body = f'{{"jsonrpc": "2.0", "id": {rpc_id}, "method": "{method}", "params": {json.dumps(params)}}}'
    reply = await plane.http.post("/", content=body, headers=JSON_TYPE)
    lines = [line for line in reply.text.splitlines() if "jsonrpc" in line]
    assert lines and all(f'"id":{rpc_id},' in line for line in lines), reply.text


@pytest.mark.parametrize("method", ["SendMessage", "message/stream"])
async def test_the_error_of_a_too_deep_request_has_its_id(plane: Plane, method: str) -> None:
    """B1: clients match answers by it. A request that Python cannot parse is answered with the id null."""
    for levels, rpc_id in ((65, 7), (900, 7), (100_000, None)):
        deep = nested(levels, list_=True)
        body = f'{{"jsonrpc": "2.0", "id": 7, "method": "{method}", "params": {{"metadata": {{"m": {deep}}}}}}}'
        reply = (await plane.http.post("/", content=body, headers=JSON_TYPE)).json()
        assert (reply["id"], reply["error"]["code"]) == (rpc_id, -32602)
        assert "TOO_DEEP" in json.dumps(reply) and "64 levels" in reply["error"]["message"]
        notification = await plane.http.post("/", content=body.replace('"id": 7, ', ""), headers=JSON_TYPE)
        assert (notification.status_code, notification.content) == (204, b"") or rpc_id is None


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exact(plane: Plane) -> AsyncGenerator[Plane, None]:
    """A second gateway that refuses integers that it would have to convert."""
    async with open_front(plane.behind, large_integers="refuse") as found:
        yield found


async def test_a_large_integer_is_refused_if_so_configured(exact: Plane) -> None:
    """B4: the error names the paths. The document of a runtime is converted all the same (T3)."""
    message = said("x", metadata={"m": BIG})
    message["parts"].append({"data": {"n": [BIG]}})
    error = await exact.error("SendMessage", {"message": message})
    assert error["code"] == -32602 and "message.parts[1].data.n[0]" in json.dumps(error)
    assert "message.metadata.m" in json.dumps(error)
    message["parts"][1], message["metadata"] = {"data": {"n": 2**60}}, {}
    assert await exact.result("SendMessage", {"message": message})
    document = {"id": fresh(), "contextId": fresh(), "status": {"state": "working"}, "metadata": {"n": BIG}}
    stored = await exact.http.post("/api/tasks", json=document)
    assert stored.status_code == 201 and stored.json()["data"]["metadata"]["n"] == str(BIG)


@pytest.mark.parametrize("value", ['"a\\u0000"', nested(29), nested(43, list_=True)])
async def test_an_odd_value_in_a_user_message_is_refused_with_its_path(plane: Plane, value: str) -> None:
    """The sender can correct it."""
    message = json.dumps(said("x")).replace('"text": "x"', f'"data": {value}')
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {{"message": {message}}}}}'
    found = (await plane.http.post("/", content=body, headers=JSON_TYPE)).json()
    assert found["error"]["code"] == -32602 and "message.parts[0].data" in json.dumps(found)


async def test_nan_and_infinity_received_over_grpc_are_read_as_null(plane: Plane) -> None:
    """T3: in reads, and in an export, which is complete."""
    context, task = fresh(), fresh()
    await plane.http.post("/api/sessions", json={"id": context, "agent_ref": "demo"})
    put = tasks.PutTaskRequest(task=a2a.Task(id=task, context_id=context))
    put.task.status.state = a2a.TASK_STATE_COMPLETED
    message = put.task.history.add(message_id="m", role=a2a.ROLE_AGENT)
    message.parts.add().data.list_value.values.add().number_value = math.nan
    message.metadata.fields["n"].number_value = -math.inf
    owner = Principal("default", "local", "user:local")
    await TaskStoreStub(client(plane.behind.stores.channel, identity=owner)).PutTask(put)
    (read,) = (await data(plane, f"/api/tasks/{task}"))["history"]
    assert (read["parts"][0]["data"], read["metadata"]["n"]) == ({"value": [None]}, None)
    lines = (await plane.http.get(f"/api/sessions/{context}/export")).content.splitlines()
    assert json.loads(lines[-1])["type"] == "end"
