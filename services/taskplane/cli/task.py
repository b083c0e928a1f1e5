"""`taskplane task`: list, get and cancel tasks."""

from collections.abc import Collection
from typing import Any, Final

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import content_of, one_line, print_json, print_list, text_of, time_text, tool_line
from taskplane.cli.waiting import waiting_lines
from taskplane.client.events import FullTask
from taskplane.client.states import state_of

_HEADER: Final = ["TASK", "STATE", "CHANGED", "SESSION", "LAST"]


def list_tasks(options: Options, session: str, state: str, limit: int) -> int:
    """List the caller's tasks, newest state change first, at most `limit`."""
    filters: dict[str, Any] = {"historyLength": 1}
    if session:
        filters["contextId"] = session
    if state:
        known = state_of(state)
        word = state if known == "unknown" else known
        filters["status"] = f"TASK_STATE_{word.upper().replace('-', '_')}"

    async def main(connection: Connection) -> int:
        found = [task async for task in connection.tasks(limit, **filters)]
        print_list([task.json for task in found], [_HEADER, *map(_row, found)], "No tasks.", options.output)
        return exits.OK

    return run(options, main)


def get_task(options: Options, task_id: str) -> int:
    """Show a task with its history and artifacts."""

    async def main(connection: Connection) -> int:
        _show(options, await connection.get(await connection.task_id(task_id)))
        return exits.OK

    return run(options, main)


def cancel_task(options: Options, task_id: str) -> int:
    """Cancel a task, and show it."""

    async def main(connection: Connection) -> int:
        _show(options, await connection.cancel(await connection.task_id(task_id)))
        return exits.OK

    return run(options, main)


def _show(options: Options, task: FullTask) -> None:
    if options.output != "text":
        print_json(task.json, options.output)
        return
    print(task_text(task))


def task_text(task: FullTask, known: Collection[str] = ()) -> str:
    """Return a task as text: its state, its messages except those with a `known` id, and its artifacts."""
    lines = [f"task     {task.id}", f"session  {task.context_id}", f"state    {task.state}"]
    lines += [f"waits    {line}" for line in waiting_lines(task.metadata)]
    said = [*task.history]
    if task.message is not None and all(task.message.id != message.id for message in said):
        said.append(task.message)
    for message in said:
        if message.id in known:
            continue
        body = [one_line(content)] if (content := content_of(message)) else []
        lines += [f"{message.role:<7}  {line}" for line in [*body, *map(tool_line, message.tools)]]
    for artifact in task.artifacts:
        text = "".join(str(part["text"]) for part in artifact.parts if isinstance(part.get("text"), str))
        lines.append(f"artifact {artifact.name or artifact.id}: {one_line(text)}")
    return "\n".join(lines)


def _row(task: FullTask) -> list[str]:
    changed = time_text(task.at)
    return [task.id, task.state, changed, task.context_id, one_line(text_of(task), 40)]
