"""The commands and their options. The modules that implement the commands are imported when a command is called."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from taskplane.cli.agent_app import agent as agent_group
from taskplane.cli.arguments import AGENT, GRPC, URL, Format, Grpc, Limit, TaskId, TokenEnv, Url, Yes, filled
from taskplane.cli.artifact_app import artifact as artifact_group
from taskplane.cli.card_app import card as card_group
from taskplane.cli.operations_app import operations as operations_group
from taskplane.cli.options import Options
from taskplane.cli.session_app import session as session_group

app = typer.Typer(
    help="The durable task and session plane for A2A agents.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)
task = typer.Typer(help="List, get and cancel tasks.", no_args_is_help=True, rich_markup_mode=None)
user = typer.Typer(help="Users of the plane, for its operator.", no_args_is_help=True, rich_markup_mode=None)
key = typer.Typer(help="Manage API keys.", no_args_is_help=True, rich_markup_mode=None)
serve = typer.Typer(help="Run one process of the plane.", no_args_is_help=True, rich_markup_mode=None)


def _version(wanted: bool) -> None:
    if wanted:
        from taskplane.cli.version import versions

        typer.echo(versions())
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Versions of all parts.")
    ] = False,
) -> None:
    """Run the durable task and session plane for A2A agents."""


@app.command()
def dev(
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar=AGENT,
            help="An agent to serve; the first one is the default. MODULE:ATTRIBUTE, demo, llm, NAME=URL for an"
            " agent on another A2A server, or NAME=worker:CARD.json for an agent that workers run.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTP port; 0: any free port.")] = 8080,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="gRPC port; 0: any free port.")] = 50050,
    data: Annotated[Path | None, typer.Option(help="Folder of the SQLite files; default: ./.taskplane.")] = None,
    database_url: Annotated[
        str, typer.Option(metavar="URL", help="URL of a PostgreSQL database, instead of --data.")
    ] = "",
    client_task_ids: Annotated[
        Literal["reject", "create"] | None,
        typer.Option(help="create: if a 0.3 client sends an unknown task id, create a task with that id."),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Reload the agents after a change of their files; running tasks continue.")
    ] = False,
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the web page in a browser (on a terminal only)."),
    ] = True,
) -> None:
    """Run the whole plane in this process."""
    from taskplane.cli.dev import DevOptions
    from taskplane.cli.dev import dev as command

    options = DevOptions(
        tuple(agent or ()), host, port, grpc_port, data, database_url, client_task_ids, reload, browser
    )
    raise typer.Exit(command(options))


@app.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to create; its name becomes the name of the agent.")
    ] = Path("."),
) -> None:
    """Write a small agent with its test into a folder, and print the next steps."""
    from taskplane.cli.init import init as command

    raise typer.Exit(command(folder))


@app.command()
def doctor(
    agent: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            callback=filled,
            help="The agent that gets one test message; default: demo, if the plane has it.",
        ),
    ] = "",
    grpc: Grpc = GRPC,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Check this installation and a plane: versions, page, ports, health, clock, card, and one message with a stream
    that is broken on purpose and resumed. The exit code is 1 if a check failed."""
    from taskplane.cli.doctor import doctor as command

    raise typer.Exit(command(Options(url, token_env, output, agent), grpc))


@app.command()
def worker(
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar=AGENT,
            help="An agent to run, under the name that it has at its executor. MODULE:ATTRIBUTE, demo, llm, or"
            " NAME=URL for an agent on another A2A server.",
        ),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of the task store, or the gRPC port of `taskplane dev`."),
    ] = None,
    sessions: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of the session history, or the gRPC port of `taskplane dev`."),
    ] = None,
    capacity: Annotated[int | None, typer.Option(min=1, help="Maximum number of runs at once; default: 100.")] = None,
) -> None:
    """Run agents for an executor that serves their cards (--agent NAME=worker:CARD.json). Settings:
    TASKPLANE_WORKER_*."""
    from taskplane.cli.worker import WorkerOptions
    from taskplane.cli.worker import worker as command

    raise typer.Exit(command(WorkerOptions(tuple(agent or ()), tasks, sessions, capacity)))


@app.command()
def chat(
    message: Annotated[
        str,
        typer.Option(
            "--message", "-m", metavar="TEXT", callback=filled, help="Send one message and exit, for scripts."
        ),
    ] = "",
    session: Annotated[str, typer.Option(metavar="ID", callback=filled, help="Session to continue.")] = "",
    agent: Annotated[
        str, typer.Option(metavar="NAME", callback=filled, help="Agent to talk with; default: the default agent.")
    ] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Talk with an agent. Ctrl-C cancels the task; a second Ctrl-C leaves. /help lists the commands."""
    from taskplane.cli.prompt import chat as command

    raise typer.Exit(command(Options(url, token_env, output, agent), message, session))


@app.command()
def tail(
    task_id: Annotated[str, typer.Argument(metavar="[TASK]", callback=filled)] = "",
    session: Annotated[
        str, typer.Option(metavar="ID", callback=filled, help="Follow a session instead of a task.")
    ] = "",
    after: Annotated[str, typer.Option(metavar="CURSOR", help="Show only events after this cursor.")] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Follow the log of a task until it has ended, or a session until it is deleted, across broken connections."""
    from taskplane.cli.tail import tail as command

    raise typer.Exit(command(Options(url, token_env, output), task_id, session, after))


@task.command("list")
def task_list(
    session: Annotated[str, typer.Option(metavar="ID", callback=filled, help="Only tasks of this session.")] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", callback=filled, help="Only tasks in this state, such as working.")
    ] = "",
    limit: Limit = 50,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """List your tasks, newest change first."""
    from taskplane.cli.task import list_tasks

    raise typer.Exit(list_tasks(Options(url, token_env, output), session, state, limit))


@task.command("get")
def task_get(task_id: TaskId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Show a task."""
    from taskplane.cli.task import get_task

    raise typer.Exit(get_task(Options(url, token_env, output), task_id))


@task.command("cancel")
def task_cancel(task_id: TaskId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Cancel a task."""
    from taskplane.cli.task import cancel_task

    raise typer.Exit(cancel_task(Options(url, token_env, output), task_id))


def _serve(service: str) -> None:
    from taskplane.cli.serve import serve as command

    raise typer.Exit(command(service))


@serve.command("tasks")
def serve_tasks() -> None:
    """Run the task store. Settings: TASKPLANE_TASKS_*."""
    _serve("tasks")


@serve.command("sessions")
def serve_sessions() -> None:
    """Run the session history. Settings: TASKPLANE_SESSIONS_*."""
    _serve("sessions")


@serve.command("executor")
def serve_executor() -> None:
    """Run the agent executor. Settings: TASKPLANE_EXECUTOR_*."""
    _serve("executor")


@serve.command("gateway")
def serve_gateway() -> None:
    """Run the gateway. Settings: TASKPLANE_GATEWAY_*."""
    _serve("gateway")


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the counts without deleting anything.")] = False,
    grpc: Grpc = GRPC,
    output: Format = "text",
) -> None:
    """Trim the logs of document tasks, and of tasks that ended longer ago than TASKPLANE_TASKS_EVENTS_TTL of the task
    store."""
    from taskplane.cli.retention import collect

    raise typer.Exit(collect(grpc, dry_run, output))


@user.command("erase")
def user_erase(
    name: Annotated[str, typer.Argument(metavar="USER", callback=filled)],
    yes: Yes = False,
    tenant: Annotated[str, typer.Option(metavar="NAME", callback=filled, help="The tenant of the user.")] = "default",
    grpc: Grpc = GRPC,
    output: Format = "text",
) -> None:
    """Delete all sessions, tasks and state of a user, and cancel running tasks."""
    from taskplane.cli.retention import erase

    raise typer.Exit(erase(grpc, tenant, name, yes, output))


@key.callback()
def _keys() -> None:
    """Manage API keys."""


@key.command("create")
def key_create(
    owner: Annotated[str, typer.Argument(metavar="USER", callback=filled, help="The user of the key.")],
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="The key file named by TASKPLANE_GATEWAY_API_KEYS.")
    ] = Path("keys.toml"),
    key_id: Annotated[
        str, typer.Option("--id", metavar="ID", callback=filled, help="Id of the key; default: a new one.")
    ] = "",
    tenant: Annotated[str, typer.Option(metavar="NAME", callback=filled, help="The tenant of the user.")] = "default",
    scope: Annotated[
        list[str] | None, typer.Option(metavar="SCOPE", help="read, write or operate; default: read and write.")
    ] = None,
    days: Annotated[int, typer.Option(min=0, max=36500, help="Lifetime of the key in days; 0: unlimited.")] = 0,
    output: Format = "text",
) -> None:
    """Add an API key to the file of a gateway, and print it once."""
    from taskplane.cli.key import create_key

    raise typer.Exit(create_key(file, owner, key_id, tenant, scope or ["read", "write"], days, output))


@user.callback()
def _users() -> None:
    """Manage users of the plane, as its operator."""


app.add_typer(user, name="user")
app.add_typer(key, name="key")
app.add_typer(agent_group, name="agent")
app.add_typer(serve, name="serve")
app.add_typer(task, name="task")
app.add_typer(session_group, name="session")
app.add_typer(artifact_group, name="artifact")
app.add_typer(card_group, name="card")
app.add_typer(operations_group, name="ops")
