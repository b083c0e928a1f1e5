"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from taskplane.cli.options import Output


def filled(context: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Refuse an empty argument, which is usually a script's variable that is not set."""
    given = context.get_parameter_source(param.name or "")
    if given is not None and given.name == "COMMANDLINE" and not value:
        raise typer.BadParameter("must not be empty.")
    return value


Url = Annotated[str, typer.Option("--url", envvar="TASKPLANE_URL", metavar="URL", help="URL of the server.")]
TokenEnv = Annotated[
    str,
    typer.Option(
        "--token-env", metavar="NAME", help="Environment variable with the API key; default: TASKPLANE_TOKEN."
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="Format of the results.")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of results.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", callback=filled)]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", callback=filled)]
TargetFile = Annotated[
    Path | None, typer.Option("--file", "-O", metavar="FILE", help="Output file, instead of stdout.")
]
Grpc = Annotated[str, typer.Option("--grpc", metavar="HOST:PORT", help="The gRPC address of the plane.")]

GRPC = "127.0.0.1:50050"
URL = "http://127.0.0.1:8080"
AGENT = "[NAME=]AGENT[@thread|@process]"
