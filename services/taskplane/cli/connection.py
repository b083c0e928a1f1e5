"""The connection of a command to a server, and the exit code for each outcome."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from taskplane.cli import exits
from taskplane.cli.client.a2a import A2AClient
from taskplane.cli.client.artifacts_api import ArtifactsClient
from taskplane.cli.client.failures import BadUsage, Declined, Failure
from taskplane.cli.client.http import Http
from taskplane.cli.client.operations_api import OperationsClient
from taskplane.cli.client.sessions_api import SessionsClient
from taskplane.cli.client.task_log import TaskLog
from taskplane.cli.options import Options
from taskplane.cli.render import CUT
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.runtime.settings import environment

TOKEN: Final = "TASKPLANE_TOKEN"
"""The variable with the API key of every command that talks to a server."""
# An id of this length is whole; clients may make shorter ones.
_WHOLE: Final = 32
# The number of ids among which the beginning of one is looked for.
_NEWEST: Final = 1_000


class Connection:
    """The clients of one server."""

    def __init__(self, http: Http, agent: str) -> None:
        """Create the clients, inside `async with` of `http`. `agent` receives the messages; empty: the default
        agent."""
        self.http = http
        self.a2a = self.agent(agent)
        self.log = TaskLog(http)
        self.sessions = SessionsClient(http)
        self.artifacts = ArtifactsClient(http)
        self.operations = OperationsClient(http)

    def agent(self, name: str) -> A2AClient:
        """Return a client of another agent of this server; empty: the default agent."""
        return A2AClient(self.http, agent=name)

    async def task_id(self, given: str) -> str:
        """Return the id of one of the newest tasks that begins with `given`; `given` itself if none does. Raise
        Declined `AMBIGUOUS`."""
        given = given.rstrip(CUT)
        if len(given) >= _WHOLE:
            return given
        return _completed(given, [str(task["id"]) async for task in self.a2a.tasks(_NEWEST, historyLength=0)])

    async def operated_id(self, given: str) -> str:
        """Return the same of the newest tasks of all owners, for operators."""
        given = given.rstrip(CUT)
        if len(given) >= _WHOLE:
            return given
        return _completed(given, [str(task["taskId"]) async for task in self.operations.tasks(_NEWEST, {})])

    async def session_id(self, given: str) -> str:
        """Return the id of one of the newest sessions that begins with `given`; `given` itself if none does. Raise
        Declined `AMBIGUOUS`."""
        given = given.rstrip(CUT)
        if not given or len(given) >= _WHOLE:
            return given
        return _completed(given, [str(session["id"]) for session in await self.sessions.find(limit=_NEWEST)])


def _completed(given: str, known: Sequence[str]) -> str:
    found = [one for one in known if one.startswith(given)]
    if given in found or not found:
        return given
    if len(found) > 1:
        raise Declined(
            f"{len(found)} ids begin with {given}.", code="AMBIGUOUS", suggestion="Give more characters of the id."
        )
    return found[0]


@asynccontextmanager
async def connected(options: Options) -> AsyncGenerator[Connection]:
    """Open a connection according to the options. Raise BadUsage for a bad URL, or if the variable `token_env` is not
    set. Without one, `TASKPLANE_TOKEN` holds the API key, if it is set."""
    async with Http(options.url, token=token_of(options)) as http:
        yield Connection(http, options.agent)


def token_of(options: Options) -> str:
    """Return the API key for a server; empty if there is none. Raise BadUsage if the variable `token_env` is not
    set."""
    token = environment().get(options.token_env or TOKEN, "")
    if options.token_env and not token:
        raise BadUsage(
            f"The variable {options.token_env} is not set.",
            code="NO_TOKEN",
            suggestion=f"export {options.token_env}=<your API key>",
        )
    return token


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
