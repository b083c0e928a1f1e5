"""`taskplane card`: warnings about the card of an agent, on this server or any other server."""

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run, token_of
from taskplane.cli.options import Options, Output
from taskplane.cli.render import one_line, print_list
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.client.answers import members
from taskplane.client.failures import Failure, Missing
from taskplane.client.http import Http

# A2A 1.0 section 8.2, and the place that servers before 0.3 used.
_WELL_KNOWN: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json")


def check_card(options: Options) -> int:
    """List the warnings about the card of an agent; the exit code is 1 if there are any.

    The agent is a name, or the URL of any A2A server or of a card. A key goes to a URL only if `--token-env` is given.
    """
    if options.agent.startswith(("http://", "https://")):
        return _check_elsewhere(options)

    async def main(connection: Connection) -> int:
        return _print_warnings((await connection.described())["warnings"], options.output)

    return run(options, main)


def _check_elsewhere(options: Options) -> int:
    async def main() -> int:
        from taskplane.gateway.a2a.card_warnings import warnings
        from taskplane.gateway.a2a.foreign_card import as_1_0

        card = as_1_0(await _read(options.agent, token_of(options) if options.token_env else ""))
        url = urlsplit(options.agent)
        found = [
            {"code": one.code, "detail": one.detail, "message": one.message}
            for one in warnings(card, url.scheme, url.netloc)
        ]
        return _print_warnings(found, options.output)

    try:
        return run_and_flush(lambda: asyncio.run(main()), options.output)
    except Failure as failure:
        return report_error(failure, options.output)


async def _read(url: str, token: str) -> dict[str, Any]:
    """Return the card at a URL that ends with `.json`; for another URL, the card of the server at that URL."""
    url = url.rstrip("/")
    if urlsplit(url).path.endswith(".json"):
        async with Http(url, token=token) as http:
            return members(url, await http.json("GET", ""))
    async with Http(url, token=token) as http:
        for path in _WELL_KNOWN:
            try:
                return members(url, await http.json("GET", path))
            except Missing:
                continue
    raise Missing(
        f"{url} serves no agent card.",
        reason="NO_CARD",
        suggestion=f"Give the URL of the card itself; tried: {' and '.join(_WELL_KNOWN)}.",
    )


def _print_warnings(found: list[dict[str, Any]], output: Output) -> int:
    rows = [[str(one["code"]), one_line(str(one["message"]), 200)] for one in found]
    print_list(found, rows, "No warnings.", output)
    return exits.FAILED if found else exits.OK
