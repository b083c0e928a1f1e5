"""Every statement finds its rows by an index: what it costs does not depend on what else is stored."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from tests.conformance.session_log import ADA, Sessions, copy, message, opened, outcome, pushed, rewind, user
from tests.conformance.session_log import event as event_entry
from tests.conftest import Migrated
from tests.support.postgres import Cluster

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.sessions import wire
from taskplane.sessions.domain import commands
from taskplane.sessions.domain.repeats import HEAD
from taskplane.sessions.domain.session import MESSAGE
from taskplane.sessions.sql.apply import apply_batch
from taskplane.sessions.store import EntryFilter
from taskplane.storage.committer import LATER
from taskplane.storage.engine import open_engine
from taskplane.storage.migrate import upgrade


@pytest.fixture
async def sessions(migrated: Migrated) -> AsyncGenerator[Sessions, None]:
    """An open session log with some content."""
    url = await migrated("taskplane.sessions")
    async with opened(url) as sessions:
        for n in range(40):
            await sessions.append(f"s{n}", *(user(f"u{n}-{k}") for k in range(20)))
        yield sessions


Statement = tuple[str, Any]
TABLES = r"\b(session|entry|event_delta|user_state|app_state)\b"


@contextmanager
def recorded(found: list[Statement]) -> Generator[None]:
    """Collects what is sent to the database."""

    def note(_conn: object, _cursor: object, statement: str, parameters: Any, _context: object, many: bool) -> None:
        if not statement.startswith("BEGIN"):
            found.append((statement, parameters[0] if many else parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def use_everything(sessions: Sessions) -> None:
    log = sessions.log
    await sessions.append("s1", user("A"), outcome("A", "hi"), copy("A", 2), user("u1-1"))
    await sessions.append("new", user("B"), outcome("B"))
    await sessions.append("new", user("B"), pushed("p"), rewind("B", "r"))
    request = pb.AppendEntriesRequest(context_id="s1", entries=[user("u1-3")], own_message_id="own")
    request.entries[0].id = "again"
    await log.append(wire.append(request, ADA))
    await log.create(commands.Create(scope=ADA, context_id="s2", title="x"))
    await log.update(commands.Update(scope=ADA, context_id="s2", title="y"))
    await log.session(ADA, "s3")
    page = await log.list(ADA, 5, "")
    await log.list(ADA, 5, page.next_page_token)
    page = await log.list(ADA, 5, "", "hello")
    await log.list(ADA, 5, page.next_page_token, "hello")
    for query in (
        EntryFilter(page_size=5),
        EntryFilter(page_size=5, kinds=[MESSAGE]),
        EntryFilter(page_size=5, task_id="task-A"),
        EntryFilter(page_size=5, effective=True),
        EntryFilter(page_size=5, newest_first=True),
        EntryFilter(page_size=1, message_id="u1-3"),
    ):
        first = await log.entries(ADA, "s1", query)
        if first.next_page_token:
            await log.entries(ADA, "s1", replace(query, page_token=first.next_page_token))
    await sessions.append("long", *(user(f"long{n}", "x" * (20_000 if n == 3 else 1)) for n in range(600)))
    await log.conversation(ADA, "long")
    for _ in range(2):
        await log.entries(ADA, "long", EntryFilter(effective=True, distinct=True, newest_first=True, page_size=5))
        await sessions.append("long", user("longer", "again"))
    await log.delete(commands.Delete(scope=ADA, context_id="s4"))
    await sessions.append("new", user("C"), outcome("C", task_id="task-C"))
    unsettled = await log.unsettled(0.0, 100)
    assert [turn.invocation_id for turn in unsettled.turns] == ["C"]
    data = '{"invocation_id": "E", "actions": {"state_delta": {"a": 1, "user:b": 2, "app:c": 3, "app:d": null}}}'
    await sessions.append("s5", event_entry("e5", data))
    await log.state(ADA, "s5")
    await log.rewind(wire.rewind(pb.RewindRequest(context_id="s5", before_invocation_id="u5-3", id="r5"), ADA))
    await log.undo(wire.undo(pb.UndoRequest(context_id="s5"), ADA, entry_id="u5"))
    await log.cut(ADA, "s5")
    assert len(await log.unapplied(100)) == 2
    await log.fork(commands.Fork(scope=ADA, context_id="s5", new_context_id="fork"))
    assert len(await log.heads([(ADA.tenant, ADA.owner, f"s{n}") for n in range(3)])) == 3
    assert len((await log.after(ADA, "s5", 20, 100)).entries) == 3
    await sessions.append("long", pushed("longest", message("again", "longer")))
    expired = await log.expired(0.0, None, 10)
    assert await log.expired(0.0, expired[-1], 100)
    assert await log.delete_user_state(ADA) == 1
    await log.mark_applied(commands.MarkApplied(scope=ADA, context_id="s5", seq=23))


async def test_every_statement_uses_an_index(sessions: Sessions, engine_name: str) -> None:
    found: list[Statement] = []
    with recorded(found):
        await use_everything(sessions)
    plain = {
        statement: parameters
        for statement, parameters in found
        if re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)", statement) and re.search(TABLES, statement)
    }
    assert len(plain) >= 16
    plans = await sessions.engine.write(explain if engine_name == "sqlite" else explain_postgres, plain)
    for statement, plan in plans.items():
        if "applied_seq < steered_seq" in statement:
            # All of an index that holds nothing else is what is asked for.
            assert any("session_unapplied" in line for line in plan), f"{statement}\n{plan}"
            continue
        # Rows of the list of keys itself are scanned, and nothing else.
        scans = [line for line in plan if re.search(rf"\bSCAN {TABLES}|Seq Scan on {TABLES}", line)]
        assert scans == [], f"{statement}\n{plan}"
        used = any("entry_opens" in line for line in plan)
        assert re.search(r"\bentry\.created_at >=", statement) is None or used, f"{statement}\n{plan}"
        # It has few of the entries, and is for nothing else.
        said = any("entry_message" in line for line in plan)
        assert said == ("message_id" in statement.partition("WHERE")[2]), f"{statement}\n{plan}"
        assert any(re.search(r"USING (COVERING INDEX|INDEX|PRIMARY KEY)|Index|Bitmap", line) for line in plan), (
            f"{statement}\n{plan}"
        )


def bytes_read(conn: Connection, statements: list[Statement]) -> int:
    """Bytes of what the same queries give once more."""
    rows = [row for statement, parameters in statements for row in conn.exec_driver_sql(statement, parameters)]
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes))


@pytest.mark.parametrize("size", [1_000, 20_000])
async def test_a_page_of_a_long_conversation_reads_no_payloads_but_its_own(sessions: Sessions, size: int) -> None:
    """The history in effect is decided without them, and the log read once."""
    for first in range(0, 600, 100):
        await sessions.append("long", *(user(f"long{n}", "x" * size) for n in range(first, first + 100)))
    token = ""
    for heads in (600 * HEAD, 0, 0):
        found: list[Statement] = []
        with recorded(found):
            page = await sessions.log.entries(ADA, "long", EntryFilter(effective=True, page_size=10, page_token=token))
        token = page.next_page_token
        assert len(page.entries) == 10
        queries = [each for each in found if each[0].startswith("SELECT")]
        payloads = await sessions.engine.read(bytes_read, queries)
        assert 10 * size < payloads < 10 * (size + 300) + heads


def explain(conn: Connection, statements: dict[str, Any]) -> dict[str, list[str]]:
    return {
        statement: [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        for statement, parameters in statements.items()
    }


def explain_postgres(conn: Connection, statements: dict[str, Any]) -> dict[str, list[str]]:
    # A small table is read whole whatever there is; what is asked here is whether an index could serve.
    conn.execute(text("SET LOCAL enable_seqscan = off"))
    return {
        statement: [row[0] for row in conn.exec_driver_sql(f"EXPLAIN {statement}", parameters)]
        for statement, parameters in statements.items()
    }


def appends(count: int) -> list[commands.Append]:
    """As many operations, each for a session of its own."""
    return [
        wire.append(
            pb.AppendEntriesRequest(
                context_id=f"c{count}-{n}",
                entries=[user(f"i{count}-{n}"), outcome(f"i{count}-{n}")],
                create=pb.NewSession(),
            ),
            ADA,
        )
        for n in range(count)
    ]


async def test_a_batch_has_a_constant_number_of_statements(migrated: Migrated) -> None:
    """One lookup of sessions and one of ids, and one statement per table written, however many callers there are.

    On PostgreSQL another transaction may hold a session that was not found: that is looked up, too.
    """
    url = await migrated("taskplane.sessions")

    async with open_engine(url) as engine:
        lookups = ["session"] if engine.dialect.alone else ["session", "session"]
        for count in (1, 2, 16, 64):
            found: list[Statement] = []
            with recorded(found):
                await engine.write(apply_batch, appends(count), engine.dialect)
            tables = [re.findall(r"(?:INTO|JOIN|FROM) (session|entry)", statement)[0] for statement, _ in found]
            assert tables == [*lookups, "entry", "session", "entry"], count


async def test_a_rewind_reads_its_log_once_and_without_payloads(sessions: Sessions) -> None:
    """However long it is; what an append does for its entry comes with it."""
    for first in range(0, 600, 100):
        await sessions.append("long", *(user(f"long{n}", "x" * 3_000) for n in range(first, first + 100)))
    found: list[Statement] = []
    request = pb.RewindRequest(context_id="long", before_invocation_id="long300", id="r")
    with recorded(found):
        await sessions.log.rewind(wire.rewind(request, ADA))
    tables = [re.findall(r"(?:INTO|JOIN|FROM|UPDATE) (session|entry)", statement)[0] for statement, _ in found]
    assert tables == ["session", "entry", "entry", "session", "entry"]
    assert await sessions.engine.write(bytes_read, [each for each in found if each[0].startswith("SELECT")]) < 100_000


async def test_of_two_operations_for_one_id_the_second_waits_for_the_next_batch(migrated: Migrated) -> None:
    """So that the batch need not fail and be split."""
    (first,) = appends(1)
    second = replace(first, context_id="other", entries=[each._replace(context_id="other") for each in first.entries])
    async with open_engine(await migrated("taskplane.sessions")) as engine:
        batch = await engine.write(apply_batch, [first, second], engine.dialect)
    assert isinstance(batch.outcomes[0], commands.Appended)
    assert batch.outcomes[1] is LATER


async def test_an_append_costs_the_same_however_much_its_owner_has(cluster: Cluster) -> None:
    """PostgreSQL plans the guards and keys of a new table before it knows its size, and keeps to these plans."""
    database = cluster.create()
    url = cluster.url(database)
    await upgrade(url, "taskplane.sessions")
    count = 400
    async with opened(url) as sessions:
        for n in range(count):
            await sessions.append(f"s{n}", user(f"A{n}"), outcome(f"A{n}"))
    counters = "sum(n_tup_ins), sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_user_tables"
    query = f"SELECT {counters} WHERE relname IN ('session', 'entry')"
    async with asyncio.timeout(20):
        # A server process publishes its counters when it ends, some time after its client left.
        while (inserted := cluster.sql(query, database).split("|"))[0] != str(3 * count):
            await asyncio.sleep(0.05)
    cluster.drop(database)
    assert int(inserted[1]) / count < 40
