"""`taskplane session`: list, show, rename and delete sessions."""

import sys
from typing import Any

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.model.cut import turns
from taskplane.cli.model.session_tasks import read_session_tasks
from taskplane.cli.options import Options
from taskplane.cli.render import columns, one_line, print_json, print_list
from taskplane.cli.report import confirm, nobody_to_ask, note, report_error
from taskplane.cli.session_text import info_table, session_table, turn_lines
from taskplane.cli.task import task_text
from taskplane.client.events import read_message, read_task


def list_sessions(options: Options, search: str, limit: int) -> int:
    """List the caller's sessions with `search` in their titles, newest update first, at most `limit`."""

    async def main(connection: Connection) -> int:
        found = await connection.sessions.find(search, limit)
        print_list(found, session_table(found), "No sessions.", options.output)
        return exits.OK

    return run(options, main)


def show_session(options: Options, session_id: str) -> int:
    """Show a session: its turns, which a rewind can name, its tasks, oldest first, and the messages of each.

    A session task, if there is one, comes first; each task then adds the messages that were not shown yet.
    """

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        found = await connection.sessions.get(session)
        infos = await connection.sessions.task_infos(session)
        tasks = await connection.sessions.tasks(session)
        if options.output != "text":
            print_json({**found, "tasks": tasks, "taskInfos": infos}, options.output)
            return exits.OK
        said = await connection.sessions.messages(session)
        print(f"session  {session}  {one_line(str(found.get('session', {}).get('name') or ''))}".rstrip())
        for line in turn_lines(turns(map(read_message, said))):
            print(line)
        if infos:
            print(f"\n{columns(info_table(read_session_tasks({'tasks': infos})))}")
        shown: set[str] = set()
        for task in map(read_task, tasks):
            print(f"\n{task_text(task, shown)}")
            shown |= {message.id for message in task.history}
        return exits.OK

    return run(options, main)


def rename_session(options: Options, session_id: str, title: str) -> int:
    """Change the title of a session, and show it."""

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        show_row(options, await connection.sessions.rename(session, title))
        return exits.OK

    return run(options, main)


def delete_session(options: Options, session_id: str, yes: bool) -> int:
    """Delete a session with its tasks. Without `yes` ask on a terminal, and refuse elsewhere."""
    if not yes and not sys.stdin.isatty():
        return report_error(nobody_to_ask(f"Session {session_id} was not deleted"), options.output)

    async def main(connection: Connection) -> int:
        session = await connection.session_id(session_id)
        if not yes:
            found = (await connection.sessions.get(session))["session"]
            tasks = len(await connection.sessions.task_infos(session, superseded=True))
            title = one_line(str(found.get("name") or session), 60)
            if not confirm(f'Delete "{title}" with {tasks} task{"" if tasks == 1 else "s"} permanently? [y/N] '):
                note("Nothing was deleted.")
                return exits.FAILED
        await connection.sessions.delete(session)
        if options.output == "text":
            note(f"Session {session} was deleted.")
        else:
            print_json({"id": session, "deleted": True}, options.output)
        return exits.OK

    return run(options, main)


def show_row(options: Options, session: dict[str, Any]) -> None:
    """Print a session after a change."""
    if options.output == "text":
        print(f"session  {session['id']}  {one_line(str(session.get('name') or ''))}".rstrip())
    else:
        print_json(session, options.output)
