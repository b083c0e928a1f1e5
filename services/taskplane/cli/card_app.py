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
            help="The name of an agent, or the URL of any A2A server; the default agent if not given.",
        ),
    ] = "",
    url: Url = URL,
    token_env: TokenEnv = "",
    output: Format = "text",
) -> None:
    """List what is worth a warning in the card of an agent, and exit with 1 if anything is."""
    from taskplane.cli.card import check_card

    raise typer.Exit(check_card(Options(url, token_env, output, agent)))
