"""Composition of the executor's parts."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import grpc

from taskplane.agents.loading import Agents, load_agents
from taskplane.agents.processes.pool import AgentProcesses
from taskplane.api.executor.v1 import executor_pb2_grpc
from taskplane.api.sessions.v1.sessions_pb2_grpc import SessionHistoryStub
from taskplane.api.tasks.v1.tasks_pb2 import RenewRequest
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub, TaskStoreStub
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.runs.answer_timeout import AnswerTimeout
from taskplane.executor.runs.appender import Appender
from taskplane.executor.runs.blocking import noticing_blocks
from taskplane.executor.runs.given_ids import SessionsAtWork
from taskplane.executor.runs.held_leases import HeldLeases
from taskplane.executor.runs.ports import Ports
from taskplane.executor.runs.registry import Runs
from taskplane.executor.servicer import AgentExecutor
from taskplane.executor.session_log import SessionLog
from taskplane.executor.settings import ExecutorSettings
from taskplane.executor.sweeps.abandoned import Abandoned
from taskplane.executor.sweeps.copying import Copier
from taskplane.executor.sweeps.expiry import Expiry
from taskplane.executor.sweeps.imports import Imports
from taskplane.executor.sweeps.reconcile import Reconciler
from taskplane.executor.turns.rates import SendRates
from taskplane.executor.turns.rewinds import Rewinds
from taskplane.executor.turns.submit import Submits
from taskplane.runtime.client import PATIENCE, client
from taskplane.runtime.errors import PlaneError
from taskplane.runtime.principal import Principal
from taskplane.runtime.retry import retry_until_reachable
from taskplane.runtime.services import Services
from taskplane.runtime.sharing import Slots

log = logging.getLogger(__name__)


class ExecutorService:
    """An open executor or worker: its agents, its runs, its background jobs, and its drain."""

    def __init__(
        self,
        agents: Agents,
        runs: Runs,
        background: BackgroundTasks,
        sessions: SessionHistoryStub,
        stores: Sequence[grpc.aio.Channel],
        leases: HeldLeases,
        drain_timeout: float,
        group: asyncio.TaskGroup,
    ) -> None:
        self.agents = agents
        self._processes = runs.ports.processes
        self.runs = runs
        self.appender = runs.ports.appender
        self.background = background
        self.sessions = sessions
        self._stores = stores
        self._leases = leases
        self._drain_timeout = drain_timeout
        self._group = group
        self._claiming: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []

    def claim(self, claiming: Coroutine[None, None, None]) -> None:
        """Run `claiming`, which takes work from the queue, until the drain."""
        self._claiming = self._group.create_task(claiming, name="claiming")

    def start(self, work: Coroutine[None, None, None], *, name: str) -> None:
        """Run a background job beside the runs, until `stop`."""
        self._beside.append(self._group.create_task(work, name=name))

    def stop(self) -> None:
        """Cancel the background jobs beside the runs."""
        for task in self._beside:
            task.cancel()

    def replace(self, newer: Agents) -> None:
        """Replace agents by the agents of `newer` with the same names. Runs at work keep their agent and its
        process."""
        for hosted in self.agents.replace(newer):
            self._processes.retire(hosted)
        self._processes.prepare(self.agents.by_name[name] for name in newer.names if name in self.agents.by_name)

    async def ready(self) -> bool:
        """Return whether messages may be sent here: both stores are connected, the task store accepts this process as a
        service, and no drain has begun."""
        connected = [channel.get_state(try_to_connect=True) for channel in self._stores]
        if self.runs.draining or self._leases.refused:
            return False
        return all(state is grpc.ChannelConnectivity.READY for state in connected)

    async def admitted(self) -> None:
        """Wait until the task store accepts this process as a service. Unauthenticated: the store has another
        secret."""
        request = RenewRequest(process_id=self.runs.process_id)
        await retry_until_reachable(lambda: self.runs.ports.queue.Renew(request))

    async def drain(self) -> None:
        """Stop claims, let runs finish for `drain_timeout`, release the leases of the other runs. A second call does
        nothing."""
        if self.runs.draining:
            return
        if self._claiming is not None:
            self._claiming.cancel()
        await self.runs.drain(self._drain_timeout)


def agents_of(settings: ExecutorSettings) -> Agents:
    """Load the agents that the settings name. Invalid: an agent cannot be loaded."""
    return load_agents(settings.agents, allow_crash=settings.allow_crash, worker_on_orphan=settings.worker_on_orphan)


@asynccontextmanager
async def open_executor(
    settings: ExecutorSettings,
    services: Services,
    tasks_channel: grpc.aio.Channel,
    sessions_channel: grpc.aio.Channel,
    process_id: str,
    *,
    agents: Agents | None = None,
    renewals: grpc.aio.Channel | None = None,
    appends: grpc.aio.Channel | None = None,
) -> AsyncGenerator[ExecutorService, None]:
    """Open an executor and add its service to `services`. The policy of `services` must have the lines of
    `servicer.POLICY`.

    Arguments and promises as for `open_runs`. `process_id`: with the prefix of a resident executor if the store is in
    the same process. `agents`: used instead of `settings.agents`. Invalid: an agent cannot be loaded.
    """
    if agents is None:
        agents = agents_of(settings)
    async with open_runs(
        settings, tasks_channel, sessions_channel, process_id, agents, renewals=renewals, appends=appends
    ) as service:
        ports, background = service.runs.ports, service.background
        rewinds = Rewinds(service.sessions, ports.reconciler, background)
        submits = Submits(
            service.runs,
            agents,
            rewinds,
            background,
            route_timeout=settings.route_timeout,
            unary_route_timeout=settings.unary_route_timeout,
            abandoned_after=settings.abandoned_after,
        )
        abandoned = Abandoned(ports.store, ports.sessions, actor=ports.actor, after=settings.abandoned_after)
        imports = Imports(ports.store, service.sessions)
        expiry = Expiry(ports.store, ports.sessions, actor=ports.actor, ttl=settings.session_ttl)
        rates = SendRates(settings.sends_per_second)
        executor = AgentExecutor(submits, rewinds, agents, ports, background, rates)
        services.add(executor_pb2_grpc.add_AgentExecutorServicer_to_server, executor)
        service.start(_sweeping(ports, abandoned, imports, settings.uncopied_every), name="sweep")
        service.start(_expiring(expiry, settings.expire_every), name="expiry")
        yield service


@asynccontextmanager
async def open_runs(
    settings: ExecutorSettings,
    tasks_channel: grpc.aio.Channel,
    sessions_channel: grpc.aio.Channel,
    process_id: str,
    agents: Agents,
    *,
    kind: Literal["executor", "worker"] = "executor",
    renewals: grpc.aio.Channel | None = None,
    appends: grpc.aio.Channel | None = None,
) -> AsyncGenerator[ExecutorService, None]:
    """Open the part of an executor that claims tasks and runs them. A worker has only this part.

    The channels must not be wrapped by `client`. Their owner closes them. `process_id`: random per process start.
    `kind`: the name of the actor in events, before the process id. `renewals`, `appends`: channels to the task store
    for these calls only, if the store has several replicas; see `runs.answer_timeout`. The exit drains. If an asyncio
    task of the executor dies, the body is cancelled and the error raised. With `strict_agents`, bugs of agents are
    raised at the end, too.
    """
    secret = settings.internal_secret.encode()
    identity = Principal("", "", f"{kind}:{process_id}", service=True)
    to_tasks = client(tasks_channel, identity=identity, secret=secret, patience=PATIENCE)
    to_sessions = client(sessions_channel, identity=identity, secret=secret, patience=PATIENCE)
    renewals, appends = renewals or tasks_channel, appends or tasks_channel
    to_renew = client(renewals, identity=identity, secret=secret)
    to_append = client(appends, identity=identity, secret=secret)
    store = TaskStoreStub(to_tasks)
    sessions = SessionHistoryStub(to_sessions)
    history = SessionLog(sessions, settings.history_cache_bytes)
    processes = AgentProcesses(
        idle=settings.idle_processes,
        grace=settings.cancel_grace,
        allow_crash=settings.allow_crash,
        variables=settings.process_environment,
    )
    ports = Ports(
        store=store,
        queue=TaskQueueStub(to_tasks),
        sessions=history,
        copier=Copier(store, history),
        reconciler=Reconciler(store, sessions),
        appender=Appender(TaskStoreStub(to_append), AnswerTimeout(settings.renew_every)),
        processes=processes,
        at_work=SessionsAtWork(),
        actor=identity.actor,
        run_limit=settings.run_limit,
        cancel_grace=settings.cancel_grace,
        status_interval=settings.status_interval,
        strict=settings.strict_agents,
    )
    background = BackgroundTasks()
    runs = Runs(
        ports,
        agents.by_name,
        background,
        process_id=process_id,
        slots=Slots(settings.capacity, settings.shared_by),
    )
    leases = HeldLeases(
        runs,
        TaskQueueStub(to_renew),
        agents=agents.run_here,
        capacity=settings.capacity,
        shared_by=settings.shared_by,
        renew_every=settings.renew_every,
    )
    stores = (tasks_channel, renewals, appends, sessions_channel)
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        service = ExecutorService(agents, runs, background, sessions, stores, leases, settings.drain_timeout, group)
        service.claim(leases.claiming())
        service.start(ports.appender.run(), name="appending")
        service.start(leases.renewing(), name="renewing")
        if settings.capacity:
            processes.prepare(agents.by_name.values())
        try:
            with noticing_blocks(settings.blocked_after, settings.blocked_limit):
                yield service
        except Exception as error:  # noqa: BLE001 - raised again below
            # An error raised inside the task group would become an exception group.
            failure = error
        finally:
            await service.drain()
            await background.dismiss(settings.cancel_grace)
            await processes.close()
            for hosted in agents.by_name.values():
                await hosted.close()
            service.stop()
    if failure is not None:
        raise failure
    if settings.strict_agents and runs.bugs:
        raise ExceptionGroup("runs that failed by a bug", runs.bugs)


async def _sweeping(ports: Ports, abandoned: Abandoned, imports: Imports, every: float) -> None:
    """Run the sweeps over the unfinished work of all executors, at the start and then every `every` seconds."""
    while True:
        try:
            await ports.copier.sweep(ports.actor)
            await ports.reconciler.sweep(ports.actor)
            await abandoned.sweep()
            await imports.sweep(ports.actor)
        except PlaneError as error:
            log.warning("the sweep failed, will retry: %s", error)
        await asyncio.sleep(every)


async def _expiring(expiry: Expiry, every: float) -> None:
    """Delete expired sessions every `every` seconds. Wait first: other work has priority at the start."""
    while True:
        await asyncio.sleep(every)
        try:
            await expiry.sweep()
        except PlaneError as error:
            log.warning("old sessions could not be deleted, will retry: %s", error)
