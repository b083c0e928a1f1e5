"""Composition of the task store."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from taskplane.api.tasks.v1 import tasks_pb2_grpc as pb_grpc
from taskplane.runtime.failpoints import afp, fp
from taskplane.runtime.pacing import Pacer
from taskplane.runtime.services import Services
from taskplane.storage.bell import Bell
from taskplane.storage.engine import LONGEST_IDLE, Engine, make_bell, open_engine
from taskplane.tasks import session_wire, wire
from taskplane.tasks.artifacts import ArtifactReader
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.commands import QueueLimits
from taskplane.tasks.lifecycle import Lifecycle
from taskplane.tasks.operations import TaskOperations
from taskplane.tasks.queue import Claims, Leases, Sweeper
from taskplane.tasks.rings import keys_of, read
from taskplane.tasks.sampling import Sampler
from taskplane.tasks.servicer import TaskQueue, TaskStore
from taskplane.tasks.settings import TasksSettings
from taskplane.tasks.sql import SqlTaskLog
from taskplane.tasks.trimming import Trimmer
from taskplane.tasks.uncopied import Uncopied
from taskplane.tasks.watch import EventCache, SessionStreams, Watch, Watched
from taskplane.tasks.wire import Wire

# Seconds in which connected executors learn of a drain.
DRAIN_NOTICE: Final = 1.0


class TasksService:
    """The open task store: its services, its readiness and its end."""

    def __init__(
        self,
        engine: Engine,
        store: TaskStore,
        queue: TaskQueue,
        operations: TaskOperations,
        claims: Claims,
        watched: Watched,
    ) -> None:
        self._engine = engine
        self._store = store
        self._queue = queue
        self._operations = operations
        self.claims = claims
        self.watched = watched

    def register(self, services: Services) -> None:
        """Add the services to `services`, which needs the lines of `servicer.POLICY`."""
        services.add(pb_grpc.add_TaskStoreServicer_to_server, self._store)
        services.add(pb_grpc.add_TaskQueueServicer_to_server, self._queue)
        services.add(pb_grpc.add_TaskOperationsServicer_to_server, self._operations)

    async def ready(self) -> bool:
        """Return True if the database answers now, otherwise raise Unavailable."""
        await self._engine.probe()
        return True

    async def drain(self) -> None:
        """End every stream at a boundary, before serving ends; executors have a second to learn of it."""
        await afp("drain.mid")
        self.watched.drain()
        await self.claims.drain(DRAIN_NOTICE)


def open_database(settings: TasksSettings) -> AbstractAsyncContextManager[Engine]:
    """Open the database of the task store; see `open_engine`.

    A process that stops inside a transaction holds the rows of leases until the server ends it: soon enough for two
    renewals after that.
    """
    return open_engine(
        settings.database_url,
        readers=settings.readers,
        writers=settings.writers,
        durability=settings.durability,
        idle_timeout=min(LONGEST_IDLE, settings.lease_ttl / 3),
    )


@asynccontextmanager
async def open_tasks(
    settings: TasksSettings, engine: Engine, *, resident: str | None = None, pacer: Pacer | None = None
) -> AsyncGenerator[TasksService, None]:
    """Open the task store over a database with an up-to-date schema; the caller closes the engine afterwards.

    `resident`: the process id of the executor in this process (it begins with `queue.RESIDENT`); it is used only if
    this store is alone on its database, that is on SQLite. `pacer`: that of the services of this process, for watches
    that catch up. If a background task of the store dies, the body is cancelled and the error raised.
    """
    alone = engine.dialect.name == "sqlite"
    commits = _Commits()
    async with SqlTaskLog(engine, on_commit=commits.take) as log:
        records = Wire(await log.epoch())
        cache = EventCache(wire.event)
        watched = Watched(log, poll_every=settings.poll_every)
        watch = Watch(log, cache, watched, records, pacer or Pacer(), alone=alone)
        following = SessionStreams(watched, session_wire.info, alone=alone)
        leases = Leases(log, ttl=settings.lease_ttl, resident=resident if alone else None)
        claims = Claims(
            log,
            leases,
            records,
            poll_every=settings.poll_every,
            keepalive=min(5.0, settings.renew_every),
        )
        sweeper = Sweeper(log, leases, every=settings.sweep_every)
        trimmer = Trimmer(log, ttl=settings.events_ttl, every=settings.trim_every)
        uncopied = Uncopied(log, alone=alone)
        commits.to = (cache, uncopied, claims, watched, Lifecycle())
        bell = make_bell(engine, settings.database_url, "tasks", commits.notified, notifications=settings.notifications)
        commits.bell = None if alone else bell
        await uncopied.load()
        await claims.load()
        if alone:
            await leases.adopt()
        store = TaskStore(
            log,
            records,
            cache=cache,
            watch=watch,
            following=following,
            leases=leases,
            uncopied=uncopied,
            trimmer=trimmer,
            artifacts=ArtifactReader(log),
            queue_limits=QueueLimits(settings.queued_per_owner, settings.queued_per_tenant),
            queue_limit=settings.queue_limit,
            pause_limit=settings.pause_limit,
        )
        operations = TaskOperations(log, records, lease_ttl=settings.lease_ttl)
        service = TasksService(engine, store, TaskQueue(claims, leases), operations, claims, watched)
        sampler = Sampler(log)
        async with _beside(bell.run(), watched.run(), claims.run(), sweeper.run(), trimmer.run(), sampler.run()):
            yield service


class _Commits:
    """Passes each commit to the parts of the store, in their order: the cache before the watchers that read it."""

    def __init__(self) -> None:
        self.to: tuple[EventCache, Uncopied, Claims, Watched, Lifecycle] | tuple[()] = ()
        self.bell: Bell | None = None

    def notified(self, keys: Set[str] | None) -> None:
        """Wake the parts of the store that wait for changes of other processes; None: any change."""
        changed = None if keys is None else read(keys)
        for part in self.to[2:4]:
            part.notified(changed)

    def take(self, commit: Committed) -> None:
        fp("fanout.before_publish")
        for part in self.to:
            part.committed(commit)
        if self.bell is not None:
            self.bell.ring(keys_of(commit))


@asynccontextmanager
async def _beside(*runs: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """Run coroutines beside the body and cancel them after it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run) for run in runs]
        yield
        for task in tasks:
            task.cancel()
