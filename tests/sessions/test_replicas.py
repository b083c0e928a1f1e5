"""Several processes of the service over one PostgreSQL database: rows and unique ids order them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace

import asyncpg
import pytest
from tests.conformance.session_log import ADA, Sessions, copy, ids, opened, outcome, rewind, user
from tests.support.databases import SESSIONS, copied
from tests.support.postgres import Cluster

from taskplane.runtime.errors import Conflict, Refused
from taskplane.sessions.domain import commands
from taskplane.sessions.store import EntryFilter

REPLICAS = 3


@pytest.fixture
async def replicas(cluster: Cluster) -> AsyncGenerator[list[Sessions], None]:
    """Three open session logs over one database."""
    async with copied(cluster, SESSIONS) as url, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(url)) for _ in range(REPLICAS)]


async def test_racing_replicas_make_one_session_and_leave_no_gap(replicas: list[Sessions]) -> None:
    """C1 for sessions."""
    answers = await asyncio.gather(
        *(replicas[n % REPLICAS].append("s", copy(f"i{n}", 1), copy(f"i{n}", 2)) for n in range(30))
    )
    assert sorted(answer.session.seq for answer in answers) == list(range(2, 61, 2))
    stored = await replicas[0].entries("s")
    assert [entry.seq for entry in stored] == list(range(1, 61))
    assert {(one.generation, two.generation) for one, two in zip(stored[::2], stored[1::2], strict=True)} == {(1, 2)}


async def test_racing_replicas_store_an_id_once_and_all_answer_with_it(replicas: list[Sessions]) -> None:
    """C10: one turn sent to every replica at once."""
    for n in range(10):
        answers = await asyncio.gather(
            *(each.append(f"s{n}", user(f"A{n}"), outcome(f"A{n}", f"by {k}")) for k, each in enumerate(replicas))
        )
        assert sorted(len(answer.known) for answer in answers) == [0, 2, 2]
        _, decided = await replicas[0].entries(f"s{n}")
        assert {answer.known[1].payload for answer in answers if answer.known} == {decided.payload}


async def test_of_replicas_that_store_one_id_in_different_sessions_one_succeeds(replicas: list[Sessions]) -> None:
    """C10: the others are refused."""
    for n in range(10):
        answers = await asyncio.gather(
            *(each.append(f"s{n}-{k}", user(f"A{n}")) for k, each in enumerate(replicas)), return_exceptions=True
        )
        assert sum(isinstance(answer, commands.Appended) for answer in answers) == 1
        assert [answer.reason for answer in answers if isinstance(answer, Refused)] == ["KEY_REUSED"] * 2


async def test_of_replicas_that_append_at_one_version_one_succeeds(replicas: list[Sessions]) -> None:
    """R9: the others are refused with the present version."""
    for n in range(10):
        await replicas[0].append(f"s{n}", user(f"A{n}"))
        answers = await asyncio.gather(
            *(each.append(f"s{n}", rewind("A", f"r{n}-{k}"), expected_version=2) for k, each in enumerate(replicas)),
            return_exceptions=True,
        )
        lost = [answer for answer in answers if isinstance(answer, Conflict)]
        assert [(error.reason, error.metadata) for error in lost] == [("VERSION_MISMATCH", {"version": "3"})] * 2


async def test_a_session_that_another_process_holds_delays_nobody_else(replicas: list[Sessions]) -> None:
    """However long: what is written to it waits, whatever it is, and other sessions are written meanwhile."""
    await replicas[0].append("held", user("A"))
    holder = await asyncpg.connect(replicas[1].engine.url)
    async with holder.transaction():
        await holder.execute("SELECT 1 FROM session WHERE context_id = 'held' FOR UPDATE")
        waiting = [
            asyncio.create_task(each)
            for each in (
                replicas[0].append("held", user("B")),
                replicas[0].log.update(commands.Update(scope=ADA, context_id="held", title="x")),
                replicas[2].append("held", user("C"), create=None),
                replicas[2].append("held", user("A")),
            )
        ]
        for n in range(40):
            await replicas[0].append(f"s{n}", user(f"s{n}"))
        assert not any(each.done() for each in waiting)
    await holder.close()
    await asyncio.gather(*waiting)
    assert sorted(entry.id for entry in await replicas[1].entries("held")) == ["A", "B", "C"]


async def test_replicas_that_write_the_same_sessions_in_other_orders_do_not_block_each_other(
    replicas: list[Sessions],
) -> None:
    names = [f"s{n}" for n in range(12)]
    for _ in range(3):
        await asyncio.gather(
            *(
                each.append(name, user(f"{name}-{k}-{turn}"))
                for k, each in enumerate(replicas)
                for turn, name in enumerate(names if k % 2 else reversed(names))
            )
        )
    assert len(ids(await replicas[1].entries("s0"))) == REPLICAS


async def test_page_tokens_of_one_replica_are_good_at_another(replicas: list[Sessions]) -> None:
    await replicas[0].append("s", *(user(f"i{n}") for n in range(4)))
    query = EntryFilter(page_size=1)
    found: list[str] = []
    for turn in range(4):
        page = await replicas[turn % REPLICAS].log.entries(ADA, "s", query)
        found.extend(ids(page.entries))
        query = replace(query, page_token=page.next_page_token)
    assert found == [f"i{n}" for n in range(4)]
