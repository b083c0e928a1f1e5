"""`taskplane ops`: an overview for operators, and the tasks of all owners."""

import sys

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.operations_text import log_text, overview_text, task_rows, task_text
from taskplane.cli.options import Options
from taskplane.cli.render import print_json, print_list
from taskplane.cli.report import confirm, nobody_to_ask, note, report_error


def show_overview(options: Options) -> int:
    """Show running, waiting and failed tasks."""

    async def main(connection: Connection) -> int:
        found = await connection.operations.overview()
        if options.output == "text":
            print(overview_text(found))
        else:
            print_json(found, options.output)
        return exits.OK

    return run(options, main)


def list_tasks(options: Options, limit: int, filters: dict[str, str]) -> int:
    """List tasks of all owners, newest change of state first, at most `limit`."""

    async def main(connection: Connection) -> int:
        found = [task async for task in connection.operations.tasks(limit, filters)]
        print_list(found, task_rows(found), "No tasks.", options.output)
        return exits.OK

    return run(options, main)


def show_task(options: Options, task_id: str) -> int:
    """Show a task of any owner with its whole log."""

    async def main(connection: Connection) -> int:
        found = await connection.operations.task(await connection.any_owner_task_id(task_id))
        if options.output == "text":
            print(f"{task_text(found['task'])}\n\n{log_text(found['events'])}")
        else:
            print_json(found, options.output)
        return exits.OK

    return run(options, main)


def cancel_task(options: Options, task_id: str) -> int:
    """Cancel a task of any owner, and show it."""

    async def main(connection: Connection) -> int:
        task = await connection.operations.cancel(await connection.any_owner_task_id(task_id))
        if options.output == "text":
            print(task_text(task))
        else:
            print_json(task, options.output)
        return exits.OK

    return run(options, main)


def delete_task(options: Options, task_id: str, yes: bool) -> int:
    """Delete a task of any owner with its log and its content. Without `yes`, ask on a terminal or else refuse."""
    if not yes and not sys.stdin.isatty():
        return report_error(nobody_to_ask(f"Task {task_id} was not deleted"), options.output)

    async def main(connection: Connection) -> int:
        task = await connection.any_owner_task_id(task_id)
        if not yes:
            found = (await connection.operations.task(task))["task"]
            if not confirm(f"Delete task {task} of {found['owner']} with its log and its messages permanently? [y/N] "):
                note("Nothing was deleted.")
                return exits.FAILED
        await connection.operations.delete(task)
        if options.output == "text":
            note(f"Task {task} was deleted.")
        else:
            print_json({"id": task, "deleted": True}, options.output)
        return exits.OK

    return run(options, main)
