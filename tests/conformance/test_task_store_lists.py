"""Listing: what is the caller's, filtered, a page at a time, with a token that is good for nothing else. C1."""

import asyncio
import base64
from dataclasses import replace

import pytest
from tests.conformance.task_log import ADA, BOB, Plane, chunk, opened
from tests.conftest import Migrated

from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain.task import COMPLETED, WORKING, Scope
from taskplane.tasks.pages import TaskFilter, TaskPage


async def walk(plane: Plane, query: TaskFilter, scope: Scope = ADA) -> list[TaskPage]:
    pages = [await plane.log.list(scope, query)]
    while pages[-1].next_page_token:
        pages.append(await plane.log.list(scope, replace(query, page_token=pages[-1].next_page_token)))
    return pages


def ids(pages: list[TaskPage]) -> list[str]:
    return [row.id for page in pages for row in page.rows]


async def test_pages_hold_every_task_once_the_newest_state_change_first(plane: Plane) -> None:
    """a2a E5: A2A 1.0 orders tasks by the time of their status, newest first; the total is counted once."""
    rows = [await plane.create() for _ in range(5)]
    await asyncio.gather(*(plane.put(f"d{number}", "x") for number in range(6)))
    await plane.complete(rows[0])
    pages = await walk(plane, TaskFilter(page_size=3))
    assert [len(page.rows) for page in pages] == [3, 3, 3, 2]
    assert {page.total for page in pages} == {11}
    assert len(set(ids(pages))) == 11 and ids(pages)[0] == rows[0].id
    keys = [(row.status_at, row.id) for page in pages for row in page.rows]
    assert keys == sorted(keys, reverse=True)
    for page in pages:
        assert [task.id for task in page.tasks] == [row.id for row in page.rows]


async def test_a_conversation_is_listed_in_the_order_in_which_it_was_made(plane: Plane) -> None:
    """Oldest creation first, whatever happened since."""
    rows = [await plane.create() for _ in range(5)]
    await plane.create(context_id="c2")
    await plane.complete(rows[3])
    pages = await walk(plane, TaskFilter(context_id="c1", by_creation=True, page_size=2, content=False))
    assert ids(pages) == [row.id for row in rows]
    assert all(not page.tasks and page.total == 5 for page in pages)


async def test_a_total_is_counted_up_to_a_bound(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13, W17: the first page of a million tasks does not wait until all are counted."""
    monkeypatch.setattr("taskplane.tasks.sql.reads.MOST_COUNTED", 3)
    for _ in range(5):
        await plane.create()
    pages = await walk(plane, TaskFilter(page_size=2))
    assert len(ids(pages)) == 5 and {page.total for page in pages} == {3}


async def test_a_listing_goes_on_where_it_was_although_tasks_change(plane: Plane) -> None:
    """C1, a2a E5: a page token is a place, not a count."""
    rows = [await plane.create() for _ in range(4)]
    first = await plane.log.list(ADA, TaskFilter(page_size=2))
    await plane.complete(rows[0])
    await plane.create()
    second = await plane.log.list(ADA, TaskFilter(page_size=2, page_token=first.next_page_token))
    assert [row.id for row in (*first.rows, *second.rows)] == ["t4", "t3", "t2"]
    assert second.total == 4


async def test_filters_hold_together(plane: Plane) -> None:
    """a2a E4: state, context, agent and time; a filter that matches nothing is an empty page."""
    done, running = await plane.create(), await plane.create(agent="other")
    await plane.complete(done)
    since = (await plane.log.row_by_uid(done.uid)).status_at
    for query, expected in (
        (TaskFilter(state=COMPLETED), [done.id]),
        (TaskFilter(state=WORKING), [running.id]),
        (TaskFilter(agent="other"), [running.id]),
        (TaskFilter(agent="demo", state=WORKING), []),
        (TaskFilter(context_id="c2"), []),
        (TaskFilter(context_id="c\0"), []),
        (TaskFilter(status_after=since), [done.id]),
        (TaskFilter(status_after=since + 1), []),
        (TaskFilter(by_creation=True), [done.id, running.id]),
    ):
        page = await plane.log.list(ADA, query)
        assert ([row.id for row in page.rows], page.total, page.next_page_token) == (expected, len(expected), "")


async def test_nobody_lists_the_tasks_of_another(plane: Plane) -> None:
    """a2a E5: tenant and owner stand in every statement."""
    await plane.create(name="mine")
    await plane.create(name="theirs", scope=BOB)
    await plane.create(name="elsewhere", scope=Scope("other", "ada", "ada"))
    assert ids(await walk(plane, TaskFilter())) == ["mine"]
    assert ids(await walk(plane, TaskFilter(), BOB)) == ["theirs"]
    assert ids(await walk(plane, TaskFilter(), Scope("other", "ada", "ada"))) == ["elsewhere"]


async def test_a_page_token_is_good_for_its_caller_and_its_filters_only(plane: Plane) -> None:
    """a2a E3: signed, so that it can be neither made nor changed; the page size may differ."""
    for _ in range(3):
        await plane.create()
    query = TaskFilter(page_size=1)
    token = (await plane.log.list(ADA, query)).next_page_token
    assert len((await plane.log.list(ADA, replace(query, page_token=token, page_size=5))).rows) == 2
    data = bytearray(base64.urlsafe_b64decode(token + "=="))
    data[20] ^= 1
    forged = base64.urlsafe_b64encode(bytes(data)).decode().rstrip("=")
    for scope, wrong in (
        (BOB, replace(query, page_token=token)),
        (Scope("other", "ada", "ada"), replace(query, page_token=token)),
        (ADA, replace(query, page_token=token, state=WORKING)),
        (ADA, replace(query, page_token=token, by_creation=True)),
        (ADA, replace(query, page_token=forged)),
        (ADA, replace(query, page_token="x")),
        (ADA, replace(query, page_token="ünter")),
        (ADA, replace(query, page_token=token + token)),
    ):
        with pytest.raises(Invalid) as refused:
            await plane.log.list(scope, wrong)
        assert refused.value.reason == "BAD_PAGE_TOKEN"


async def test_a_page_token_outlives_the_process_that_made_it(migrated: Migrated) -> None:
    """Any replica, and any later process, goes on with it."""
    url = await migrated("taskplane.tasks")
    async with opened(url) as plane:
        for _ in range(2):
            await plane.create()
        token = (await plane.log.list(ADA, TaskFilter(page_size=1))).next_page_token
    async with opened(url) as plane:
        assert len((await plane.log.list(ADA, TaskFilter(page_size=1, page_token=token))).rows) == 1


@pytest.mark.parametrize("size", [0, -1, 101])
async def test_a_page_size_out_of_bounds_is_refused(plane: Plane, size: int) -> None:
    """a2a E3: 1 to 100."""
    with pytest.raises(Invalid) as refused:
        await plane.log.list(ADA, TaskFilter(page_size=size))
    assert list(refused.value.fields) == ["page_size"]


async def test_a_page_of_large_tasks_ends_early_and_no_task_is_missing(plane: Plane) -> None:
    """C13: a reply has at most some megabytes, but at least one task."""
    rows = [await plane.create() for _ in range(4)]
    for row in rows:
        for number in range(3):
            await plane.append(row, chunk("x" * 3_000_000, append=number > 0))
    pages = await walk(plane, TaskFilter(page_size=10))
    assert len(pages) > 1 and all(page.rows for page in pages)
    assert sorted(ids(pages)) == sorted(row.id for row in rows)
    bare = await plane.log.list(ADA, TaskFilter(page_size=10, content=False))
    assert len(bare.rows) == 4
