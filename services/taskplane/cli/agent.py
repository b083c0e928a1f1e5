"""`taskplane agent`: the agents of a server."""

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import one_line, print_list


def list_agents(options: Options) -> int:
    """List the agents that the caller may talk with, the default one first."""

    async def main(connection: Connection) -> int:
        found = await connection.a2a.agents()
        rows = [
            [str(one["name"]), "default" if one.get("isDefault") else "", one_line(str(one.get("description") or ""))]
            for one in found
        ]
        print_list(found, rows, "This server serves no agent.", options.output)
        return exits.OK

    return run(options, main)
