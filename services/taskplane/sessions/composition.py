"""Composition of the session history."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from taskplane.api.sessions.v1 import sessions_pb2_grpc as pb_grpc
from taskplane.runtime.services import Services
from taskplane.sessions.domain.commands import Write
from taskplane.sessions.servicer import SessionHistory
from taskplane.sessions.settings import SessionsSettings
from taskplane.sessions.sql import SqlSessionLog
from taskplane.sessions.watch import Watch, Watched, keys_of
from taskplane.storage import migrate
from taskplane.storage.bell import Bell
from taskplane.storage.engine import Engine, make_bell, open_engine


class SessionsService:
    """The open session history: its readiness and its end."""

    def __init__(self, engine: Engine, watched: Watched) -> None:
        self._engine = engine
        self.watched = watched

    async def ready(self) -> bool:
        """Return True if the database answers now, otherwise raise Unavailable."""
        await self._engine.probe()
        return True

    async def drain(self) -> None:
        """End every stream at a boundary; to be called before serving ends."""
        self.watched.drain()


@asynccontextmanager
async def open_sessions(settings: SessionsSettings, services: Services) -> AsyncGenerator[SessionsService, None]:
    """Upgrade the schema, open the database and add the service to `services`.

    `services` needs the lines of `servicer.POLICY`, and must have stopped serving when this ends. Errors as in
    `storage.engine.open_engine`. If a background task of the store dies, the body is cancelled and the error raised.
    """
    await migrate.upgrade(settings.database_url, "taskplane.sessions")
    async with (
        open_engine(
            settings.database_url, readers=settings.readers, writers=settings.writers, durability=settings.durability
        ) as engine,
        open_sessions_on(engine, settings, services) as service,
    ):
        yield service


@asynccontextmanager
async def open_sessions_on(
    engine: Engine, settings: SessionsSettings, services: Services
) -> AsyncGenerator[SessionsService, None]:
    """Do as `open_sessions`, over a database with an up-to-date schema; the caller closes the engine afterwards."""
    commits = _Commits()
    async with SqlSessionLog(engine, on_commit=commits.take) as log:
        watched = commits.to = Watched(log, poll_every=settings.poll_every)
        service = SessionHistory(log, Watch(log, watched))
        services.add(pb_grpc.add_SessionHistoryServicer_to_server, service)
        bell = make_bell(
            engine, settings.database_url, "sessions", watched.keys_notified, notifications=settings.notifications
        )
        commits.bell = None if engine.dialect.alone else bell
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(bell.run()), group.create_task(watched.run())]
            yield SessionsService(engine, watched)
            watched.drain()
            for task in beside:
                task.cancel()


class _Commits:
    """Passes each commit to the watchers, once these exist."""

    def __init__(self) -> None:
        self.to: Watched | None = None
        self.bell: Bell | None = None

    def take(self, writes: Sequence[Write]) -> None:
        if self.to is not None:
            self.to.committed(writes)
        if self.bell is not None:
            self.bell.ring(keys_of(writes))
