"""`taskplane session`: list and show sessions."""

import sys

from taskplane.cli import exits
from taskplane.cli.client.events import read_task
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import columns, dump, one_line
from taskplane.cli.task import task_text


def list_sessions(options: Options) -> int:
    """The caller's sessions, newest update first."""

    async def main(connection: Connection) -> int:
        found = await connection.plane.sessions()
        if options.output == "json":
            print(dump(found, indent=True))
        elif options.output == "ndjson":
            print("".join(f"{dump(session, indent=False)}\n" for session in found), end="")
        elif found:
            rows = [["SESSION", "UPDATED", "AGENT", "TITLE"]]
            for session in found:
                updated = str(session.get("updated_at") or "")[:19].replace("T", " ")
                agent, title = str(session.get("agent_id") or ""), str(session.get("name") or "")
                rows.append([str(session["id"]), updated, agent, one_line(title, 60)])
            print(columns(rows))
        else:
            print("No sessions.", file=sys.stderr)
        return exits.OK

    return run(options, main)


def show_session(options: Options, session_id: str) -> int:
    """One session and its tasks, oldest first."""

    async def main(connection: Connection) -> int:
        found = await connection.plane.session(session_id)
        tasks = await connection.plane.session_tasks(session_id)
        if options.output == "text":
            session = found.get("session", {})
            print(f"session  {session_id}  {session.get('name') or ''}".rstrip())
            for task in tasks:
                print(f"\n{task_text(read_task(task))}")
        else:
            print(dump({**found, "tasks": tasks}, indent=options.output == "json"))
        return exits.OK

    return run(options, main)
