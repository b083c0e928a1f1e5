"""`taskplane card`: what is worth a warning in an agent's card."""

from typing import Any

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import one_line, print_list


def check_card(options: Options) -> int:
    """List the warnings about the card of an agent; the exit code is 1 if there are any."""

    async def main(connection: Connection) -> int:
        found: list[dict[str, Any]] = (await connection.a2a.described())["warnings"]
        rows = [[str(one["code"]), one_line(str(one["message"]), 200)] for one in found]
        print_list(found, rows, "No warnings.", options.output)
        return exits.FAILED if found else exits.OK

    return run(options, main)
