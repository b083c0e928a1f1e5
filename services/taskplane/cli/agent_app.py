"""The commands of `taskplane agent`."""

import typer

from taskplane.cli.arguments import URL, Format, TokenEnv, Url
from taskplane.cli.options import Options

agent = typer.Typer(help="List agents.", no_args_is_help=True, rich_markup_mode=None)


@agent.callback()
def group() -> None:
    """List agents."""


@agent.command("list")
def list_command(url: Url = URL, token_env: TokenEnv = "", output: Format = "text") -> None:
    """List the agents of the server, the default one first."""
    from taskplane.cli.agent import list_agents

    raise typer.Exit(list_agents(Options(url, token_env, output)))
