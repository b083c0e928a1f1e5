"""`taskplane tail --session`: the changes of a session, line by line."""

from collections import Counter
from contextlib import aclosing
from datetime import datetime
from typing import Any

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.model.session_tasks import TaskInfo, read_session_tasks, read_task_info
from taskplane.cli.options import Options
from taskplane.cli.render import dump, one_line, text_of
from taskplane.cli.report import note
from taskplane.client.events import read_message
from taskplane.client.sessions import Watched


def tail_session(options: Options, session_id: str) -> int:
    """Follow a session until it is deleted. After a broken connection, report it and continue with a new snapshot."""

    async def main(connection: Connection) -> int:
        async with aclosing(connection.sessions.watch(session_id)) as events:
            async for item in events:
                if item.rejoined:
                    note("  resumed with a new snapshot")
                if options.output == "text":
                    print(watched_line(item, datetime.now()), flush=True)
                else:
                    print(dump({"event": item.name, **item.data}, indent=False), flush=True)
        note(f"Session {session_id} was deleted.")
        return exits.OK

    return run(options, main)


def watched_line(watched: Watched, now: datetime) -> str:
    """Return one line: the time, the name of the event, and its content."""
    head = f"{now:%H:%M:%S}.{now.microsecond // 1000:03d}  {watched.name}"
    return f"{head}  {_what(watched)}".rstrip()


def _what(watched: Watched) -> str:
    data = watched.data
    match watched.name:
        case "snapshot":
            return _snapshot(data)
        case "task-received" | "task-state-changed" | "task-updated":
            info = read_task_info(data)
            return _task(info) if info is not None else ""
        case "entry-added":
            said = text_of(read_message(data["message"])) if data.get("message") else ""
            return f"{data.get('kind')}  {data.get('taskId') or data.get('invocationId') or ''}  {said}"
        case "rewound":
            return f"version {data.get('version')}  cut: {', '.join(map(str, data.get('cut') or [])) or 'nothing'}"
        case _:
            return dump(data, indent=False)


def _snapshot(data: dict[str, Any]) -> str:
    states = Counter(task.state for task in read_session_tasks(data).tasks)
    tasks = ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
    return f"version {data.get('version')}  tasks: {tasks}"


def _task(info: TaskInfo) -> str:
    return f"{info.id}  {info.state}{' (superseded)' if info.superseded else ''}  {one_line(info.error)}"
