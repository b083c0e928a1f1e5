"""The commands `taskplane ops` and their options."""

from typing import Annotated, Literal

import typer

from taskplane.cli.arguments import URL, Format, Limit, TaskId, TokenEnv, Url, Yes, filled
from taskplane.cli.options import Options

operations = typer.Typer(
    help="Show running, waiting and failed tasks of all owners, for operators.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@operations.callback()
def overview(context: typer.Context, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Show running, waiting and failed tasks, for operators. The commands below show the tasks of all owners."""
    if context.invoked_subcommand is None:
        from taskplane.cli.operations import show_overview

        raise typer.Exit(show_overview(Options(url, token_env, output)))


@operations.command("tasks")
def tasks(
    state: Annotated[
        Literal["submitted", "pending", "working", "paused", "completed", "failed", "rejected", "canceled", "cancelled"]
        | None,
        typer.Option(help="Only tasks in this state."),
    ] = None,
    agent: Annotated[str, typer.Option(metavar="NAME", callback=filled, help="Only tasks of this agent.")] = "",
    owner: Annotated[str, typer.Option(metavar="USER", callback=filled, help="Only tasks of this user.")] = "",
    executor: Annotated[
        str, typer.Option(metavar="ID", callback=filled, help="Only tasks that run in this process.")
    ] = "",
    failed: Annotated[bool, typer.Option("--failed", help="Only tasks that failed or were rejected.")] = False,
    limit: Limit = 50,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """List tasks, newest change of state first."""
    from taskplane.cli.operations import list_tasks

    filters = {
        # The printed names of these states differ from the names in the route.
        "state": {"submitted": "pending", "canceled": "cancelled"}.get(state or "", state or ""),
        "agent": agent,
        "owner": owner,
        "executor": executor,
        "error": "1" if failed else "",
    }
    raise typer.Exit(list_tasks(Options(url, token_env, output), limit, filters))


@operations.command("show")
def show(task_id: TaskId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Show a task with its log: attempts, fences and actors."""
    from taskplane.cli.operations import show_task

    raise typer.Exit(show_task(Options(url, token_env, output), task_id))


@operations.command("cancel")
def cancel(task_id: TaskId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """Cancel a task for its owner."""
    from taskplane.cli.operations import cancel_task

    raise typer.Exit(cancel_task(Options(url, token_env, output), task_id))


@operations.command("delete")
def delete(
    task_id: TaskId, yes: Yes = False, url: Url = URL, token_env: TokenEnv = "", output: Format = "text"
) -> None:
    """Delete a task of any owner with its log and its messages, and cancel it if it runs."""
    from taskplane.cli.operations import delete_task

    raise typer.Exit(delete_task(Options(url, token_env, output), task_id, yes))
