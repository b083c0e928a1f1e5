"""The processes of agents: one for each active run. A process is kept for the next run."""

import asyncio
import logging
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable
from typing import Any

from taskplane.agents import agent as port
from taskplane.agents.faults import AgentProcessDied
from taskplane.agents.hosted import Hosted
from taskplane.agents.processes.environment import environment_of
from taskplane.agents.processes.metrics import PROCESSES
from taskplane.agents.processes.process import AgentProcess
from taskplane.agents.sources import RaisedElsewhere

log = logging.getLogger(__name__)


class AgentProcesses:
    """The processes of one executor. A run has a process to itself, so that its end takes no other run along."""

    def __init__(self, *, idle: int, grace: float, allow_crash: bool, variables: Collection[str] = ()) -> None:
        """`idle`: number of processes of an agent that are kept without a run. `grace`: seconds that an agent has to
        wind down; then its process is killed. `variables`: as `environment_of` takes them."""
        self._variables = variables
        self._told: set[str] = set()
        self._keep = idle
        self._grace = grace
        self._allow_crash = allow_crash
        self._idle: defaultdict[Hosted, list[AgentProcess]] = defaultdict(list)
        self._retired: weakref.WeakSet[Hosted] = weakref.WeakSet()
        self._all: set[AgentProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def run(
        self, hosted: Hosted, turn: port.Turn, until: Callable[[], float], method: str
    ) -> AsyncIterator[port.Change]:
        """Return the changes of a method of an agent in a process. RuntimeError: the agent has no name to load it
        by."""
        if not hosted.source:
            raise RuntimeError(
                f"agent {hosted.name} cannot run in a process, since it was created in code: name it as"
                ' module:attribute, or use Policy(isolation="thread")'
            )
        return _ProcessRun(self, hosted, turn, until, method)

    def prepare(self, agents: Iterable[Hosted]) -> None:
        """Start a process in advance for each agent that always runs in one."""
        for hosted in agents:
            if self._keep and hosted.isolation == "process":
                self._start(self._prepare(hosted))

    def retire(self, hosted: Hosted) -> None:
        """Keep no process for an agent that is no longer served. A process with a run ends with this run."""
        self._retired.add(hosted)
        for process in self._idle.pop(hosted, ()):
            process.dismiss()

    async def take(self, hosted: Hosted) -> AgentProcess:
        """Return a process without a run; start one if necessary. OSError: it cannot be started."""
        idle = self._idle[hosted]
        while idle:
            process = idle.pop()
            if process.alive:
                return process
        given, withheld = environment_of(hosted.source, self._variables)
        if withheld and hosted.name not in self._told:
            self._told.add(hosted.name)
            log.info(
                "the process of agent %s does not receive these variables: %s; name the required ones in the setting"
                " process_environment",
                hosted.name,
                ", ".join(withheld),
            )
        process = await AgentProcess.start(hosted, given, allow_crash=self._allow_crash)
        self._all.add(process)
        PROCESSES.labels(hosted.name).inc()
        process.watching.add_done_callback(lambda _: self._gone(hosted, process))
        return process

    async def end(self, hosted: Hosted, process: AgentProcess) -> None:
        """Close the run of a process, and keep the process for another run; kill it if the agent does not end the run.

        Continues if the caller is canceled. Raises the exceptions of the agent.
        """
        await asyncio.shield(self._start(self._end(hosted, process)))

    async def close(self) -> None:
        """End all processes, and wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._all:
            process.dismiss()
        watching = {process.watching for process in self._all}
        if watching:
            _, left = await asyncio.wait(watching, timeout=self._grace)
            for process in self._all:
                process.kill()
            await asyncio.gather(*left)

    async def _prepare(self, hosted: Hosted) -> None:
        try:
            process = await self.take(hosted)
            if hosted in self._retired:
                process.dismiss()
            else:
                self._idle[hosted].append(process)
        except OSError as error:
            log.warning("no process could be started for agent %s: %s", hosted.name, error)

    async def _end(self, hosted: Hosted, process: AgentProcess) -> None:
        try:
            async with asyncio.timeout(self._grace):
                trace = await process.close()
        except TimeoutError:
            log.error("agent %s did not stop within %g s; killing its process", hosted.name, self._grace)
            process.kill()
            return
        except AgentProcessDied:
            return
        if hosted not in self._retired and len(self._idle[hosted]) < self._keep:
            self._idle[hosted].append(process)
        else:
            process.dismiss()
        if trace:
            raise RaisedElsewhere(trace)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _gone(self, hosted: Hosted, process: AgentProcess) -> None:
        self._all.discard(process)
        if process in (idle := self._idle.get(hosted, [])):
            idle.remove(process)
        PROCESSES.labels(hosted.name).dec()


class _ProcessRun(AsyncIterator[port.Change]):
    def __init__(
        self, processes: AgentProcesses, hosted: Hosted, turn: port.Turn, until: Callable[[], float], method: str
    ) -> None:
        self._processes = processes
        self._hosted = hosted
        self._turn = turn
        self._until = until
        self._method = method
        self._process: AgentProcess | None = None

    async def __anext__(self) -> port.Change:
        if self._process is None:
            self._process = await self._processes.take(self._hosted)
            self._process.begin(self._turn, self._until, self._method)
        return await self._process.next()

    async def aclose(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await self._processes.end(self._hosted, process)
