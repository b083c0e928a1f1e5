"""Tables for operators on a terminal."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from taskplane.api.message_metadata import WAITING
from taskplane.cli.render import columns, one_line, text_of, time_text
from taskplane.cli.waiting import waiting_lines
from taskplane.client.events import classify
from taskplane.client.states import state_of

_LONGEST_ASKED: Final = 60
_LONGEST_SENTENCE: Final = 1_000
_BACKLOGS: Final = (("uncopied", "tasks not copied"), ("abandoned", "turns without answer"))
_FACTS: Final = (
    ("task", "taskId"),
    ("session", "contextId"),
    ("owner", "owner"),
    ("agent", "agent"),
    ("asked", "asked"),
    ("created", "createdAt"),
    ("changed", "statusAt"),
    ("queued", "queuedAt"),
    ("executor", "executor"),
    ("lease", "leaseExpiresAt"),
    ("error", "error"),
    ("cause", "cause"),
)


def overview_text(found: dict[str, Any]) -> str:
    """Return an overview as text: problems, tables that are not empty, and figures."""
    recent = found["recent"]
    parts = [
        _concerns(found["concerns"]),
        _table("TASKS", ["AGENT", "STATE", "COUNT"], map(_count_row, found["tasks"])),
        _table("QUEUE", ["AGENT", "QUEUED", "OLDEST"], map(_queue_row, found["queue"])),
        _table("EXECUTORS", ["ID", "SEEN", "LEASES", "RUNNING", "AGENTS"], map(_executor_row, found["executors"])),
        "\n".join(
            [
                f"last {recent['minutes']} minutes",
                f"  begun      {recent['begun']}",
                f"  ended      {recent['ended']}, {recent['failed']} of them failed",
                f"  duration   {_percentiles(recent['durationSeconds'])}",
                f"  queued     {_percentiles(recent['queuedSeconds'])}",
            ]
        ),
        "\n".join(f"{label:<20}   {_backlog(found[name])}" for name, label in _BACKLOGS),
    ]
    if found["bounded"]:
        parts.append(f"There are too many tasks: the figures count only tasks since {time_text(recent['since'])}.")
    return "\n\n".join(part for part in parts if part)


def task_rows(tasks: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the rows of a table of tasks, the header first."""
    return [["TASK", "STATE", "CHANGED", "OWNER", "AGENT", "EXECUTOR", "ASKED", "ERROR"], *map(_task_row, tasks)]


def task_text(task: dict[str, Any]) -> str:
    """Return a task as text, one fact on each line."""
    lines = [f"{name:<8}  {one_line(str(task[key]))}" for name, key in _FACTS if task.get(key)]
    lines.insert(4, f"state     {_state(task)}")
    lines.append(f"attempt   {task['attempt']} of {task['maxAttempts']}, fence {task['fence']}")
    lines += [f"waits     {line}" for line in waiting_lines({WAITING: task.get("waiting")})]
    if not task["copied"]:
        lines.append("copied    no: some messages are missing in the session")
    return "\n".join(lines)


def log_text(events: Iterable[dict[str, Any]]) -> str:
    """Return a log as text: a table with a header."""
    return columns([["#", "TIME", "ATTEMPT", "FENCE", "ACTOR", "KIND", "TEXT"], *map(_event_row, events)])


def _concerns(found: Sequence[dict[str, str]]) -> str:
    """Return each problem as three lines: message, suggestion, code. Without problems, one line says so."""
    if not found:
        return "Nothing needs attention."
    lines = ["NEEDS ATTENTION"]
    for each in found:
        suggestion = one_line(each["suggestion"], _LONGEST_SENTENCE)
        lines += [one_line(each["message"], _LONGEST_SENTENCE), f"  {suggestion}", f"  {each['code']}"]
    return "\n".join(lines)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    found = list(rows)
    return f"{title}\n{columns([head, *found])}" if found else ""


def _state(task: dict[str, Any]) -> str:
    marked = next((mark for mark in ("paused", "rejected") if task.get(mark)), "")
    return marked or str(state_of(task["state"]))


def _count_row(one: dict[str, Any]) -> list[str]:
    return [one_line(one["agent"]) or "-", _state(one), str(one["count"])]


def _queue_row(one: dict[str, Any]) -> list[str]:
    return [one_line(one["agent"]), str(one["queued"]), _seconds(one["oldestSeconds"])]


def _executor_row(one: dict[str, Any]) -> list[str]:
    ago = one["lastSeenSeconds"]
    seen = f"{_seconds(ago)} ago" if one["alive"] else f"{_seconds(ago)} ago, lost" if ago else "lost"
    return [one["id"], seen, str(one["leases"]), str(one["running"]), ", ".join(map(one_line, one["agents"])) or "-"]


def _task_row(task: dict[str, Any]) -> list[str]:
    return [
        str(task["taskId"]),
        _state(task),
        time_text(task["statusAt"]),
        one_line(task["owner"], 40),
        one_line(task["agent"], 40) or "-",
        one_line(task.get("executor", ""), 40) or "-",
        one_line(task.get("asked", ""), _LONGEST_ASKED) or "-",
        one_line(task.get("error", "")),
    ]


def _event_row(event: dict[str, Any]) -> list[str]:
    time = datetime.fromisoformat(event["time"]).astimezone()
    said = classify(event["event"]) if event["event"] else None
    return [
        str(event["generation"]),
        f"{time:%H:%M:%S}.{time.microsecond // 1000:03d}",
        str(event["attempt"]),
        str(event["fence"]),
        one_line(event["actor"], 40),
        event["kind"],
        one_line(" ".join(filter(None, [getattr(said, "state", ""), text_of(said)])), 80),
    ]


def _percentiles(found: dict[str, float] | None) -> str:
    return f"{_seconds(found['p50'])} at the median, {_seconds(found['p95'])} at p95" if found else "-"


def _backlog(found: dict[str, Any]) -> str:
    return f"{found['count']}, the oldest for {_seconds(found['oldestSeconds'])}" if found["count"] else "0"


def _seconds(value: float) -> str:
    if value < 60:
        return f"{value:.1f} s" if value >= 0.1 or not value else f"{1000 * value:.0f} ms"
    return f"{value // 60:.0f} min" if value < 7200 else f"{value // 3600:.0f} h"
