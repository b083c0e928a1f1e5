"""The commands of `taskplane artifact`."""

from typing import Annotated

import typer

from taskplane.cli.arguments import URL, Format, TargetFile, TaskId, TokenEnv, Url
from taskplane.cli.options import Options

artifact = typer.Typer(help="List and save artifacts.", no_args_is_help=True, rich_markup_mode=None)


@artifact.command("list")
def list_command(task_id: TaskId, url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """List the artifacts of a task."""
    from taskplane.cli.artifact import list_artifacts

    raise typer.Exit(list_artifacts(Options(url, token_env, output), task_id))


@artifact.command("get")
def get(
    task_id: TaskId,
    name: Annotated[
        str, typer.Argument(metavar="[ARTIFACT]", help="Id or name of the artifact; optional if the task has only one.")
    ] = "",
    file: TargetFile = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact, counted from 1; default: the newest.")
    ] = None,
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """Save an artifact."""
    from taskplane.cli.artifact import get_artifact

    raise typer.Exit(get_artifact(Options(url, token_env, output), task_id, name, file, version or 0))
