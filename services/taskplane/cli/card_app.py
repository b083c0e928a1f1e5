"""The commands of `taskplane card`."""

from typing import Annotated

import typer

from taskplane.cli.arguments import URL, Format, TokenEnv, Url, filled
from taskplane.cli.options import Options

card = typer.Typer(help="Check the cards of agents.", no_args_is_help=True, rich_markup_mode=None)


@card.callback()
def group() -> None:
    """Check the cards of agents."""


@card.command("check")
def check(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="[AGENT|URL]",
            callback=filled,
            help="Name of an agent, or URL of any A2A server; default: the default agent.",
        ),
    ] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """List the warnings for the card of an agent. The exit code is 1 if there are any."""
    from taskplane.cli.card import check_card

    raise typer.Exit(check_card(Options(url, token_env, output, agent)))
