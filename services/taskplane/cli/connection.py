"""The connection of a command to a server, and the exit code for each outcome."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from taskplane.cli import exits
from taskplane.cli.options import Options
from taskplane.cli.render import CUT
from taskplane.cli.report import report_error
from taskplane.cli.stdout import run_and_flush
from taskplane.client.client import Client
from taskplane.client.failures import BadUsage, Declined, Failure
from taskplane.runtime.settings import environment

TOKEN: Final = "TASKPLANE_TOKEN"
"""The environment variable with the API key, for commands that call a server."""
# An id of this length is complete, since the server makes ids of this length. A shorter one may be the id of a client,
# or a shortened id.
_WHOLE: Final = 32
# The number of newest ids that a shortened id is compared with.
_NEWEST: Final = 1_000


class Connection(Client):
    """A client of one server that completes shortened ids."""

    async def task_id(self, given: str) -> str:
        """Complete a shortened task id from the newest tasks. Return `given` if it is an id itself, or if no id begins
        with it.

        Declined `AMBIGUOUS`: several ids begin with it.
        """
        given = given.rstrip(CUT)
        if len(given) >= _WHOLE:
            return given
        return _completed(given, [task.id async for task in self.tasks(_NEWEST, historyLength=0)])

    async def any_owner_task_id(self, given: str) -> str:
        """Complete a shortened task id as `task_id` does, from the newest tasks of all owners. For operators."""
        given = given.rstrip(CUT)
        if len(given) >= _WHOLE:
            return given
        return _completed(given, [str(task["taskId"]) async for task in self.operations.tasks(_NEWEST, {})])

    async def session_id(self, given: str) -> str:
        """Complete a shortened session id from the newest sessions. Return `given` if it is an id itself, or if no id
        begins with it.

        Declined `AMBIGUOUS`: several ids begin with it.
        """
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
            f"{len(found)} ids begin with {given}.", reason="AMBIGUOUS", suggestion="Give more characters of the id."
        )
    return found[0]


@asynccontextmanager
async def connected(options: Options) -> AsyncGenerator[Connection]:
    """Open a connection according to the options. Raise BadUsage for a bad URL, or if the environment variable that the
    option `token_env` names is not set. Without this option the API key is read from `TASKPLANE_TOKEN`, if set."""
    token = token_of(options)
    async with Connection(options.url, agent=options.agent, token=token, growing_text=True) as connection:
        yield connection


def token_of(options: Options) -> str:
    """Return the API key for a server, or "". Raise BadUsage if the environment variable that `token_env` names is not
    set."""
    token = environment().get(options.token_env or TOKEN, "")
    if options.token_env and not token:
        raise BadUsage(
            f"The variable {options.token_env} is not set.",
            reason="NO_TOKEN",
            suggestion=f"export {options.token_env}=<your API key>",
        )
    return token


def run(options: Options, command: Callable[[Connection], Awaitable[int]]) -> int:
    """Run `command` on a connection; return its exit code, or the exit code of its failure."""

    async def main() -> int:
        async with connected(options) as connection:
            return await command(connection)

    try:
        return run_and_flush(lambda: asyncio.run(main()), options.output)
    except Failure as failure:
        return report_error(failure, options.output)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
