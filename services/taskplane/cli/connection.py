"""The connection of a command to a server, and the exit code for each outcome."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from taskplane.cli import exits
from taskplane.cli.client.a2a import A2AClient
from taskplane.cli.client.failures import BadUsage, Failure
from taskplane.cli.client.http import Http
from taskplane.cli.client.sessions_api import SessionsClient
from taskplane.cli.client.task_log import TaskLog
from taskplane.cli.options import Options
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.runtime.settings import environment


class Connection:
    """The clients of one server."""

    def __init__(self, http: Http, agent: str) -> None:
        """Create the clients, inside `async with` of `http`. `agent` receives the messages; empty: the default
        agent."""
        self._http = http
        self.a2a = self.agent(agent)
        self.log = TaskLog(http)
        self.sessions = SessionsClient(http)

    def agent(self, name: str) -> A2AClient:
        """Return a client of another agent of this server; empty: the default agent."""
        return A2AClient(self._http, agent=name)


@asynccontextmanager
async def connected(options: Options) -> AsyncGenerator[Connection]:
    """Open a connection according to the options. Raise BadUsage for a bad URL, or if the variable `token_env` is not
    set."""
    token = environment().get(options.token_env, "") if options.token_env else ""
    if options.token_env and not token:
        raise BadUsage(
            f"The variable {options.token_env} is not set.",
            code="NO_TOKEN",
            suggestion=f"export {options.token_env}=<your API key>",
        )
    async with Http(options.url, token=token) as http:
        yield Connection(http, options.agent)


def run(options: Options, command: Callable[[Connection], Awaitable[int]]) -> int:
    """Run `command` on a connection and return its exit code, or that of its failure."""

    async def main() -> int:
        async with connected(options) as connection:
            return await command(connection)

    try:
        return run_and_flush(lambda: asyncio.run(main()), options.output)
    except Failure as failure:
        return report_error(failure, options.output)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
