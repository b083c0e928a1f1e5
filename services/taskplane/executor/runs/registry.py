"""All runs of one process: the runs at work, the started leases, and the end of runs."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Final
from weakref import WeakSet

from taskplane.agents.hosted import Hosted
from taskplane.agents.states import AT_REST
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.executor.background import BackgroundTasks
from taskplane.executor.runs import metrics
from taskplane.executor.runs.ports import Ports
from taskplane.executor.runs.run import Fresh, Run
from taskplane.executor.sweeps.copying import Source
from taskplane.runtime.errors import NotFound, PlaneError
from taskplane.runtime.principal import Principal, acting_as
from taskplane.runtime.sharing import Owner, Slots

log = logging.getLogger(__name__)

# The number of leases with remembered fences: many more than may be answered late.
REMEMBERED: Final = 10_000


def certain_until(asked_at: float, ttl: float) -> float:
    """Return the end of the certain time of a lease of `ttl` seconds, requested at `asked_at` (monotonic)."""
    return asked_at + ttl * 0.8


class Runs:
    """The runs of one process: at most one per (task, fence). A run of a new task needs a free slot."""

    def __init__(
        self,
        ports: Ports,
        agents: Mapping[str, Hosted],
        background: BackgroundTasks,
        *,
        process_id: str,
        slots: Slots,
    ) -> None:
        """`slots`: the slots of this process, all free."""
        self.ports = ports
        self.agents = agents
        self.process_id = process_id
        self.draining = False
        # Owners with queued tasks that get no slot (`backlog`: any owner). New tasks must not overtake queued tasks.
        self.backlog = False
        self.owners_without_slot: Set[Owner] = frozenset()
        # Errors of runs that failed by a bug, of this program or of an agent (a yield after the final change).
        self.bugs: list[Exception] = []
        self._background = background
        # Slots are taken by runs, from start to end, and by tasks before their creation.
        self._slots = slots
        self._reserved: Counter[Owner] = Counter()
        # Runs of assigned tasks that wait for a slot: the store did not know every used slot.
        self._standing: dict[Run, asyncio.Event] = {}
        # The assigned runs that may have a slot beyond the share of their owner.
        self._lent: WeakSet[Run] = WeakSet()
        self._active: dict[str, Run] = {}
        self._started: OrderedDict[tuple[str, int], None] = OrderedDict()

    @property
    def active(self) -> list[Run]:
        """Return the runs at work, in the order of their starts."""
        return list(self._active.values())

    def leases(self) -> list[Run]:
        """Return the runs that need their lease."""
        return [run for run in self._active.values() if not run.outbox.at_rest]

    def reserve(self, caller: Principal) -> str:
        """Take a slot for a new task. Return the process id. `give_back` releases the slot.

        Return "" if the task must be queued: this owner may have no slot, or queued tasks wait for one.
        """
        owner = caller.tenant, caller.owner
        if self.draining or self.backlog or not self._slots.may_have_slot(owner):
            return ""
        if self.owners_without_slot and not self.owners_without_slot.isdisjoint((owner, (caller.tenant, ""))):
            return ""
        self._slots.take(owner)
        self._reserved[owner] += 1
        return self.process_id

    def give_back(self, caller: Principal) -> None:
        """Release a slot after its use, or an unneeded slot."""
        owner = caller.tenant, caller.owner
        self._slots.give_back(owner)
        self._reserved[owner] -= 1
        if not self._reserved[owner]:
            del self._reserved[owner]
        self._let_in()

    def start_fresh(
        self, hosted: Hosted, record: pb.TaskRecord, fence: int, *, until: float, caller: Principal, fresh: Fresh
    ) -> bool:
        """Run a new task, in the current context. Return False if this lease already had a run."""
        if not self._first_time(record.uid, fence):
            return False
        self._start(Run(self.ports, hosted, record, fence, until=until, caller=caller, fresh=fresh))
        return True

    def start_assigned(self, assignment: pb.Assignment) -> Run | None:
        """Run a task from the queue for its owner. Return None if this lease already had a run, or this process lacks
        the agent.

        The lease is not certain before the next renewal.
        """
        record = assignment.record
        hosted = self.agents.get(record.agent)
        if hosted is None:
            log.error("task %s was assigned to this process, which has no agent %r", record.id, record.agent)
            return None
        if not self._first_time(record.uid, assignment.fence):
            return None
        caller = Principal(record.tenant, record.owner, record.owner)
        run = Run(self.ports, hosted, record, assignment.fence, until=time.monotonic(), caller=caller)
        with acting_as(Principal(record.tenant, record.owner, self.ports.actor, service=True)):
            if assignment.lent:
                self._lent.add(run)
            self._standing[run] = asyncio.Event()
            self._start(run)
            self._let_in()
        return run

    def stop(self, run: Run, why: str) -> None:
        """Stop a run after the loss of its lease. Discard its later changes."""
        if run.stop():
            self._let_in()
            log.info("stopping the run of task %s under fence %d: %s", run.task_id, run.fence, why)

    async def drain(self, timeout: float) -> None:
        """Start no more runs, let runs finish for `timeout` seconds, stop the other runs and release their leases."""
        self.draining = True
        standing = list(self._standing)
        for run in standing:
            run.stop()
        await self._release(standing)
        if await self._background.settle(timeout):
            return
        left = self.leases()
        log.warning("%d runs did not finish in %g s; their tasks are released", len(left), timeout)
        for run in left:
            run.stop()
        await self._release(left)
        await self._background.settle(self.ports.cancel_grace)

    async def _release(self, runs: list[Run], *, lost: bool = False) -> None:
        if not runs:
            return
        leases = [pb.Lease(task_uid=run.uid, fence=run.fence) for run in runs]
        try:
            await self.ports.queue.Release(pb.ReleaseRequest(process_id=self.process_id, leases=leases, lost=lost))
        except PlaneError as error:
            log.warning("%d leases could not be released and will expire: %s", len(leases), error)

    def _first_time(self, uid: str, fence: int) -> bool:
        if (uid, fence) in self._started:
            return False
        self._started[uid, fence] = None
        if len(self._started) > REMEMBERED:
            self._started.popitem(last=False)
        return True

    def _start(self, run: Run) -> None:
        before = self._active.get(run.uid)
        if before is not None and not before.outbox.at_rest:
            self.stop(before, "this process has a newer lease of the task")
        self._active[run.uid] = run
        self._slots.take(run.owner)
        metrics.STARTED.labels(run.agent).value += 1
        metrics.RUNS.labels(run.agent).value += 1
        run.worker = self._background.start(self._work(run), name=f"run of task {run.task_id}")
        run.worker.add_done_callback(lambda _: self._ended(run))

    def _let_in(self) -> None:
        """Begin the runs of assigned tasks with a free slot."""
        if not self._standing:
            return
        held = self._reserved.copy()
        # A run in its clean-up has no lease any more.
        held.update(run.owner for run in self.leases() if run not in self._standing and not run.cancelled.is_set())
        slots = self._slots.held_by(held)
        for run, begin in list(self._standing.items()):
            if slots.may_have_slot(run.owner, lent=run in self._lent):
                slots.take(run.owner)
                del self._standing[run]
                begin.set()

    async def _work(self, run: Run) -> None:
        try:
            if (begin := self._standing.get(run)) is not None:
                await begin.wait()
            await run.work()
        except asyncio.CancelledError:
            if not run.cancelled.is_set():
                raise
        except Exception as error:
            self.bugs.append(error)
            raise

    def _ended(self, run: Run) -> None:
        metrics.RUNS.labels(run.agent).value -= 1
        self._slots.give_back(run.owner)
        self._standing.pop(run, None)
        self._let_in()
        if self._active.get(run.uid) is run:
            del self._active[run.uid]
        if not run.outbox.at_rest:
            self._background.start(self._after_loss(run), name=f"clean-up after task {run.task_id}")

    async def _after_loss(self, run: Run) -> None:
        """Copy interrupted messages, or release the lease, after a run that did not end its task."""
        try:
            response = await self.ports.store.GetTask(pb.GetTaskRequest(task_id=run.task_id, history_length=0))
            record = response.record
            if record.state in AT_REST and record.copied_generation < record.message_generation:
                await self.ports.copier.copy_task(Source.of(record), record.copied_generation)
            if run.unchecked and not record.superseded:
                # The end of the run may be committed without an answer. Then no other code would supersede the task.
                with suppress(NotFound):
                    await self.ports.reconciler.apply(record.context_id)
        except PlaneError as error:
            log.info("giving up on task %s: %s", run.task_id, error)
        else:
            if record.state not in AT_REST and record.fence == run.fence:
                # The attempt counts. Otherwise a run that always ends like this would be started for ever.
                await self._release([run], lost=not self.draining)
