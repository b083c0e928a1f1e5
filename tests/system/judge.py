"""Checks a finished run, from the databases and the records of clients; one list per broken promise."""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, text
from tests.system.plane import BOUND, Plane

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.gateway.translate.v1_0 import V1_0
from taskplane.storage.engine import open_engine
from taskplane.tasks.domain.kinds import ARTIFACT, STATUS
from taskplane.tasks.domain.task import AT_REST, COMPLETED, TERMINAL
from taskplane.tasks.sql.packing import unpack_piece

# All that may follow a terminal event.
MARKS = {pb.EVENT_KIND_SUPERSEDED, pb.EVENT_KIND_RESTORED}
Columns = Mapping[str, Any]
Seen = Mapping[str, Mapping[int, Mapping[str, Any]]]

_TASKS = "SELECT * FROM task"
_EVENTS = (
    "SELECT task_uid, generation, kind, fence, attempt, speaks, invocation_id, payload FROM event"
    " ORDER BY task_uid, generation"
)
_ENTRIES = "SELECT id FROM entry"


@dataclass
class Verdict:
    """The findings; each list holds one line per finding and must be empty."""

    gaps: list[str] = field(default_factory=list[str])
    terminal: list[str] = field(default_factory=list[str])
    stuck: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    uncopied: list[str] = field(default_factory=list[str])
    copies: list[str] = field(default_factory=list[str])
    fences: list[str] = field(default_factory=list[str])
    tasks: int = 0
    events: int = 0
    compared: int = 0

    def findings(self) -> list[str]:
        named = ("gaps", "terminal", "stuck", "lost", "uncopied", "copies", "fences")
        return [f"{name}: {line}" for name in named for line in getattr(self, name)]

    def __str__(self) -> str:
        return (
            f"{self.tasks} tasks, {self.events} events, {self.compared} of them as clients saw them,"
            f" {len(self.findings())} findings"
        )


@dataclass(frozen=True)
class Stored:
    """One event of the log."""

    generation: int
    kind: int
    fence: int
    attempt: int
    speaks: bool
    invocation_id: str | None
    response: a2a.StreamResponse


@dataclass(frozen=True)
class Held:
    """The content of the two databases."""

    tasks: list[Columns]
    logs: dict[str, list[Stored]]
    entries: set[str]


async def held(plane: Plane) -> Held:
    """Returns the content of a plane's databases, on either engine; also while it runs, and after it has ended."""
    # Entries first: a copy in between must not look like an entry without its event.
    (entries,) = await _rows(plane.sessions_url, _ENTRIES)
    tasks, events = await _rows(plane.tasks_url, _TASKS, _EVENTS)
    return _held(tasks, events, entries)


async def _rows(url: str, *queries: str) -> list[list[Columns]]:
    """Returns the rows of each query, all in one snapshot."""
    if url.startswith("sqlite:///"):
        # Not through our engine: a file may have only one.
        connection = sqlite3.connect(f"file:{url.removeprefix('sqlite:///')}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("BEGIN")
            return [[dict(row) for row in connection.execute(query)] for query in queries]
        finally:
            connection.close()

    def read(conn: Connection) -> list[list[Columns]]:
        return [[dict(row) for row in conn.execute(text(query)).mappings()] for query in queries]

    async with open_engine(url) as engine:
        return await engine.read(read)


async def logs(plane: Plane) -> dict[str, list[Stored]]:
    """Every task's events by its uid, in order."""
    return (await held(plane)).logs


async def artifact_rows(plane: Plane, task_id: str) -> list[int]:
    """The bytes of each event of the artifacts of a task, as they are stored."""
    query = (
        "SELECT length(e.payload) AS bytes FROM event e JOIN task t ON t.uid = e.task_uid"
        f" WHERE t.id = '{task_id}' AND e.kind = {ARTIFACT}"
    )
    (rows,) = await _rows(plane.tasks_url, query)
    return [row["bytes"] for row in rows]


async def at_rest(plane: Plane, timeout: float = BOUND) -> None:
    """Waits until all tasks of a plane are at rest and copied. TimeoutError: they never were."""
    async with asyncio.timeout(timeout):
        # The rows first: they are few, and usually the last to be ready.
        while not await _settled(plane) or judge(await held(plane), {}, ()).findings():
            await asyncio.sleep(0.1)


async def _settled(plane: Plane) -> bool:
    (tasks,) = await _rows(plane.tasks_url, _TASKS)
    return all(row["state"] in AT_REST and row["copied_generation"] >= row["message_generation"] for row in tasks)


def judge(held: Held, seen: Seen, acknowledged: Iterable[str]) -> Verdict:
    """`seen`: the views of clients, by task and generation; `acknowledged`: ids of tasks answered as completed."""
    verdict = Verdict()
    uids: dict[str, str] = {}
    states: dict[str, int] = {}
    for row in held.tasks:
        log = held.logs.get(row["uid"], [])
        uids[row["id"]], states[row["id"]] = row["uid"], row["state"]
        verdict.tasks += 1
        verdict.events += len(log)
        if [event.generation for event in log] != list(range(1, row["generation"] + 1)):
            verdict.gaps.append(f"{row['id']}: {[event.generation for event in log]}")
        _judge_end(verdict, row, log)
        _judge_copies(verdict, row, log, held.entries)
        fences = [event.fence for event in log if event.fence]
        if fences != sorted(fences):
            verdict.fences.append(f"{row['id']}: {fences}")
    for task_id, contents in seen.items():
        _judge_seen(verdict, task_id, contents, held.logs.get(uids.get(task_id, ""), []))
    verdict.lost.extend(f"{each}: acknowledged" for each in acknowledged if states.get(each) != COMPLETED)
    for entry in held.entries:
        uid, _, generation = entry.rpartition("-")
        if uid in held.logs and generation.isdigit() and int(generation) > len(held.logs[uid]):
            verdict.copies.append(f"entry {entry} has no event")
    return verdict


def _unpacked(row: Columns) -> bytes:
    """The payload of an event."""
    payload: bytes = row["payload"] or b""
    return unpack_piece(payload) if row["kind"] == ARTIFACT else payload


def _held(tasks: list[Columns], events: list[Columns], entries: list[Columns]) -> Held:
    found: dict[str, list[Stored]] = defaultdict(list)
    for row in events:
        event = Stored(
            row["generation"],
            row["kind"],
            row["fence"],
            row["attempt"],
            bool(row["speaks"]),
            row["invocation_id"],
            a2a.StreamResponse.FromString(_unpacked(row)),
        )
        found[row["task_uid"]].append(event)
    return Held(tasks, dict(found), {row["id"] for row in entries})


def _judge_seen(verdict: Verdict, task_id: str, contents: Mapping[int, Mapping[str, Any]], log: list[Stored]) -> None:
    """The view of a client is in the log, in the same words."""
    stored = {event.generation: event for event in log}
    for generation, content in contents.items():
        event = stored.get(generation)
        if event is None:
            verdict.lost.append(f"{task_id}: generation {generation} was seen and is not in the log")
            continue
        which = event.response.WhichOneof("payload")
        # A Task represents all events up to this one.
        if "task" in content or which is None:
            continue
        verdict.compared += 1
        if V1_0.event(getattr(event.response, which)) != content:
            verdict.lost.append(f"{task_id}: generation {generation} was seen with another content")


def _judge_end(verdict: Verdict, row: Columns, log: list[Stored]) -> None:
    ends = [
        event.generation
        for event in log
        if event.kind == STATUS and event.response.status_update.status.state in TERMINAL
    ]
    if row["state"] not in AT_REST:
        verdict.stuck.append(f"{row['id']}: state {row['state']} at generation {row['generation']}")
    elif row["state"] in TERMINAL and ends != [row["terminal_generation"]]:
        verdict.terminal.append(f"{row['id']}: terminal events {ends}")
    elif row["state"] in TERMINAL and any(e.generation > ends[0] and e.kind not in MARKS for e in log):
        verdict.terminal.append(f"{row['id']}: something follows its end")


def _judge_copies(verdict: Verdict, row: Columns, log: list[Stored], entries: set[str]) -> None:
    if row["state"] not in AT_REST:
        return
    if row["copied_generation"] < row["message_generation"]:
        verdict.uncopied.append(f"{row['id']}: copied {row['copied_generation']} of {row['message_generation']}")
        return
    for event in log:
        wanted = event.invocation_id or f"{row['uid']}-{event.generation}"
        if event.speaks and wanted not in entries:
            verdict.copies.append(f"{row['id']}: generation {event.generation} is not in its session as {wanted}")
