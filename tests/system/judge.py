"""Judges a run afterwards, from the database files and from what the clients recorded; one list per broken promise."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.tasks.domain.task import AT_REST, COMPLETED, STATUS, TERMINAL


@dataclass
class Verdict:
    """What was found; each list holds one line per finding and must be empty."""

    gaps: list[str] = field(default_factory=list[str])
    terminal: list[str] = field(default_factory=list[str])
    stuck: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    uncopied: list[str] = field(default_factory=list[str])
    copies: list[str] = field(default_factory=list[str])
    fences: list[str] = field(default_factory=list[str])
    tasks: int = 0
    events: int = 0

    def findings(self) -> list[str]:
        named = ("gaps", "terminal", "stuck", "lost", "uncopied", "copies", "fences")
        return [f"{name}: {line}" for name in named for line in getattr(self, name)]


@dataclass(frozen=True)
class Stored:
    """One event as the log has it."""

    generation: int
    kind: int
    fence: int
    speaks: bool
    invocation_id: str | None
    response: a2a.StreamResponse


def _rows(path: Path, query: str) -> list[sqlite3.Row]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def logs(tasks_db: Path) -> dict[str, list[Stored]]:
    """Every task's events by its uid, in order."""
    found: dict[str, list[Stored]] = defaultdict(list)
    query = "SELECT task_uid, generation, kind, fence, speaks, invocation_id, payload FROM event ORDER BY 1, 2"
    for row in _rows(tasks_db, query):
        response = a2a.StreamResponse.FromString(row["payload"])
        event = Stored(
            row["generation"], row["kind"], row["fence"], bool(row["speaks"]), row["invocation_id"], response
        )
        found[row["task_uid"]].append(event)
    return found


def judge(tasks_db: Path, sessions_db: Path, seen: dict[str, Iterable[int]], acknowledged: Iterable[str]) -> Verdict:
    """`seen`: generations that clients saw, by task id; `acknowledged`: ids of tasks answered as completed."""
    verdict = Verdict()
    events = logs(tasks_db)
    entries = {row["id"] for row in _rows(sessions_db, "SELECT id FROM entry")}
    heads: dict[str, int] = {}
    states: dict[str, int] = {}
    uids: set[str] = set()
    for row in _rows(tasks_db, "SELECT * FROM task"):
        log = events[row["uid"]]
        uids.add(row["uid"])
        heads[row["id"]], states[row["id"]] = row["generation"], row["state"]
        verdict.tasks += 1
        verdict.events += len(log)
        if [event.generation for event in log] != list(range(1, row["generation"] + 1)):
            verdict.gaps.append(f"{row['id']}: {[event.generation for event in log]}")
        _judge_end(verdict, row, log)
        _judge_copies(verdict, row, log, entries)
        fences = [event.fence for event in log if event.fence]
        if fences != sorted(fences):
            verdict.fences.append(f"{row['id']}: {fences}")
    for task_id, generations in seen.items():
        beyond = [each for each in generations if each > heads.get(task_id, 0)]
        if beyond:
            verdict.lost.append(f"{task_id}: seen {beyond}, head {heads.get(task_id)}")
    verdict.lost.extend(f"{each}: acknowledged" for each in acknowledged if states.get(each) != COMPLETED)
    for entry in entries:
        uid, _, generation = entry.rpartition("-")
        if uid in uids and generation.isdigit() and int(generation) > len(events[uid]):
            verdict.copies.append(f"entry {entry} has no event")
    return verdict


def _judge_end(verdict: Verdict, row: sqlite3.Row, log: list[Stored]) -> None:
    ends = [
        event.generation
        for event in log
        if event.kind == STATUS and event.response.status_update.status.state in TERMINAL
    ]
    if row["state"] not in AT_REST:
        verdict.stuck.append(f"{row['id']}: state {row['state']} at generation {row['generation']}")
    elif row["state"] in TERMINAL and ends != [row["terminal_generation"]]:
        verdict.terminal.append(f"{row['id']}: terminal events {ends}")
    elif row["state"] in TERMINAL and ends[0] != row["generation"]:
        verdict.terminal.append(f"{row['id']}: something follows its end")


def _judge_copies(verdict: Verdict, row: sqlite3.Row, log: list[Stored], entries: set[str]) -> None:
    if row["state"] in AT_REST and row["copied_generation"] < row["message_generation"]:
        verdict.uncopied.append(f"{row['id']}: copied {row['copied_generation']} of {row['message_generation']}")
    if row["state"] not in AT_REST:
        return
    for event in log:
        wanted = event.invocation_id or f"{row['uid']}-{event.generation}"
        if event.speaks and wanted not in entries:
            verdict.copies.append(f"{row['id']}: generation {event.generation} is not in its session as {wanted}")
