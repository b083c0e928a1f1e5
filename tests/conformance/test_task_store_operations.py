"""What operators read costs what it shows, however many tasks there are, and goes by an index on every engine."""

import re

import pytest
from tests.conformance.task_log import ADA, BOB, HOUR, Plane, status
from tests.conformance.test_task_store_cost import plan, statements

from taskplane.runtime.errors import Invalid
from taskplane.tasks.domain.task import COMPLETED, FAILED, STATES, WORKING
from taskplane.tasks.pages import TenantFilter
from taskplane.tasks.sql import overview, tenants

ALL = sorted(STATES)


async def some(plane: Plane, count: int) -> None:
    """Tasks of two owners in every state that a task may have, `count` of each."""
    for _ in range(count):
        await plane.queued()
        await plane.create(scope=BOB)
        await plane.pause(await plane.create())
        await plane.complete(await plane.create())
        await plane.append(await plane.create(scope=BOB), status(FAILED))


async def test_the_statements_do_not_depend_on_the_number_of_tasks(plane: Plane) -> None:
    """V1: neither those of an overview nor those of a page."""
    counts: list[tuple[int, int]] = []
    for count in (1, 6):
        await some(plane, count)
        with statements() as first:
            await plane.log.overview("", 15.0)
        with statements() as second:
            await plane.log.tenant_tasks(ADA, TenantFilter(states=ALL, page_size=5))
        counts.append((len(first), len(second)))
    assert counts[0] == counts[1] == (8, 3)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (TenantFilter(states=ALL), "task_of_tenant"),
        (TenantFilter(states=[FAILED]), "task_of_tenant"),
        (TenantFilter(states=[COMPLETED], agent="demo"), "task_of_tenant"),
        (TenantFilter(states=ALL, owner="ada"), "task_by_state"),
        (TenantFilter(states=ALL, executor="p1"), "lease_by_owner"),
    ],
)
async def test_a_list_for_operators_reads_along_an_index(plane: Plane, query: TenantFilter, index: str) -> None:
    """V1: the newest tasks of each state only, a page of each, which are then sorted."""
    await some(plane, 1)
    with statements() as seen:
        await plane.log.tenant_tasks(ADA, query)
    shown = await plane.engine.write(plan, *seen[0])
    assert index in shown, shown
    scanned = re.findall(r"SCAN (?:task|lease)\b.*|Seq Scan on \w+", shown)
    assert not scanned, shown


async def test_an_overview_reads_along_indexes_only(plane: Plane) -> None:
    """V1: open tasks by an index of open tasks, ended tasks from the newest one on."""
    await some(plane, 1)
    with statements() as seen:
        await plane.log.overview("", 15.0)
    partial = "task_queued|task_uncopied"
    for executed in seen:
        shown = await plane.engine.write(plan, *executed)
        found = re.findall(rf"SCAN (?:task|event)\b(?! USING (?:COVERING )?INDEX (?:{partial})).*", shown)
        found += re.findall(r"Seq Scan on (?:task|event|lease)\b.*|USING INDEX task_by_\w+ \(tenant=\?\)", shown)
        assert not found, f"{executed[0]}\n{shown}"


async def test_an_overview_and_a_list_report_that_a_limit_was_reached(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V1: counts stop, and the overview is `bounded`. With an agent a page is shorter, and the list continues after
    it."""
    for _ in range(3):
        await plane.complete(await plane.create(agent="other"))
    last = await plane.complete(await plane.create())
    assert last.last_generation
    whole = await plane.log.overview("", 15.0)
    assert (sum(each.ended for each in whole.minutes), whole.bounded) == (4, False)
    assert whole.since == whole.minutes[0].at
    monkeypatch.setattr(overview, "MOST_OPEN", 4)
    assert (await plane.log.overview("", 15.0)).bounded
    monkeypatch.setattr(tenants, "MOST_LOOKED_AT", 2)
    found: list[str] = []
    token, pages = "", 0
    while token or not pages:
        page = await plane.log.tenant_tasks(ADA, TenantFilter(states=ALL, agent="other", page_token=token))
        found += [each.row.agent for each in page.tasks]
        token, pages = page.next_page_token, pages + 1
    assert found == ["other"] * 3
    assert pages == 3


async def test_time_in_the_queue_is_that_before_the_first_run(plane: Plane) -> None:
    """V1: from the creation of a task to the beginning of its first run; its end says how long it took."""
    queued = await plane.queued()
    assert await plane.claim(queued, "p1") is not None
    await plane.append(queued, status(WORKING))
    await plane.complete(queued)
    found = await plane.log.overview("", 15.0)
    assert found.queued is not None and found.durations is not None
    assert 0 < found.queued.p50 <= found.durations.p50 < HOUR


async def test_a_page_of_no_size_is_refused(plane: Plane) -> None:
    """V1: like that of any list."""
    with pytest.raises(Invalid) as refused:
        await plane.log.tenant_tasks(ADA, TenantFilter(states=ALL, page_size=1001))
    assert list(refused.value.fields) == ["page_size"]
