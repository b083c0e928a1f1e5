"""The client of one server: its agents, tasks, sessions and artifacts."""

from types import TracebackType
from typing import Self

from taskplane.client.a2a import A2AClient
from taskplane.client.artifacts import Artifacts
from taskplane.client.http import Http
from taskplane.client.operations import Operations
from taskplane.client.pauses import GIVE_UP_AFTER
from taskplane.client.sessions import Sessions
from taskplane.client.task_log import TaskLog


class Client(A2AClient):
    """A client of one server and of one agent there: `async with Client(url) as client`.

    Sends, streams and resumes go to the agent; `agent(name)` is a client of another one. `sessions`, `artifacts`, `log`
    and `operations` are the other routes of the server. Everything raises `Failure` only. The calls of one client may
    run at the same time, in one event loop; leaving `async with` closes their connections.
    """

    def __init__(
        self,
        url: str,
        *,
        agent: str = "",
        token: str = "",
        user: str = "",
        growing_text: bool = False,
        give_up_after: float = GIVE_UP_AFTER,
    ) -> None:
        """Create a client of the server at `url`; nothing is sent yet.

        `agent`: the name of the agent; empty: the server's default agent. `token`: the API key, sent to this server
        only. `user`: the name of the caller, for a server on loopback without keys. `growing_text`: streams have the
        pieces of a text while it grows as well, in messages that are `partial`. `give_up_after`: seconds for which a
        call or a stream is tried without any success; a server that was never reached is tried once. Raise BadUsage
        `BAD_URL`.
        """
        self.http = Http(url, token=token, user=user)
        super().__init__(self.http, agent=agent, growing_text=growing_text, give_up_after=give_up_after)
        self.sessions = Sessions(self.http, give_up_after=give_up_after)
        self.artifacts = Artifacts(self.http)
        self.log = TaskLog(self.http, give_up_after=give_up_after)
        self.operations = Operations(self.http)

    async def __aenter__(self) -> Self:
        await self.http.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.http.__aexit__(kind, error, trace)

    def agent(self, name: str) -> A2AClient:
        """Return a client of another agent of this server, on the same connections; empty: the default agent."""
        return A2AClient(self.http, agent=name, growing_text=self.growing_text, give_up_after=self.give_up_after)
