"""Rules of A2A about HTTP itself: versions, media types, bodies, verbs and slashes, over each binding of HTTP."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front, request, said, said_0_3

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON: Final = "application/json"
A2A_JSON: Final = "application/a2a+json"


@dataclass(frozen=True)
class Way:
    """A way to get a task: by one binding of one version."""

    name: str
    verb: str
    path: str
    method: str = ""

    def body(self, task: str) -> bytes:
        return json.dumps(request(self.method, {"id": task})).encode() if self.method else b""

    async def get(self, plane: Plane, task: str, query: str = "", **headers: str) -> httpx.Response:
        sent = {**({"content-type": JSON} if self.method else {}), **headers}
        path = self.path.replace("{task}", task) + query
        return await plane.http.request(self.verb, path, content=self.body(task), headers=sent)


WAYS: Final = (
    Way("jsonrpc-1.0", "POST", "/", "GetTask"),
    Way("jsonrpc-0.3", "POST", "/", "tasks/get"),
    Way("rest-1.0", "GET", "/tasks/{task}"),
    Way("rest-0.3", "GET", "/v1/tasks/{task}"),
)
each_way: Final = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)


def code_of(reply: httpx.Response) -> int:
    """Return the code of an answer in JSON-RPC; 0 for a result."""
    body: Json = reply.json()
    error: Any = body.get("error")
    if not error:
        return 0
    if "jsonrpc" in body:
        return int(error["code"])
    if "type" in body:
        return int(body["code"])
    reasons = {"VERSION_NOT_SUPPORTED": -32009, "TASK_NOT_FOUND": -32001, "CONTENT_TYPE_NOT_SUPPORTED": -32005}
    return reasons[error["details"][0]["reason"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def planes(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[tuple[Plane, Plane, str], None]:
    """A plane, the same with `strict_version`, and a task that has ended."""
    async with (
        open_behind(tmp_path_factory.mktemp("rules")) as behind,
        open_front(behind) as plane,
        open_front(behind, strict_version=True) as strict,
    ):
        yield plane, strict, (await plane.send("hello"))["id"]


_NONE: Final = ("",)
_OLD: Final = ("0.3", "0.3.0", "0.3.7")
_NEW: Final = ("1.0", "1.0.1", "1.0.0")
_OTHER: Final = ("99.0", "1.1", "1", "2.0", "0.2", "x", "0.3,1.0")


@each_way
@pytest.mark.parametrize("in_query", [False, True], ids=["header", "query"])
async def test_each_version_has_its_answer_at_each_method_and_path(
    planes: tuple[Plane, Plane, str], way: Way, in_query: bool
) -> None:
    """a2a H1, H2, H3, K1, K2, A10: the table of versions."""
    plane, strict, task = planes
    is_new = way.name.endswith("1.0")
    expected = {
        **dict.fromkeys(_NONE, (0, -32009 if is_new else 0)),
        **dict.fromkeys(_OLD, (-32009, -32009) if is_new else (0, 0)),
        **dict.fromkeys(_NEW, (-32601, -32601) if way.name == "jsonrpc-0.3" else (0, 0)),
        **dict.fromkeys(_OTHER, (-32009, -32009)),
    }
    for version, codes in expected.items():
        query = f"?A2A-Version={version}" if in_query else ""
        headers = {} if in_query else {"a2a-version": version}
        found = tuple([code_of(await way.get(each, task, query, **headers)) for each in (plane, strict)])
        assert found == codes, version


@each_way
async def test_the_header_wins_over_the_query_and_no_request_names_a_version(
    planes: tuple[Plane, Plane, str], way: Way
) -> None:
    """a2a H1, K7."""
    plane, _, task = planes
    own = way.name[-3:]
    named = {"a2a-version": own}
    assert code_of(await way.get(plane, task, "?A2A-Version=99.0", **named)) == 0
    assert code_of(await way.get(plane, task, f"?A2A-Version={own}", **{"a2a-version": "99.0"})) == -32009
    assert code_of(await way.get(plane, task)) == 0


SENDS: Final = {
    "jsonrpc-1.0": ("/", request("SendMessage", {"message": said("message hi")})),
    "jsonrpc-0.3": ("/", request("message/send", {"message": said_0_3("message hi")})),
    "rest-1.0": ("/message:send", {"message": said("message hi")}),
    "rest-0.3": ("/v1/message:send", {"message": {**said(""), "parts": None, "content": [{"text": "message hi"}]}}),
}
each_send: Final = pytest.mark.parametrize("name", SENDS)


@each_send
@pytest.mark.parametrize(
    "media_type",
    [
        *(JSON, A2A_JSON, "Application/JSON", "application/json;charset=utf-8", 'application/json; charset="UTF-8"'),
        *("application/a2a+json; profile=x", "application/json;"),
    ],
)
async def test_json_is_read_under_either_media_type_with_any_parameters(
    plane: Plane, name: str, media_type: str
) -> None:
    """a2a H6, H7, H12."""
    path, body = SENDS[name]
    reply = await plane.http.post(path, content=json.dumps(body), headers={"content-type": media_type})
    assert reply.status_code == 200, reply.text
    assert code_of(reply) == 0


@each_send
@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/json-seq", "json", "*/*"],
)
@pytest.mark.parametrize("body", [b"{", b"{}", b"\0"])
async def test_another_media_type_is_refused_before_the_body_is_read(
    plane: Plane, name: str, media_type: str, body: bytes
) -> None:
    """a2a H10: 415 over REST, an error of JSON-RPC without an id."""
    path, _ = SENDS[name]
    reply = await plane.http.post(path, content=body, headers={"content-type": media_type})
    assert code_of(reply) == -32005
    is_rpc = name.startswith("jsonrpc")
    assert reply.status_code == (200 if is_rpc else 415)
    assert not is_rpc or reply.json()["id"] is None


@each_send
async def test_results_and_errors_have_the_media_type_of_their_binding(plane: Plane, name: str) -> None:
    """a2a H6, H8, H9."""
    path, body = SENDS[name]
    for sent, accept in ((body, "*/*"), ({}, "*/*"), (body, A2A_JSON), ({}, A2A_JSON)):
        reply = await plane.http.post(path, json=sent, headers={"accept": accept})
        expected = A2A_JSON if name == "rest-1.0" and accept == A2A_JSON else JSON
        assert reply.headers["content-type"] == expected


@pytest.mark.parametrize("base", ["", "/v1", "/default", "/agents/demo", "/agents/demo/v1", "/agents/demo/default"])
@pytest.mark.parametrize("end", ["", "/"])
async def test_a_post_needs_neither_a_body_nor_a_media_type(plane: Plane, base: str, end: str) -> None:
    """a2a H11, A3, A4, K9: a cancel and a subscription, as official clients send them."""
    task = await plane.send("ask")
    async with plane.http.stream("POST", f"{base}/tasks/{task['id']}:subscribe{end}") as reply:
        assert (reply.status_code, reply.headers["content-type"]) == (200, "text/event-stream")
        assert not reply.request.headers.get("content-type")
        canceled = await plane.http.post(f"{base}/tasks/{task['id']}:cancel{end}")
        assert (canceled.status_code, canceled.json()["id"]) == (200, task["id"])
        assert len([line async for line in reply.aiter_lines() if line.startswith("data:")]) == 2


@pytest.mark.parametrize("path", ["/", "/jsonrpc", "/agents/demo", "/agents/demo/jsonrpc", "/api/a2a/ns/demo"])
async def test_json_rpc_answers_with_and_without_a_slash_and_redirects_nobody(plane: Plane, path: str) -> None:
    """a2a A3."""
    for end in ("", "/"):
        reply = await plane.http.post(
            f"{path.rstrip('/')}{end}", json=request("SendMessage", {"message": said("message hi")})
        )
        assert (reply.status_code, list(reply.json()["result"])) == (200, ["message"])


@pytest.mark.parametrize("base", ["", "/v1", "/default", "/agents/demo"])
async def test_a_body_that_repeats_the_path_is_read_and_the_path_wins(plane: Plane, base: str) -> None:
    """a2a K17: bodies of the official clients."""
    task, other = await plane.send("ask"), await plane.send("ask")
    repeated = {"tenant": "default", "id": other["id"], "task_id": other["id"], "name": f"tasks/{other['id']}"}
    for path in (f"{base}/tasks/{task['id']}:subscribe", f"{base}/tasks/{task['id']}:cancel"):
        async with plane.http.stream("POST", path, json=repeated) as reply:
            assert reply.status_code == 200
            if path.endswith(":cancel"):
                assert json.loads(await reply.aread())["id"] == task["id"]
    assert (await plane.http.get(f"/tasks/{other['id']}")).json()["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_ids_in_paths_may_be_percent_encoded(plane: Plane) -> None:
    """a2a K5."""
    odd = f"a/b:cancel é %{fresh()}"
    document: Json = {"id": odd, "contextId": fresh(), "status": {"state": "working"}, "history": []}
    assert (await plane.http.post("/api/tasks", json=document)).status_code == 201
    encoded = "".join(f"%{byte:02X}" for byte in odd.encode())
    for base in ("/tasks/", "/v1/tasks/", "/default/tasks/", "/agents/demo/tasks/"):
        reply = await plane.http.get(f"{base}{encoded}")
        assert (reply.status_code, reply.json()["id"]) == (200, odd)
        reply = await plane.http.post(f"{base}{encoded}:cancel")
        assert reply.status_code in (400, 409), reply.text


@pytest.mark.parametrize("base", ["", "/v1", "/default", "/agents/demo", "/agents/demo/v1"])
async def test_a_wrong_verb_is_refused_with_the_right_ones_and_another_path_is_not_found(
    plane: Plane, base: str
) -> None:
    """a2a K5."""
    for verb, path, allowed in (
        ("GET", "message:send", "POST"),
        ("DELETE", "message:stream", "POST"),
        ("POST", "tasks", "GET"),
        ("PUT", "tasks/t", "GET"),
        ("GET", "tasks/t:cancel", "POST"),
        ("PUT", "tasks/t:subscribe", "GET, POST"),
        ("PATCH", "tasks/t/pushNotificationConfigs", "GET, POST"),
        ("PUT", "tasks/t/pushNotificationConfigs/c", "DELETE, GET"),
    ):
        reply = await plane.http.request(verb, f"{base}/{path}")
        assert (reply.status_code, reply.headers["allow"]) == (405, allowed), path
        assert reply.json()["error"]["code"] == 405
    for path in ("message:sent", "tasks/t/none", "tasks/t:cancel:cancel", "task/t/pushNotificationConfigs", "tasks//t"):
        reply = await plane.http.post(f"{base}/{path}")
        assert reply.status_code == 404, path


async def test_a_list_of_tasks_does_not_exist_in_0_3(plane: Plane) -> None:
    """a2a A7, A8."""
    assert (await plane.rpc("tasks/list", {}))["error"]["code"] == -32601
    for base in ("", "/agents/demo"):
        assert (await plane.http.get(f"{base}/v1/tasks")).status_code == 501


async def test_json_rpc_errors_are_http_200_with_the_id_of_the_request(plane: Plane) -> None:
    """a2a I2, I3, I9."""
    for rpc_id in ("r", 7, 1.5, None, "", "\N{SNOWMAN}" * 300, 2**70, -1):
        body = {**request("GetTask", {"id": "none"}), "id": rpc_id}
        reply = await plane.http.post("/", content=json.dumps(body), headers={"content-type": JSON})
        found = reply.json()
        assert (reply.status_code, found["id"], found["error"]["code"]) == (200, rpc_id, -32001)
        first = found["error"]["data"][0]
        assert (first["@type"], first["reason"]) == ("type.googleapis.com/google.rpc.ErrorInfo", "TASK_NOT_FOUND")
