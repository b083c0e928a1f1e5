"""The session history as a process of its own."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.conformance.session_log import user

from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.runtime.channel import client, connect
from taskplane.runtime.errors import Invalid
from taskplane.runtime.principal import Principal
from taskplane.runtime.settings import load
from taskplane.sessions.settings import PREFIX, SessionsSettings

ANN = Principal("tenant", "ann", "user:ann")


def test_settings_come_from_the_environment_and_are_checked() -> None:
    settings = load(SessionsSettings, PREFIX, {"TASKPLANE_SESSIONS_READERS": "3"})
    assert (settings.readers, settings.listen) == (3, "127.0.0.1:50052")
    for environ in ({"TASKPLANE_SESSIONS_READERS": "0"}, {"TASKPLANE_SESSIONS_DRAIN_TIMEOUT": "0"}):
        with pytest.raises(Invalid) as refused:
            load(SessionsSettings, PREFIX, environ)
        assert refused.value.reason == "BAD_SETTING"


async def test_the_process_migrates_serves_and_ends_cleanly_and_the_next_one_has_it_all(tmp_path: Path) -> None:
    """C14: exit code 0; what was acknowledged is there after a restart."""
    address = f"unix:{tmp_path}/socket"
    environ = {
        **os.environ,
        "TASKPLANE_SESSIONS_DATABASE_URL": f"sqlite:///{tmp_path}/sessions.db",
        "TASKPLANE_SESSIONS_LISTEN": address,
        "TASKPLANE_SESSIONS_OPS_LISTEN": "127.0.0.1:0",
    }
    append = pb.AppendEntriesRequest(context_id="s", entries=[user("A")], create=pb.NewSession())
    stored: list[int] = []
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "taskplane.sessions", env=environ)
        async with connect(address) as channel:
            await asyncio.wait_for(channel.channel_ready(), 30.0)
            history = SessionHistoryStub(client(channel, identity=ANN))
            stored.append((await history.AppendEntries(append)).appended)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20.0) == 0
    assert stored == [1, 0]
