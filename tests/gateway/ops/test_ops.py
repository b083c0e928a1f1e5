"""Routes of operators: they see and change the tasks of all owners of their tenant, and of no other."""

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import pytest_asyncio
from tests.conftest import ENGINES_IF_THOROUGH
from tests.executor.plane import eventually
from tests.executor.scripted import Scripted
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front, request, said
from tests.support.databases import copied
from tests.support.postgres import Cluster

from taskplane.agents.agent import Change, Turn, Working
from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.principal import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANN, BOB, OLGA, LOOKS, ONLY, AWAY = "ann", "bob", "olga", "looks", "only", "away"
_KEYS: Final = {
    ANN: 'owner = "ann"',
    BOB: 'owner = "bob"',
    OLGA: 'owner = "olga"\nscopes = ["read", "write", "operate"]',
    LOOKS: 'owner = "liz"\nscopes = ["read", "operate"]',
    ONLY: 'owner = "oz"\nscopes = ["operate"]',
    AWAY: 'owner = "olga"\ntenant = "elsewhere"\nscopes = ["write", "operate"]',
}
_SECRET: Final = "password=hunter2"
_V1: Final = {"X-API-Key": f"{ANN}.secret", "A2A-Version": "1.0"}
_DIGEST: Final = hashlib.sha256(b"secret").hexdigest()


def keys(folder: Path) -> str:
    """Write a file with a key for each of these callers, and return its path."""
    path = folder / "keys.toml"
    path.write_text("\n".join(f'[[keys]]\nid = "{key}"\nsha256 = "{_DIGEST}"\n{more}\n' for key, more in _KEYS.items()))
    return str(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ENGINES_IF_THOROUGH)
async def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Plane, None]:
    """A gateway with keys for the demo agent."""
    folder = tmp_path_factory.mktemp("plane")
    async with AsyncExitStack() as stack:
        url = ""
        if request.param == "postgres":
            cluster: Cluster = request.getfixturevalue("cluster")
            url = await stack.enter_async_context(copied(cluster))
        behind = await stack.enter_async_context(open_behind(folder, database_url=url))
        yield await stack.enter_async_context(open_front(behind, api_keys=keys(folder)))


async def _crash(turn: Turn) -> AsyncIterator[Change]:
    yield Working()
    raise RuntimeError(f"no \0 {_SECRET}")


async def test_only_operators_see_the_exception_and_line_that_failed_a_task(tmp_path: Path, database_url: str) -> None:
    """V1, P9: with the task and in its log. Without authentication on loopback the caller is an operator. No other
    route has it."""
    agents = ("a", Scripted(_crash))
    async with open_behind(tmp_path, agents, database_url=database_url) as behind:
        async with open_front(behind, api_keys=keys(tmp_path)) as plane:
            task = await say(plane, ANN, "go")
            found = await data(plane, OLGA, f"/api/ops/tasks/{task['id']}")
            cause = found["task"]["cause"]
            assert cause.startswith(f"RuntimeError: no \ufffd {_SECRET}") and "test_ops.py:" in cause
            (shown,) = (await data(plane, OLGA, f"/api/ops/tasks/{task['id']}?limit=1"))["events"]
            assert "cause" not in shown
            whole = await data(plane, OLGA, f"/api/ops/tasks/{task['id']}/events")
            assert [event.get("cause", "") for event in whole["events"]][-2:] == ["", cause]
            get = request("GetTask", {"id": task["id"]})
            context = task["contextId"]
            seen = [str(task), (await plane.http.post("/", json=get, headers=_V1)).text]
            for path in (f"tasks/{task['id']}/events", f"sessions/{context}/tasks", f"sessions/{context}/export"):
                seen.append((await ask(plane, ANN, "GET", f"/api/{path}")).text)
            for text in seen:
                assert "unexpectedly" in text and _SECRET not in text and "test_ops.py" not in text
        async with open_front(behind) as plane:
            own = await plane.send("go")
            log = (await plane.http.get(f"/api/tasks/{own['id']}/events")).text
            assert log.count(_SECRET) == 1 and '"cause":"RuntimeError: no' in log
            assert _SECRET not in str(await plane.result("GetTask", {"id": own["id"]}))


async def test_rejected_tasks_are_distinguished_from_failed_ones(plane: Plane) -> None:
    """V1, V2: by their state, in lists and in figures. Both have an error."""
    before = (await data(plane, OLGA, "/api/ops/overview"))["recent"]
    task = (await say(plane, ANN, "reject not mine"))["id"]
    found = await data(plane, OLGA, "/api/ops/overview")
    assert (found["recent"]["failed"], found["recent"]["ended"]) == (before["failed"], before["ended"] + 1)
    assert any(each.get("rejected") and each["state"] == "failed" for each in found["tasks"])
    for query, there in (
        ("state=rejected", True),
        ("state=failed", False),
        ("error=1", True),
        ("state=rejected&error=1", True),
    ):
        listed = {each["taskId"]: each for each in await data(plane, OLGA, f"/api/ops/tasks?{query}")}
        assert (task in listed) is there, query
        assert not there or listed[task]["rejected"] is True
    assert (await ask(plane, OLGA, "GET", "/api/ops/tasks?state=working&error=1")).status_code == 400


async def ask(plane: Plane, key: str, method: str, path: str) -> httpx.Response:
    return await plane.http.request(method, path, headers={"X-API-Key": f"{key}.secret"})


async def data(plane: Plane, key: str, path: str, method: str = "GET") -> Any:
    reply = await ask(plane, key, method, path)
    assert reply.status_code == 200, reply.text
    return reply.json().get("data", [])


async def say(plane: Plane, key: str, text: str, *, wait: bool = True) -> Json:
    """Send a message of the owner of a key, and return its task."""
    params = {"message": said(text, contextId=fresh()), "configuration": {"returnImmediately": not wait}}
    reply = await plane.http.post(
        "/", json=request("SendMessage", params), headers={"X-API-Key": f"{key}.secret", "A2A-Version": "1.0"}
    )
    task: Json = reply.json()["result"]["task"]
    return task


def counted(overview: Json) -> dict[tuple[str, bool], int]:
    found = Counter[tuple[str, bool]]()
    for each in overview["tasks"]:
        found[each["state"], each.get("paused", False)] += each["count"]
    return found


async def test_an_operator_sees_the_tasks_of_all_owners_by_state(plane: Plane) -> None:
    """V1: in the overview, and in lists by state, owner and executor; of its tenant only."""
    before = await data(plane, OLGA, "/api/ops/overview")
    running = await say(plane, ANN, "slow 600", wait=False)
    paused = await say(plane, BOB, "ask Which?")
    done = await say(plane, ANN, "hello")
    failed = await say(plane, BOB, "fail")
    await eventually(
        lambda: data(plane, OLGA, f"/api/ops/tasks/{running['id']}"), lambda one: one["task"]["state"] == "working"
    )
    now = await data(plane, OLGA, "/api/ops/overview")
    was = counted(before)
    more = {state: count - was.get(state, 0) for state, count in counted(now).items() if count != was.get(state, 0)}
    assert more == {("working", False): 1, ("working", True): 1, ("completed", False): 1, ("failed", False): 1}
    assert now["recent"]["begun"] - before["recent"]["begun"] == 4
    assert now["recent"]["ended"] - before["recent"]["ended"] == 2
    assert now["recent"]["failed"] - before["recent"]["failed"] == 1
    assert len(now["recent"]["perMinute"]) == 61 and now["recent"]["durationSeconds"]["p95"] > 0
    assert now["abandoned"] == {"count": 0, "oldestSeconds": None} and now["bounded"] is False
    assert before["concerns"] == now["concerns"] == []
    (executor,) = [each for each in now["executors"] if each["running"]]
    assert (executor["alive"], executor["agents"], executor["leases"]) == (True, ["demo"], 1)
    assert 0 <= executor["lastSeenSeconds"] < 60

    async def ids(query: str, key: str = OLGA) -> list[str]:
        return [task["taskId"] for task in await data(plane, key, f"/api/ops/tasks?{query}")]

    assert set(await ids("limit=4")) == {one["id"] for one in (running, failed, done, paused)}
    assert (await ids("state=paused&owner=bob"))[0] == paused["id"]
    assert await ids(f"executor={executor['id']}") == [running["id"]]
    assert (await ids("error=1"))[0] == failed["id"] == (await ids("state=failed&agent=demo"))[0]
    assert await ids("owner=ann&state=failed") == []
    assert await ids("", AWAY) == []
    assert counted(await data(plane, AWAY, "/api/ops/overview")) == {}
    await ask(plane, OLGA, "POST", f"/api/ops/tasks/{running['id']}/cancel")


async def test_a_row_has_the_executor_of_a_task_and_the_reason_of_its_failure(plane: Plane) -> None:
    """V1: also owner, attempt, fence and the end of the lease. The log names its actors."""
    failed = await say(plane, BOB, "fail")
    found = await data(plane, OLGA, f"/api/ops/tasks/{failed['id']}")
    task = found["task"]
    assert (task["owner"], task["state"], task["error"]) == ("bob", "failed", "The demo agent was told to fail.")
    listed = await data(plane, OLGA, "/api/ops/tasks?state=failed&owner=bob")
    assert {one["taskId"]: one["errorCode"] for one in listed}[failed["id"]] == task["errorCode"] == "AGENT_ERROR"
    assert (task["attempt"], task["fence"], "executor" in task) == (1, 1, False)
    assert task["completedAt"] == task["statusAt"]
    log = [event["generation"] for event in found["events"]]
    assert log == list(range(1, task["generation"] + 1)) and "next_after" not in found
    assert {"generation", "time", "attempt", "fence", "actor", "kind", "event"} <= found["events"][0].keys()
    assert task["asked"] == "fail"
    listed = (await data(plane, OLGA, "/api/ops/tasks?owner=bob"))[0]
    assert (listed["taskId"], listed["asked"]) == (failed["id"], "fail")
    pages: list[int] = []
    after: int | None = 0
    while after is not None:
        page = await data(plane, OLGA, f"/api/ops/tasks/{failed['id']}/events?limit=2&after={after}")
        pages += [event["generation"] for event in page["events"]]
        after = page.get("next_after")
    assert pages == log
    running = await say(plane, ANN, "slow 600", wait=False)
    row = (await data(plane, OLGA, f"/api/ops/tasks/{running['id']}"))["task"]
    assert row["executor"] and row["leaseExpiresAt"] > row["createdAt"]
    await ask(plane, OLGA, "POST", f"/api/ops/tasks/{running['id']}/cancel")


async def test_a_cancel_by_an_operator_is_logged_with_the_operator_as_actor(plane: Plane) -> None:
    """V2: the run ends as after a cancel of its owner."""
    running = await say(plane, ANN, "slow 600", wait=False)
    task = await data(plane, OLGA, f"/api/ops/tasks/{running['id']}/cancel", "POST")
    assert (task["taskId"], task["owner"], task["state"]) == (running["id"], "ann", "cancelled")
    last = (await data(plane, OLGA, f"/api/ops/tasks/{running['id']}"))["events"][-1]
    assert (last["actor"], last["event"]["statusUpdate"]["status"]["state"]) == ("olga", "TASK_STATE_CANCELED")
    mine = await data(plane, ANN, f"/api/tasks/{running['id']}")
    assert mine["status"]["state"] == "canceled"
    again = await ask(plane, OLGA, "POST", f"/api/ops/tasks/{running['id']}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "TERMINAL")


async def test_an_operator_deletes_a_task_with_its_messages(plane: Plane) -> None:
    """V2, C16: as its owner would. The log has the operator as actor."""
    done = await say(plane, BOB, "hello")
    assert (await ask(plane, OLGA, "DELETE", f"/api/ops/tasks/{done['id']}")).status_code == 204
    for key, path in ((BOB, "/api/tasks"), (OLGA, "/api/ops/tasks")):
        gone = await ask(plane, key, "GET", f"{path}/{done['id']}")
        assert (gone.status_code, gone.json()["code"]) == (404, "TASK_NOT_FOUND")
    left = await data(plane, BOB, f"/api/sessions/{done['contextId']}/effective_history")
    assert left["messages"] == []
    exported = await ask(plane, BOB, "GET", f"/api/sessions/{done['contextId']}/export")
    assert "hello" not in exported.text and '"actor":"olga"' in exported.text


async def test_other_users_get_403_and_operators_of_other_tenants_404(plane: Plane) -> None:
    """V3: users are refused with OPERATORS_ONLY, with any other scope. For operators of another tenant the task does
    not exist."""
    task = await say(plane, ANN, "ask Which?")
    one = f"/api/ops/tasks/{task['id']}"
    reads = [("GET", "/api/ops/overview"), ("GET", "/api/ops/tasks"), ("GET", one), ("GET", f"{one}/events")]
    writes = [("POST", f"{one}/cancel"), ("DELETE", one)]
    for method, path in [*reads, *writes]:
        refused = await ask(plane, ANN, method, path)
        assert (refused.status_code, refused.json()["code"]) == (403, "OPERATORS_ONLY"), path
    for method, path in writes:
        refused = await ask(plane, LOOKS, method, path)
        assert (refused.status_code, refused.json()["code"]) == (403, "READ_ONLY_KEY"), path
    for method, path in [*reads[2:], *writes]:
        missing = await ask(plane, AWAY, method, path)
        assert (missing.status_code, missing.json()["code"]) == (404, "TASK_NOT_FOUND"), path
    for key in (LOOKS, ONLY):
        for method, path in reads:
            assert (await ask(plane, key, method, path)).status_code == 200, (key, path)
    assert (await data(plane, OLGA, one))["task"]["state"] == "working"


async def test_the_scope_operate_grants_no_other_scope(plane: Plane) -> None:
    """V3: a key with this scope only neither reads nor sends as its owner."""
    for method, path in (("GET", "/api/sessions"), ("POST", "/"), ("POST", "/api/sessions")):
        refused = await ask(plane, ONLY, method, path)
        assert (refused.status_code, refused.json()["code"]) == (403, "OPERATE_ONLY_KEY"), path


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=done", "state"), ("error=yes", "error"), ("error=1&state=working", "error"), ("limit=0", "limit")],
)
async def test_an_invalid_filter_is_refused(plane: Plane, query: str, field: str) -> None:
    """V1: with the name of the field and the allowed values."""
    refused = await ask(plane, OLGA, "GET", f"/api/ops/tasks?{query}")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, [field])


async def test_unserved_tasks_and_a_silent_executor_are_concerns(tmp_path: Path) -> None:
    """V4: as soon as the executor stops renewing. There is no concern before there is work, nor in another tenant."""
    ann = Principal("default", "ann", "ann", service=True)
    values: Json = {"invocation_id": fresh(), "request_hash": b"h" * 32, "context_id": fresh(), "agent": "elsewhere"}
    values["message"] = a2a.Message(message_id=fresh(), role=a2a.ROLE_USER, parts=[a2a.Part(text="hello")])
    async with (
        open_behind(
            tmp_path,
            tasks={"lease_ttl": 1.0, "renew_every": 0.3, "sweep_every": 600.0},
            executor={"renew_every": 600.0},
        ) as behind,
        open_front(behind, api_keys=keys(tmp_path)) as plane,
    ):
        assert (await data(plane, OLGA, "/api/ops/overview"))["concerns"] == []
        running = await say(plane, ANN, "slow 600", wait=False)
        await behind.stores.tasks(ann).CreateTask(pb.CreateTaskRequest(**values))
        held = await eventually(
            lambda: data(plane, OLGA, "/api/ops/overview"), lambda one: not one["executors"][0]["alive"]
        )
        waits, silent = held["concerns"]
        assert (waits["code"], "executor" in waits) == ("NO_EXECUTOR", False)
        assert waits["message"].startswith("1 task has been waiting for an executor for ")
        assert "taskplane serve executor" in waits["suggestion"]
        (executor,) = held["executors"]
        assert (silent["code"], silent["executor"]) == ("SILENT", executor["id"])
        assert silent["message"].startswith(f"Executor {executor['id']} was last heard from ")
        assert silent["message"].endswith(" ago and holds 1 task.")
        (task,) = await data(plane, OLGA, f"/api/ops/tasks?executor={silent['executor']}")
        assert task["taskId"] == running["id"]
        assert (await data(plane, AWAY, "/api/ops/overview"))["concerns"] == []


async def test_operators_see_the_owners_that_hold_the_whole_capacity(tmp_path: Path) -> None:
    """L2: owners of their own tenant by name, other tenants by number only."""
    async with (
        open_behind(tmp_path, executor={"capacity": 1}) as behind,
        open_front(behind, api_keys=keys(tmp_path)) as plane,
    ):
        await say(plane, ANN, "slow 6000", wait=False)
        for operator, whose in ((OLGA, "ann"), (AWAY, "other tenants")):
            (held,) = (await data(plane, operator, "/api/ops/overview"))["concerns"]
            assert held["code"] == "CAPACITY_HELD"
            assert held["message"].startswith("1 of 1 slot is taken: 1 by tasks of ")
            assert held["message"].endswith(f" {whose}.") and held["suggestion"]


async def test_tasks_without_an_executor_are_shown_as_queued_or_failed(tmp_path: Path) -> None:
    """V1, C9: an unclaimed task is queued. The task of a lost executor fails with the reason, and is uncopied."""
    ann = Principal("default", "ann", "ann", service=True)
    values: Json = {"invocation_id": fresh(), "request_hash": b"h" * 32, "context_id": fresh(), "agent": "elsewhere"}
    values["message"] = a2a.Message(message_id=fresh(), role=a2a.ROLE_USER, parts=[a2a.Part(text="hello")])
    working = pb.Change(status=a2a.TaskStatusUpdateEvent(status=a2a.TaskStatus(state=a2a.TASK_STATE_WORKING)))
    async with open_behind(tmp_path, tasks={"lease_ttl": 1.0}) as behind, open_front(behind) as plane:
        store = behind.stores.tasks(ann)
        queued = await store.CreateTask(pb.CreateTaskRequest(**values))
        values |= {"invocation_id": fresh(), "claim_for": "gone", "first_changes": [working]}
        lost = (await store.CreateTask(pb.CreateTaskRequest(**values))).record.id

        async def overview() -> Json:
            found: Json = (await plane.http.get("/api/ops/overview")).json()["data"]
            return found

        async def row() -> Json:
            found: Json = (await plane.http.get(f"/api/ops/tasks/{lost}")).json()["data"]["task"]
            return found

        held = await overview()
        assert [(one["agent"], one["queued"]) for one in held["queue"]] == [("elsewhere", 1)]
        assert [one["id"] for one in held["executors"] if one["leases"]] == ["gone"]
        assert (await row())["executor"] == "gone"
        ended = await eventually(row, lambda one: one["state"] == "failed")
        assert ended["error"] == "The process that ran this task was lost before it finished."
        assert (ended["fence"], ended["copied"], "executor" in ended) == (2, False, False)
        left = await overview()
        assert [one["id"] for one in left["executors"] if one["leases"]] == []
        assert left["uncopied"]["count"] == 1 and left["uncopied"]["oldestSeconds"] >= 0
        assert {(one["agent"], one["state"]): one["count"] for one in left["tasks"]} == {
            ("elsewhere", "pending"): 1,
            ("elsewhere", "failed"): 1,
        }
        waiting = (await plane.http.get("/api/ops/tasks?state=pending")).json()["data"]
        assert [(one["taskId"], "queuedAt" in one) for one in waiting] == [(queued.record.id, True)]
