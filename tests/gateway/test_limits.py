"""Limits per user, so that others are served: typed errors over HTTP, and fair queues."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.plane import Json, Plane, fresh, open_behind, open_front, request, said, said_0_3
from tests.system.wire import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNNING = {"working", "submitted"}


@asynccontextmanager
async def plane_with(
    folder: Path, database_url: str = "", *, tasks: Mapping[str, Any] | None = None, **executor: Any
) -> AsyncGenerator[Plane, None]:
    async with (
        open_behind(folder, database_url=database_url, tasks=tasks, executor=executor) as behind,
        open_front(behind) as plane,
    ):
        yield plane


async def begin(plane: Plane, user: str, text: str, context: str = "") -> Json:
    """Return the response to a send that does not wait for the end."""
    message = said(text, **({"contextId": context} if context else {}))
    return await plane.rpc(
        "SendMessage", {"message": message, "configuration": {"returnImmediately": True}}, x_user_id=user
    )


async def states(plane: Plane, user: str) -> list[str]:
    listed = await plane.result("ListTasks", {"pageSize": 100}, x_user_id=user)
    return [task["status"]["state"].removeprefix("TASK_STATE_").lower() for task in listed["tasks"]]


def retry_of(error: Json) -> tuple[str, str]:
    """Return the reason and the delay of a 1.0 error."""
    info, *rest = error["data"]
    (delay,) = [each["retryDelay"] for each in rest if each["@type"].endswith("RetryInfo")]
    return info["metadata"].get("reason") or info["reason"], delay


async def test_a_queued_task_over_the_limit_of_its_user_is_refused(tmp_path: Path, database_url: str) -> None:
    """L2: other users may queue theirs. A refused message is in no conversation, and is accepted once there is room."""
    limits = {"queued_per_owner": 2, "queued_per_tenant": 3}
    async with plane_with(tmp_path, database_url, tasks=limits, capacity=1) as plane:
        tasks = [(await begin(plane, "ann", "slow 4000"))["result"]["task"]["id"] for _ in range(3)]
        context = fresh()
        refused = (await begin(plane, "ann", "one more", context))["error"]
        assert (refused["code"], retry_of(refused)) == (-32029, ("QUEUE_LIMIT", "1s"))
        assert "2 tasks" in refused["message"]
        older = await plane.error("message/send", {"message": said_0_3("one more")}, x_user_id="ann")
        assert (older["code"], older["data"]["reason"], older["data"]["retryAfter"]) == (-32029, "QUEUE_LIMIT", 1.0)
        history = await plane.http.get(f"/api/sessions/{context}/effective_history", headers={"X-User-Id": "ann"})
        assert history.json()["data"]["messages"] == []
        assert "result" in await begin(plane, "bob", "slow 4000")
        assert "your tenant has 3" in (await begin(plane, "carl", "slow 4000"))["error"]["message"]
        await plane.result("CancelTask", {"id": tasks[1]}, x_user_id="ann")
        assert "result" in await begin(plane, "ann", "one more", context)


async def test_a_send_over_the_rate_limit_is_refused_with_a_retry_time(tmp_path: Path) -> None:
    """L2: in both versions. Other users are not affected."""
    async with plane_with(tmp_path, sends_per_second=0.2) as plane:
        for _ in range(2):
            assert "result" in await begin(plane, "ann", "message hello")
        refused = (await begin(plane, "ann", "message hello"))["error"]
        reason, delay = retry_of(refused)
        assert (refused["code"], reason) == (-32029, "SEND_RATE") and 0 < float(delay.removesuffix("s")) <= 5
        older = await plane.error("message/send", {"message": said_0_3("hello")}, x_user_id="ann")
        assert older["data"]["reason"] == "SEND_RATE" and older["data"]["retryable"]
        body = request("message/send", {"message": said_0_3("hello")})
        reply = await plane.http.post("/", json=body, headers={"X-User-Id": "ann"})
        assert reply.status_code == 200 and 1 <= int(reply.headers["retry-after"]) <= 5
        assert "result" in await begin(plane, "bob", "message hello")


async def test_a_long_queue_of_one_user_does_not_delay_others(tmp_path: Path, database_url: str) -> None:
    """L2: users are served alternately, also with new tasks arriving."""
    async with plane_with(tmp_path, database_url, capacity=1) as plane:
        for _ in range(12):
            await begin(plane, "ann", "slow 1")
        for user in ("bob", "carl"):
            await begin(plane, user, "hello")
            await begin(plane, "ann", "slow 1")

        async def served() -> bool:
            return [await states(plane, user) for user in ("bob", "carl")] == [["completed"]] * 2

        await until(served)
        left = [state for state in await states(plane, "ann") if state in RUNNING]
        assert len(left) >= 8


async def test_a_free_slot_goes_to_the_user_with_the_fewest_running_tasks(tmp_path: Path, database_url: str) -> None:
    """L2: one user may hold all slots of a small capacity, but gets no further one while others wait."""
    async with plane_with(tmp_path, database_url, capacity=3) as plane:
        tasks = [(await begin(plane, "ann", "slow 4000"))["result"]["task"]["id"] for _ in range(6)]
        for user in ("bob", "carl"):
            await begin(plane, user, "slow 4000")

        async def working() -> list[int]:
            return [(await states(plane, user)).count("working") for user in ("ann", "bob", "carl")]

        assert await working() == [3, 0, 0]
        for ended, expected in enumerate([[2, 1, 0], [1, 1, 1]]):
            await plane.result("CancelTask", {"id": tasks[ended]}, x_user_id="ann")

            async def as_expected(expected: list[int] = expected) -> bool:
                return await working() == expected

            await until(as_expected)


async def test_endless_tasks_of_one_user_leave_slots_for_others(tmp_path: Path, database_url: str) -> None:
    """L2: other users are answered at once. The next task of the user begins when one of its tasks has ended."""
    async with plane_with(tmp_path, database_url, capacity=8) as plane:
        tasks = [(await begin(plane, "ann", "slow 4000"))["result"]["task"]["id"] for _ in range(10)]
        for user in ("bob", "carl", "bob"):
            answer = await plane.result("SendMessage", {"message": said("hello")}, x_user_id=user)
            assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert (await states(plane, "ann")).count("working") == 6
        await plane.result("CancelTask", {"id": tasks[0]}, x_user_id="ann")

        async def the_next_one() -> bool:
            return (await states(plane, "ann")).count("working") == 6

        await until(the_next_one)
