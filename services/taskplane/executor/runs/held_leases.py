"""The leases of an executor: the stream of assignments and hints, and the call that renews every lease."""

import asyncio
import logging
import random
import time
from typing import Final

from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.api.tasks.v1.tasks_pb2_grpc import TaskQueueStub
from taskplane.executor.runs.answer_timeout import AnswerTimeout
from taskplane.executor.runs.registry import Runs, certain_until
from taskplane.runtime.errors import DeadlineExceeded, PlaneError, Unauthenticated, Unavailable
from taskplane.runtime.failpoints import afp
from taskplane.runtime.sharing import SharedBy

log = logging.getLogger(__name__)

# The store sends something at least every 5 seconds.
SILENCE: Final = 15.0
# Seconds until leases are renewed again after a store gave no result for them.
_SOON: Final = 0.2
_SHARED_BY: Final[dict[SharedBy, pb.SharedBy.ValueType]] = {
    "tenants": pb.SHARED_BY_TENANTS,
    "users": pb.SHARED_BY_USERS,
    "one": pb.SHARED_BY_ONE,
}


class HeldLeases:
    """The leases of this process: their renewals, and the tasks that are assigned to it."""

    def __init__(
        self,
        runs: Runs,
        renewals: TaskQueueStub,
        *,
        agents: tuple[str, ...],
        capacity: int,
        shared_by: SharedBy,
        renew_every: float,
    ) -> None:
        """`renewals`: a stub of the queue on a channel of its own; see `answer_timeout`. `renew_every`: seconds, well
        below the lease TTL of the store."""
        self._runs = runs
        self._queue = runs.ports.queue
        self._renewals = renewals
        self._answer_timeout = AnswerTimeout(renew_every)
        self._agents = agents
        self._capacity = capacity
        self._shared_by = _SHARED_BY[shared_by]
        self._renew_every = renew_every
        self._hint = asyncio.Event()
        # True while the task store refuses this process (Unauthenticated).
        self.refused = False

    def renew_now(self) -> None:
        """Renew now instead of at the next regular time."""
        self._hint.set()

    async def renewing(self) -> None:
        """Renew every lease regularly and on every hint, until cancelled. A failed renewal is repeated sooner."""
        wait = self._renew_every
        while True:
            try:
                async with asyncio.timeout(wait):
                    await self._hint.wait()
            except TimeoutError:
                pass
            self._hint.clear()
            try:
                certain = await self._renew()
            except DeadlineExceeded as error:
                self._answer_timeout.unanswered()
                wait = _SOON * random.uniform(0.5, 1.0)
                log.warning("a renewal had no answer, trying the next replica: %s", error)
            except PlaneError as error:
                wait = min(1.0, self._renew_every) * random.uniform(0.5, 1.0)
                if not (self.refused and isinstance(error, Unauthenticated)):
                    log.warning("the leases were not renewed: %s", error)
            else:
                self._answer_timeout.answered()
                wait = self._renew_every if certain else _SOON * random.uniform(0.5, 1.0)

    async def claiming(self) -> None:
        """Hold the Claim stream, until cancelled; a stream that breaks or falls silent is opened again."""
        while True:
            try:
                await self._claim()
            except Unauthenticated as error:
                if not self.refused:
                    self.refused = True
                    log.error("the task store assigns no tasks to this process: %s", error)
            except PlaneError as error:
                log.warning("the claim stream ended: %s", error)
            except TimeoutError:
                log.warning("the claim stream was silent for %g s", SILENCE)
            await asyncio.sleep(min(1.0, self._renew_every) * random.uniform(0.2, 1.0))

    async def _claim(self) -> None:
        request = pb.ClaimRequest(
            process_id=self._runs.process_id,
            agents=self._agents,
            capacity=self._capacity,
            shared_by=self._shared_by,
        )
        call = self._queue.Claim(request)
        begun = False
        try:
            responses = aiter(call)
            while True:
                async with asyncio.timeout(SILENCE):
                    response = await anext(responses, None)
                if response is None:
                    return
                if not begun:
                    # Hints that came while there was no stream are lost, so renew now.
                    begun = True
                    if self.refused:
                        self.refused = False
                        log.info("the task store assigns tasks to this process again")
                    self.renew_now()
                if response.HasField("assignment"):
                    if self._runs.start_assigned(response.assignment) is not None:
                        self.renew_now()
                    continue
                self._runs.backlog = response.hint.backlog
                self._runs.owners_without_slot = frozenset((each.tenant, each.owner) for each in response.hint.waiting)
                if response.hint.now:
                    self.renew_now()
        except Unavailable:
            # This is how a stream ends when its connection reaches its maximum age.
            if not begun:
                raise
        finally:
            self._runs.backlog, self._runs.owners_without_slot = False, frozenset()
            call.cancel()

    async def _renew(self) -> bool:
        """Renew all leases once; return False if a lease must be renewed again soon."""
        runs = self._runs.leases()
        request = pb.RenewRequest(
            process_id=self._runs.process_id,
            leases=[pb.Lease(task_uid=run.uid, fence=run.fence) for run in runs],
        )
        await afp("lease.before_renew")
        asked_at = time.monotonic()
        response = await self._renewals.Renew(request, timeout=self._answer_timeout.timeout)
        until = certain_until(asked_at, response.lease_ttl)
        certain = True
        for run, state in zip(runs, response.leases, strict=True):
            if run.outbox.at_rest:
                continue
            if state.unknown:
                certain = False
            elif state.still_yours:
                run.outbox.input_generation = max(run.outbox.input_generation, state.input_generation)
                run.outbox.renewed(until)
            elif run.outbox.ending:
                # The end of the task removes the lease, and may be committed already.
                certain = False
            else:
                self._runs.stop(run, "its lease was lost")
        return certain
