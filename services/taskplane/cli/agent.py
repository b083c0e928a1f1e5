"""`taskplane agent`: the agents of a server."""

from typing import Final

from taskplane.cli import exits
from taskplane.cli.connection import Connection, run
from taskplane.cli.options import Options
from taskplane.cli.render import one_line, print_list

# The web page shows the same commands.
_NONE: Final = """\
This server lists no agents. If it requires an API key, set TASKPLANE_TOKEN. If it has no agent, start an executor with
one, on the host of its other services and with their settings:

  taskplane init my-agent
  cd my-agent
  TASKPLANE_EXECUTOR_AGENTS=agent:MyAgent taskplane serve executor"""


def list_agents(options: Options) -> int:
    """List the agents of the caller, the default one first."""

    async def main(connection: Connection) -> int:
        found = await connection.agents()
        rows = [
            [str(one["name"]), "default" if one.get("isDefault") else "", one_line(str(one.get("description") or ""))]
            for one in found
        ]
        print_list(found, rows, _NONE, options.output)
        return exits.OK

    return run(options, main)
