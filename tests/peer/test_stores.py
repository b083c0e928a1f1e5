"""What stores keep, what an empty one answers, and how a listing reads, beside the SDK's SQL stores."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from a2a.server.cluster import DatabaseTaskEventStream, VersionedDatabaseTaskStore
from a2a.server.context import ServerCallContext
from bench.peer import Workloads
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from tests.conformance.test_task_store_cost import Executed, statements
from tests.gateway.plane import open_all, open_behind, open_front
from tests.peer.peers import database, sdk_on_sqlite, sdk_replicas, streamed
from tests.system.plane import running
from tests.system.wire import Json, call, client, data, result, send, task_of, until


def rows_with(file: Path, *words: str) -> list[str]:
    """The tables of a SQLite file in which some column has one of the words."""
    found: list[str] = []
    with sqlite3.connect(file) as conn:
        names = [name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for row in conn.execute(f"SELECT * FROM {name}"):
                shown = b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in row)
                found += [name for word in words if word.encode() in shown]
    conn.close()
    return found


async def test_w13_a_log_is_trimmed_and_a_deleted_task_leaves_nothing(tmp_path: Path) -> None:
    """W13: the log of an ended task loses its pieces, the conversation stays; after the deletion no row of the
    task store has the task. There its events stay after both."""
    often = {"trim_every": 0.05}
    async with open_behind(tmp_path, events_ttl=1e-6, tasks=often) as behind, open_front(behind) as plane:
        ended = task_of(await streamed(plane.http, "chunks 20 16"))
        await until(lambda: trimmed(tmp_path / "tasks.db", 3))
        messages = f"/api/sessions/{ended['contextId']}/messages"
        assert "chunks 20 16" in str(await data(plane.http, messages))
        assert rows_with(tmp_path / "tasks.db", ended["id"])
        assert (await plane.http.delete(f"/api/tasks/{ended['id']}")).is_success
        assert rows_with(tmp_path / "tasks.db", ended["id"], "chunks 20 16") == []
        assert "chunks 20 16" not in str(await data(plane.http, messages))
    async with sdk_replicas(tmp_path / "sdk.db", Workloads()) as (peer,), database(tmp_path / "sdk.db") as engine:
        async with client(peer.url) as http:
            ended = task_of(await streamed(http, "chunks 20 16"))
        await DatabaseTaskEventStream(engine).destroy(ended["id"])
        await VersionedDatabaseTaskStore(engine).delete(ended["id"], ServerCallContext())
        async with engine.connect() as conn:
            left = await conn.execute(text("SELECT count(*) FROM task_events WHERE task_id = :id"), {"id": ended["id"]})
            assert left.scalar_one() > 20


async def trimmed(file: Path, left: int) -> bool:
    """Whether the log of the only task has so many events."""
    with sqlite3.connect(file) as conn:
        (count,) = conn.execute("SELECT count(*) FROM event").fetchone()
    conn.close()
    return bool(count == left)


async def test_w14_an_empty_database_works_after_the_start(tmp_path: Path) -> None:
    """W14: reads are answered before the first write. There the first read of the cluster store fails, although it
    was to make its tables."""
    async with running("one", tmp_path) as plane, client(plane.url) as http:
        assert (await call(http, "GetTask", {"id": "nobody"}))["error"]["code"] == -32001
        assert await result(http, "ListTasks", {}) == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
        assert (await send(http, "echo first"))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    async with database(tmp_path / "sdk.db") as engine:
        store = VersionedDatabaseTaskStore(engine, create_table=True)
        with pytest.raises(OperationalError, match="no such table: task_versions"):
            await store.get("nobody", ServerCallContext())


async def pages(http: Any, context_id: str) -> list[Json]:
    """The pages of a listing of the completed tasks of a context, of two each."""
    query: Json = {"contextId": context_id, "status": "TASK_STATE_COMPLETED", "pageSize": 2}
    found = [await result(http, "ListTasks", query)]
    while found[-1]["nextPageToken"]:
        found.append(await result(http, "ListTasks", {**query, "pageToken": found[-1]["nextPageToken"]}))
    return found


async def filled(http: Any) -> str:
    """Make five completed tasks in one context; its id."""
    context = "c"
    for _ in range(5):
        assert (await send(http, "chunks 2 16", contextId=context))["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    return context


def counts(seen: Executed) -> list[str]:
    return [statement for statement, _ in seen if "count(*)" in statement and "context_id = ?" in statement]


async def test_w17_a_listing_counts_once_and_reads_its_rows_by_an_index(tmp_path: Path) -> None:
    """W17: without the content of any task that it does not show. There each page counts again, and reads the
    artifacts that it then leaves out."""
    async with open_all(tmp_path) as plane:
        context = await filled(plane.http)
        with statements() as seen:
            found = await pages(plane.http, context)
        assert [len(page["tasks"]) for page in found] == [2, 2, 1]
        assert {page["totalSize"] for page in found} == {5}
        assert len(counts(seen)) == 1
        listings = [each for each in seen if "task.context_id = ?" in each[0] and "ORDER BY task." in each[0]]
        assert len(listings) == 3
        with sqlite3.connect(tmp_path / "tasks.db") as conn:
            for statement, parameters in listings:
                assert "payload" not in statement and "snapshot " not in statement
                plan = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
                assert plan[0].startswith("SEARCH task USING INDEX task_by_"), plan
        conn.close()
    async with sdk_on_sqlite(Workloads(), tmp_path / "sdk.db") as peer, client(peer.url) as http:
        context = await filled(http)
        with statements() as seen:
            found = await pages(http, context)
        assert len(found) == len(counts(seen)) == 3
        assert all("artifacts" not in task for page in found for task in page["tasks"])
        assert sum("artifacts" in statement for statement, _ in seen) >= 3
