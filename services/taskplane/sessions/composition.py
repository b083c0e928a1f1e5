"""Puts the parts of the session history together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from taskplane.api.sessions.v1 import sessions_pb2_grpc as pb_grpc
from taskplane.runtime.server import Services
from taskplane.sessions.servicer import SessionHistory
from taskplane.sessions.settings import SessionsSettings
from taskplane.sessions.sql import SqlSessionLog
from taskplane.storage import migrate
from taskplane.storage.engine import Engine, open_engine


class SessionsRoom:
    """The session history, open: whether it can work just now."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ready(self) -> bool:
        """Whether the database can be worked with just now. Unavailable if not."""
        await self._engine.probe()
        return True


@asynccontextmanager
async def open_sessions(settings: SessionsSettings, services: Services) -> AsyncGenerator[SessionsRoom, None]:
    """Brings the schema up to date, opens the database and adds the service to `services`.

    `services` needs the lines of `servicer.POLICY`, and must serve no more when this is left. Errors as in
    `storage.engine.open_engine`.
    """
    await migrate.upgrade(settings.database_url, "taskplane.sessions")
    async with (
        open_engine(settings.database_url, readers=settings.readers, durability=settings.durability) as engine,
        SqlSessionLog(engine) as log,
    ):
        pb_grpc.add_SessionHistoryServicer_to_server(SessionHistory(log), services)
        yield SessionsRoom(engine)
