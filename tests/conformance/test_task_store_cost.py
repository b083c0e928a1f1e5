"""The costs of operations: statements per batch, bytes per event, and which index serves a query. C2, C13."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import Engine as SqlEngine
from tests.conformance.task_log import ADA, BOB, HOUR, Plane, chunk, message, only, status

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.sharing import Slots
from taskplane.tasks.domain import commands
from taskplane.tasks.domain.kinds import STATUS_TEXT
from taskplane.tasks.domain.task import COMPLETED, WORKING
from taskplane.tasks.pages import EventFilter, InfoFilter, MessageFilter, TaskFilter

PARTIAL = "task_queued|lease_by_owner|task_uncopied|task_uncopied_in_context|task_trimmable"
Executed = list[tuple[str, Any]]


@contextmanager
def statements() -> Generator[Executed, None, None]:
    """Every statement that reaches a driver meanwhile, whatever connection it takes."""
    seen: Executed = []

    def record(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if not statement.startswith(("BEGIN", "SELECT (extract")):
            seen.append((statement, parameters[0] if many else parameters))

    event.listen(SqlEngine, "before_cursor_execute", record)
    try:
        yield seen
    finally:
        event.remove(SqlEngine, "before_cursor_execute", record)


async def mixed(plane: Plane, size: int) -> tuple[list[commands.Operation], int]:
    """Operations of every kind, `size` of each, and how many that is."""
    batch: list[commands.Operation] = []
    for number in range(size):
        rows = [await plane.create(on_orphan=int(pb.ON_ORPHAN_RERUN)) for _ in range(7)]
        queued = await plane.queued()
        document = (await plane.put(f"old{size}-{number}", "x")).row
        for row in rows[:3]:
            await plane.append(row, status(WORKING, message("so f", "m2", partial=True)))
        batch += [
            plane.creation(),
            plane.document(f"new{size}-{number}", "x"),
            await plane.item(rows[0], chunk("x"), chunk("y")),
            await plane.item(rows[1], status(COMPLETED), consumed_generation=1),
            commands.Orphan(task_uid=rows[2].uid, process_id="p1", fence=1),
            commands.Cancel(scope=ADA, task_id=rows[3].id),
            plane.saying(rows[4], f"i-{size}-{number}"),
            commands.Delete(scope=ADA, task_id=rows[5].id),
            commands.MarkCopied(task_uid=rows[6].uid, generation=1),
            commands.Claim(task_uid=queued.uid, process_id="p1", lease_until=await plane.log.now() + HOUR),
            plane.document(document.id, "y"),
        ]
    return batch, len(batch)


async def test_the_statements_of_a_batch_do_not_depend_on_its_size(plane: Plane) -> None:
    """Whatever is in it, each statement is executed once."""
    counts: list[int] = []
    for size in (1, 2, 12):
        batch, number = await mixed(plane, size)
        plane.commits.clear()
        with statements() as seen:
            answers = await plane.log.submit_all(batch)
        assert len(answers) == number and len(plane.commits) == 1
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        counts.append(len(seen))
    # One creation alone is told by its row count; several are read back.
    assert counts[1] == counts[2] <= 19


async def test_an_append_reads_no_event_and_is_three_statements(plane: Plane) -> None:
    """W2: one SELECT, one UPDATE, one INSERT, of however many items; the cost of an event is not that of its log."""
    rows = [await plane.create() for _ in range(8)]
    for row in rows:
        await plane.append(row, chunk("x"))
    items = [await plane.item(row, chunk("x", append=True), chunk("y", append=True)) for row in rows]
    assert await kinds_of(plane, items) == APPEND


APPEND = ["SELECT task.uid, t", "UPDATE task SET ge", "INSERT INTO event"]


async def kinds_of(plane: Plane, items: list[commands.Append]) -> list[str]:
    """How the statements begin that these items are appended by; all of them are taken."""
    with statements() as seen:
        answers = await plane.log.submit_all(items)
    assert not [answer for answer in answers if getattr(answer, "refusal", answer) is not None]
    return [" ".join(statement.replace("OR FAIL ", "").split())[:18].strip() for statement, _ in seen]


async def test_whether_a_task_has_an_artifact_is_asked_only_for_another_one_than_the_last(plane: Plane) -> None:
    """W1, P5: one statement more for any number of them, whatever the tasks have; it reads one entry of an index."""
    rows = [await plane.create() for _ in range(8)]
    for row in rows:
        await plane.append(row, *(chunk("x", f"a{number}") for number in range(40)))
    again = [await plane.item(row, chunk("x", "a39", append=True), chunk("y", "b"), chunk("z", "a39")) for row in rows]
    assert await kinds_of(plane, again) == APPEND
    others = [await plane.item(row, *(chunk("x", f"a{n}", append=True) for n in (3, 7, 3))) for row in rows]
    with statements() as seen:
        assert await kinds_of(plane, others) == [*APPEND[:-2], "SELECT wanted.uid,", *APPEND[-2:]]
    (lookup,) = [each for each in seen if each[0].startswith("SELECT wanted")]
    shown = await plane.engine.write(plan, *lookup)
    if plane.engine.dialect.name == "sqlite":
        assert "event_artifact (task_uid=? AND artifact_id=?)" in shown and "SCAN event" not in shown, shown
    else:
        assert "event_artifact" in shown and "Seq Scan" not in shown and "Limit" in shown, shown


async def test_any_number_of_artifacts_is_asked_for(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: an engine takes some ten thousand parameters in one statement; a batch may ask for more."""
    monkeypatch.setattr("taskplane.tasks.sql.contents._AT_ONCE", 8)
    rows = [await plane.create() for _ in range(3)]
    for row in rows:
        await plane.append(row, *(chunk("x", f"a{number}") for number in range(21)))
    items = [await plane.item(row, *(chunk("y", f"a{n}", append=True) for n in range(20))) for row in rows]
    assert (await kinds_of(plane, items)).count("SELECT wanted.uid,") == 8
    unknown = await plane.append(rows[0], *(chunk("y", f"a{n}", append=True) for n in range(22)))
    assert unknown.refusal is not None and "a21" in unknown.refusal.message


async def test_a_creation_alone_is_four_statements(plane: Plane) -> None:
    """The first message of a conversation waits for these."""
    with statements() as seen:
        await plane.create()
    assert len(seen) == 4, [statement for statement, _ in seen]


async def test_a_thousand_leases_are_renewed_by_one_statement(plane: Plane) -> None:
    """C8: the process and all its runs (on SQLite its own row takes a second one). No row of a task is written."""
    made = await plane.log.submit_all([plane.creation(lease_until=1) for _ in range(1000)])
    rows = [only(commands.Created, answer).row for answer in made]
    await plane.log.announce("p1", 1, 100)
    plane.commits.clear()
    until = await plane.log.now() + HOUR
    with statements() as seen:
        renewed = await plane.log.renew("p1", [(row.uid, 1) for row in rows], until)
    assert all(each.still_yours for each in renewed)
    assert len(seen) == (2 if plane.engine.dialect.alone else 1)
    assert {each.lease_until for each in await plane.log.held()} == {until}
    assert (await plane.log.loads(["p1"])) == {"p1": {("", "ada"): 1000}}
    assert not plane.commits and not [each for each, _ in seen if "UPDATE task" in each]


async def test_no_index_is_written_for_an_append(plane: Plane) -> None:
    """SQLite writes each index anew that SET names a column of; PostgreSQL keeps the row on its page."""
    row = await plane.create()
    with statements() as seen:
        await plane.append(row, chunk("x"))
    (update,) = [statement for statement, _ in seen if statement.startswith("UPDATE")]
    for name in ("status_at", "context_id", "lease_until", "ready_at", "copied_generation", "state"):
        assert f"{name}=" not in update.replace(" ", "")


async def stored_bytes(plane: Plane) -> int:
    if plane.engine.dialect.name == "sqlite":
        await plane.engine.write(lambda conn: conn.exec_driver_sql("SELECT 1"))
        pages: int = await plane.engine.read(
            lambda conn: conn.execute(
                text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            ).scalar_one()
        )
        return pages
    size: int = await plane.engine.read(
        lambda conn: conn.execute(
            text("SELECT pg_total_relation_size('event') + pg_relation_size('task', 'main')")
        ).scalar_one()
    )
    return size


async def test_bytes_per_event_do_not_grow_with_the_log(plane: Plane) -> None:
    """W1: the stored size of an event is the same for the 250th and for the 2,000th, snapshots included."""
    row = await plane.create()
    start, per_event = await stored_bytes(plane), dict[int, float]()
    for number in range(25, 2001, 25):
        await plane.grow(row, 25, 200)
        if number in (250, 1000, 2000):
            per_event[number] = (await stored_bytes(plane) - start) / number
    # At most once more, in the snapshot.
    assert per_event[2000] < per_event[250] * 1.4, per_event
    now = await plane.log.row_by_uid(row.uid)
    assert now.event_bytes / 2000 < 320 and per_event[2000] < 700, per_event


def replayed(conn: Connection, executed: Executed) -> tuple[int, int]:
    """Rows and bytes that the same queries give once more."""
    rows = [row for statement, parameters in executed for row in conn.exec_driver_sql(statement, parameters)]
    return len(rows), sum(len(value) for row in rows for value in row if isinstance(value, (str, bytes)))


async def test_a_task_of_4000_events_is_read_in_bounded_rows_and_bytes(plane: Plane) -> None:
    """C13: GetTask reads the snapshot and a tail it nearly outweighs; a watcher at the head reads what is new."""
    row = await plane.create()
    for _ in range(16):
        await plane.grow(row, 250, 64)
    now = await plane.log.row_by_uid(row.uid)
    with statements() as reading:
        _, task = await plane.log.get(ADA, row.id)
    rows, size = await plane.engine.read(replayed, reading)
    assert len(task.artifacts[0].parts[0].text) == 4000 * 64
    assert rows < 2700, rows
    assert size < 2.5 * (128 * 1024 + 4 * now.snapshot_bytes), size
    await plane.append(row, chunk("new", append=True))
    with statements() as watching:
        page = await plane.log.read_after(row.uid, now.generation, 64, 256 * 1024)
    assert len(page.events) == 1
    rows, size = await plane.engine.read(replayed, watching)
    assert rows <= 3 and size < 4096, (rows, size)
    await plane.append(row, status(COMPLETED), consumed_generation=1)
    with statements() as reading:
        await plane.log.get(ADA, row.id)
    rows, _ = await plane.engine.read(replayed, reading)
    assert rows <= 3, rows


async def test_all_rewrites_of_a_snapshot_write_at_most_the_size_of_the_log(plane: Plane) -> None:
    """A tail must be larger than the snapshot before the snapshot is rewritten."""
    row = await plane.create()
    now, rewritten, last = row, 0, row.snapshot_generation
    for _ in range(40):
        await plane.grow(row, 60, 1000)
        now = await plane.log.row_by_uid(row.uid)
        if now.snapshot_generation != last:
            last = now.snapshot_generation
            rewritten += now.snapshot_bytes
    assert 0 < rewritten < now.event_bytes * 1.2
    assert now.event_bytes - now.folded_bytes <= max(8 * now.snapshot_bytes, 256 * 1024) + 90_000


def plan(conn: Connection, statement: str, parameters: Any) -> str:
    if conn.dialect.name == "sqlite":
        return "\n".join(row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters))
    # The tables of a test are small; what is asked is whether an index can serve the query at all.
    conn.execute(text("SET LOCAL enable_seqscan = off"))
    conn.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
    return "\n".join(row[0] for row in conn.exec_driver_sql(f"EXPLAIN {statement}", parameters))


async def test_an_index_serves_every_query(plane: Plane) -> None:
    """W12, W17: no operation and no read goes through a whole table."""
    row = await plane.create()
    await plane.grow(row, 60, 9000)
    token = (await plane.log.list(ADA, TaskFilter(page_size=1))).next_page_token
    assert not token
    await plane.create()
    with statements() as seen:
        batch, _ = await mixed(plane, 2)
        await plane.log.submit_all(batch)
        await plane.mark(1, f"{row.id}-i1")
        await plane.log.get(ADA, row.id)
        first = await plane.log.list(ADA, TaskFilter(page_size=1))
        await plane.log.list(ADA, TaskFilter(page_size=1, page_token=first.next_page_token))
        await plane.log.list(ADA, TaskFilter(context_id="c1", by_creation=True))
        listed = await plane.log.infos(ADA, InfoFilter(context_id="c1", page_size=1))
        await plane.log.infos(ADA, InfoFilter(context_id="c1", page_token=listed.next_page_token))
        await plane.log.infos(ADA, InfoFilter(context_id="c1", latest_incomplete=True))
        newest = await plane.log.infos(ADA, InfoFilter(context_id="c1", newest_first=True, page_size=1))
        query = InfoFilter(context_id="c1", newest_first=True, page_token=newest.next_page_token)
        await plane.log.infos(ADA, query)
        assert (await plane.log.messages(ADA, MessageFilter(context_id="c1"))).messages
        await plane.log.session(ADA, "c1")
        await plane.log.infos_of([row.uid])
        await plane.log.summaries(ADA, ["c1", "c2"])
        await plane.log.fingerprints([("", "ada", "c1"), ("", "ada", "c2")])
        await plane.log.list(ADA, TaskFilter(status_after=1, agent="demo", state=WORKING))
        await plane.log.events(ADA, row.id, EventFilter(speaking=True, newest_first=True))
        await plane.log.read_after(row.uid, 1)
        await plane.log.uncopied(None, 10)
        await plane.log.uncopied(("", "ada", "c1"), 10)
        await plane.log.claimable(["demo", "other"], 10)
        await plane.log.in_turn()
        await plane.log.overdue(10)
        await plane.log.events(ADA, row.id, EventFilter(kinds=[STATUS_TEXT], newest_first=True, limit=5))
        await plane.log.expired(10)
        await plane.log.held("p1")
        await plane.log.held()
        await plane.log.lease_left(row.uid, 1)
        await plane.log.announce("p1", HOUR, 100, ["demo"])
        await plane.log.unserved(["demo"])
        await plane.log.loads(["p1", "p2"])
        await plane.log.renew("p1", [(row.uid, 1), ("nobody", 1)], HOUR)
        await plane.log.heads([row.uid])
        await plane.log.trimmable(HOUR, (0, ""), 10)
        await plane.log.untrimmed_documents("", 10)
        await plane.log.removable([(row.uid, 0, 2)])
    scanned: list[str] = []
    for statement, parameters in dict(seen).items():
        if statement.startswith("INSERT"):
            continue
        shown = await plane.engine.write(plan, statement.replace(" FOR UPDATE SKIP LOCKED", ""), parameters)
        # To go through a partial index is no scan: all that is in it is wanted. So are the few processes.
        found = re.findall(
            rf"SCAN (?:task|event|lease)\b(?! USING INDEX (?:{PARTIAL})).*|Seq Scan on (?!executor\b)\w+", shown
        )
        if found:
            scanned.append(f"{statement}\n{shown}")
    assert not scanned, "\n\n".join(scanned)


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (TaskFilter(), "task_by_status"),
        (TaskFilter(context_id="c1", by_creation=True), "task_by_context"),
    ],
)
async def test_a_listing_walks_along_its_index(plane: Plane, query: TaskFilter, index: str) -> None:
    """C1, W17: a page costs its size, not the number of tasks: nothing is sorted."""
    for _ in range(3):
        await plane.create()
    with statements() as seen:
        await plane.log.list(ADA, query)
    ordered = [each for each in seen if "ORDER BY" in each[0]]
    shown = await plane.engine.write(plan, *ordered[0])
    assert index in shown and "TEMP B-TREE" not in shown and "Sort" not in shown, shown


async def test_a_page_of_a_conversation_reads_the_tasks_it_shows(plane: Plane) -> None:
    """T6: once it is known what the others say, of which only numbers are read, along an index."""
    for _ in range(12):
        await plane.complete(await plane.create(), "x" * 2_000)
    query = MessageFilter(context_id="c1", page_size=4)
    with statements() as first:
        await plane.log.messages(ADA, query)
    with statements() as second:
        await plane.log.messages(ADA, query)
    sizes = [sum([await plane.engine.read(bytes_of, *each) for each in seen]) for seen in (first, second)]
    assert sizes[0] > 12 * 2_000 > 3 * 2_000 > sizes[1] > 2 * 2_000
    shown = await plane.engine.write(plan, *second[0])
    assert "task_by_context" in shown and "TEMP B-TREE" not in shown and "Sort" not in shown, shown


def bytes_of(conn: Connection, statement: str, parameters: Any) -> int:
    """Return the number of bytes that a query gives."""
    rows = conn.exec_driver_sql(statement, parameters)
    return sum(len(value) for row in rows for value in row if isinstance(value, bytes))


async def test_a_long_queue_of_one_owner_is_read_in_its_order_and_passed_over_by_one_step(plane: Plane) -> None:
    """L2: a round costs the same however many tasks an owner has queued, of whichever agents."""
    await plane.log.submit_all([plane.creation(claim_for="", agent=f"a{number % 3}") for number in range(300)])
    last = await plane.queued(agent="a1", scope=BOB)
    full = Slots(4, "users", {("", "ada"): 3})
    with statements() as seen:
        found = await plane.log.claimable(["a1", "a2"], 10, ("", ""), full)
    assert (list(found.uids), found.passed_over, found.more) == ([last.uid], frozenset({("", "ada")}), False)
    # Ada's name, Bob's, and that there is none after it; then what Bob has.
    assert len(seen) == 4
    for executed in seen:
        shown = await plane.engine.write(plan, *executed)
        assert "task_queued" in shown and "TEMP B-TREE" not in shown and "Sort" not in shown, shown


async def test_retention_reads_along_its_indexes(plane: Plane) -> None:
    """C16: trimmed tasks cost nothing, and nothing is sorted."""
    with statements() as seen:
        await plane.log.trimmable(HOUR, (0, ""), 10)
        await plane.log.untrimmed_documents("", 10)
    for executed, index in zip(seen, ("task_trimmable", "task_documents"), strict=True):
        shown = await plane.engine.write(plan, *executed)
        assert index in shown and "TEMP B-TREE" not in shown and "Sort" not in shown, shown


async def test_a_lookup_by_id_reads_only_the_rows_with_the_id(plane: Plane) -> None:
    """Ids and turns are read by the index that begins with them, not among all rows of a tenant or an owner."""
    row = await plane.create()
    await plane.log.submit_all([plane.creation() for _ in range(400)])
    await plane.engine.write(lambda conn: conn.exec_driver_sql("ANALYZE"))
    with statements() as seen:
        await plane.log.submit_all(
            [plane.creation(), plane.saying(row, "i2"), commands.Cancel(scope=ADA, task_id="none")]
        )
    (lookup,) = [each for each in seen if "UNION ALL" in each[0]]
    shown = await plane.engine.write(plan, *lookup)
    if plane.engine.dialect.name == "sqlite":
        assert "sqlite_autoindex_task_2 (id=?" in shown and "event_invocation (invocation_id=?" in shown, shown
    else:
        assert "task_public_id" in shown and "event_invocation" in shown, shown
