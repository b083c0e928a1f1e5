"""The sizes of pages and the filters of a list of tasks, over each binding that has one."""

from typing import Any

import pytest
from tests.gateway.bindings import Client
from tests.gateway.plane import fresh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"status": 99}, "status"),
        ({"historyLength": -1}, "historyLength"),
        ({"contextId": "c" * 256}, "contextId"),
    ],
)
async def test_a_list_beyond_its_limits_is_refused_by_the_field(lister: Client, params: Any, path: str) -> None:
    """a2a E3, E4, I10."""
    refused = await lister.error("ListTasks", params)
    assert (refused.code, list(refused.fields)) == (-32602, [path])


@pytest.mark.parametrize("token", ["bad", "AAAA", "x" * 5_000])
async def test_a_page_token_that_was_never_given_is_refused(lister: Client, token: str) -> None:
    """a2a E3."""
    assert (await lister.error("ListTasks", {"pageToken": token})).code == -32602


async def test_filters_add_up_and_the_total_counts_before_paging(lister: Client) -> None:
    """a2a E3, E4, E5: by context, state and time, the time included; pages of 1 and of 100."""
    context = fresh()
    done = [await lister.send("hello", message={"contextId": context}) for _ in range(2)]
    asked = await lister.send("ask", message={"contextId": context})

    async def found(**params: Any) -> tuple[list[str], int]:
        page = await lister.result("ListTasks", {"contextId": context, **params})
        return [task["id"] for task in page["tasks"]], page["totalSize"]

    one, two, three = (task["id"] for task in (*done, asked))
    since = done[1]["status"]["timestamp"]
    assert await found(pageSize=100) == ([three, two, one], 3)
    assert await found(pageSize=1) == ([three], 3)
    assert await found(status="TASK_STATE_COMPLETED") == ([two, one], 2)
    assert await found(status="TASK_STATE_COMPLETED", statusTimestampAfter=since) == ([two], 1)
    assert await found(status="TASK_STATE_INPUT_REQUIRED", statusTimestampAfter=since) == ([three], 1)
    assert await found(status="TASK_STATE_FAILED") == ([], 0)
