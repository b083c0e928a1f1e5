"""Two services over one PostgreSQL database: what one writes, those who watch at the other are told."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from tests.conformance.session_log import user
from tests.sessions.test_servicer import ANN, append
from tests.support.databases import SESSIONS, copied
from tests.support.postgres import Cluster

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.runtime.channel import InProcessChannel, client
from taskplane.runtime.services import Services
from taskplane.sessions.composition import open_sessions
from taskplane.sessions.servicer import POLICY
from taskplane.sessions.settings import SessionsSettings


@asynccontextmanager
async def served(url: str, poll_every: float, *, notifications: bool) -> AsyncGenerator[SessionHistoryStub, None]:
    """The service as a process has it."""
    services = Services(policy=POLICY)
    settings = SessionsSettings(database_url=url, poll_every=poll_every, notifications=notifications)
    async with open_sessions(settings, services), InProcessChannel(services) as channel:
        yield SessionHistoryStub(client(channel, identity=ANN))


@pytest.mark.parametrize(("notifications", "poll_every"), [(True, 3600.0), (False, 0.05)], ids=["bell", "poll"])
async def test_writes_and_deletions_at_one_service_reach_watchers_at_the_other(
    cluster: Cluster, notifications: bool, poll_every: float
) -> None:
    """C3 for sessions: at once by notifications, without them at the pace of the poll."""
    async with (
        copied(cluster, SESSIONS) as url,
        served(url, poll_every, notifications=notifications) as here,
        served(url, poll_every, notifications=notifications) as there,
        asyncio.timeout(60.0),
    ):
        await here.CreateSession(pb.CreateSessionRequest(context_id="s"))
        call = there.WatchEntries(pb.WatchEntriesRequest(context_id="s"))
        stream = cast("AsyncIterator[pb.WatchEntriesResponse]", call)
        assert (await anext(stream)).HasField("session")
        # The first may be found when the bell begins to ring.
        for turn in ("A", "B", "C"):
            await here.AppendEntries(append("s", user(turn)))
            while not (told := await anext(stream)).HasField("entries"):
                assert told.HasField("quiet")
            assert [entry.id for entry in told.entries.entries] == [turn]
        await here.DeleteSession(pb.DeleteSessionRequest(context_id="s"))
        while not (told := await anext(stream)).HasField("deleted"):
            assert told.HasField("quiet")
