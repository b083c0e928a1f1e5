"""Claim streams: one per executor process, and the dispatcher that gives them tasks."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection
from typing import Final, Protocol

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.tasks.v1 import tasks_pb2 as pb
from taskplane.runtime.errors import Conflict, PlaneError
from taskplane.runtime.failpoints import afp
from taskplane.runtime.sharing import Owner, Slots
from taskplane.storage.bell import Listener
from taskplane.tasks.committed import Committed
from taskplane.tasks.domain.commands import Claim, Done
from taskplane.tasks.domain.task import ACTIVE, Row
from taskplane.tasks.queue.leases import Leases, settled
from taskplane.tasks.queue.patience import Patience
from taskplane.tasks.queue.process_slots import ProcessSlots
from taskplane.tasks.queue.streams import NO_BACKLOG, Stream
from taskplane.tasks.rings import Notified, concerns_holder
from taskplane.tasks.store import QueueLog

_log = logging.getLogger(__name__)
_MAX_CLAIMS: Final = 64
# Owners of waiting tasks that executors get by name; if there are more, no new task takes a slot at once.
_MOST_NAMED: Final = 256
# Seconds until a retry: after a failure, and after a lost race with another process.
_RETRY: Final = 1.0
_SOON: Final = 0.01


class Records(Protocol):
    """How rows are shown."""

    def record(self, row: Row, task: a2a.Task | None = None) -> pb.TaskRecord:
        """Return the row."""
        ...


class Claims:
    """The executor processes connected here, their tasks, and the messages to them.

    Any message may be lost: a lease lives by its renewals, and an assignment that did not arrive expires.
    """

    def __init__(
        self,
        log: QueueLog,
        leases: Leases,
        records: Records,
        *,
        poll_every: float,
        keepalive: float = 5.0,
    ) -> None:
        self._log = log
        # The principal that got a task last; the principal after it is next.
        self._after = ("", "")
        self._leases = leases
        self._records = records
        self._poll_every = poll_every
        self._keepalive = keepalive
        self._streams: dict[str, Stream] = {}
        # Queued tasks that may have to wait for other tasks of their session.
        self._in_turn: set[str] = set()
        # Other stores may have queued such tasks.
        self._in_turn_elsewhere = False
        self._unseen: list[tuple[str, Row]] = []
        self._work = Listener()
        # Seconds that the dispatcher may wait for work.
        self._patience = poll_every
        # `_starved`: a queued task got no slot. `_freed`: a slot became free since the slots were counted.
        self._starved = False
        self._freed = False
        # The tasks without a free slot, as far as executors were notified of them.
        self._backlog = NO_BACKLOG
        self._waiting: set[Owner] = set()
        self._full = False
        self._passed_over = Patience()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.draining = False

    def __len__(self) -> int:
        return len(self._streams)

    async def stream(
        self, process_id: str, agents: Collection[str], slots: Slots
    ) -> AsyncGenerator[pb.ClaimResponse, None]:
        """Yield the messages of one Claim; the first only confirms that the process is registered.

        `slots`: the slots of the process, all free. Conflict `REPLACED`: the process has opened a newer stream.
        """
        await self._leases.announce(process_id, slots.capacity, agents)
        mine = Stream(process_id, agents, slots)
        old = self._streams.get(process_id)
        if old is not None:
            mine.assigned.extend(old.assigned)
            mine.lent |= old.lent
            old.assigned.clear()
            old.replaced = True
            old.changed.notify()
        self._streams[process_id] = mine
        self._idle.clear()
        try:
            yield self._renew_hint(mine, now=self.draining)
            self._work.notify()
            while not self._closed:
                if mine.replaced:
                    raise Conflict("another stream of this process replaced this one", reason="REPLACED")
                if mine.renew_now:
                    mine.renew_now = False
                    yield self._renew_hint(mine, now=True)
                elif mine.backlog != self._backlog:
                    yield self._renew_hint(mine, now=False)
                elif mine.assigned:
                    row = mine.assigned.popleft()
                    response = pb.ClaimResponse()
                    response.assignment.fence = row.fence
                    response.assignment.lent = row.uid in mine.lent
                    mine.lent.discard(row.uid)
                    response.assignment.record.CopyFrom(self._records.record(row))
                    yield response
                    await afp("claim.after_assign_sent")
                elif not await mine.changed.wait(self._keepalive):
                    yield self._renew_hint(mine, now=False)
        finally:
            self._leave(mine)

    def _renew_hint(self, stream: Stream, *, now: bool) -> pb.ClaimResponse:
        stream.backlog = self._backlog
        of_all, owners = self._backlog
        waiting = [pb.QueueOwner(tenant=tenant, owner=owner) for tenant, owner in sorted(owners)]
        return pb.ClaimResponse(hint=pb.RenewHint(now=now, backlog=of_all, waiting=waiting))

    def _leave(self, stream: Stream) -> None:
        if self._streams.get(stream.process_id) is stream:
            del self._streams[stream.process_id]
        if stream.assigned:
            self._unseen.extend((stream.process_id, row) for row in stream.assigned)
            self._work.notify()
        if not self._streams:
            self._idle.set()

    def committed(self, commit: Committed) -> None:
        """Wake the dispatcher after a commit, and notify the holders of changed tasks."""
        for change in commit.changes:
            row = change.row
            if concerns_holder(change):
                self._hint(change.holder)
            if row.in_turn:
                (self._in_turn.add if row.ready_at is not None else self._in_turn.discard)(row.uid)
            if row.ready_at is not None or (self._in_turn and row.state not in ACTIVE):
                self._work.notify()
            elif row.lease_owner is None:
                self._found_room()
        for change in commit.deleted:
            self._in_turn.discard(change.row.uid)
            if self._in_turn:
                self._work.notify()
            self._hint(change.holder)

    def notified(self, changed: Notified | None) -> None:
        """Wake the dispatcher and notify holders after changes of another store; None: any change."""
        for stream in self._streams.values():
            if changed is None or stream.key in changed.executors:
                stream.hint()
        if changed is None or changed.in_turn:
            self._in_turn_elsewhere = True
        if changed is None or changed.queued or (changed.freed and self._in_turn):
            self._work.notify()
        elif changed.freed:
            self._found_room()

    def renewed(self, process_id: str) -> None:
        """Note a renewal by the process. A process without a renewal for the time of a lease gets no tasks."""
        if process_id in self._streams:
            self._found_room()

    def _found_room(self) -> None:
        self._freed = True
        if self._starved:
            self._work.notify()

    def _hint(self, process_id: str | None) -> None:
        stream = self._streams.get(process_id) if process_id is not None else None
        if stream is not None:
            stream.hint()

    async def load(self) -> None:
        """Read which tasks wait for their session; to be done before the store serves."""
        known = set(self._in_turn)
        found = set(await self._log.in_turn())
        self._in_turn -= known - found
        self._in_turn |= found

    async def run(self) -> None:
        """Assign tasks until cancelled."""
        while True:
            self._patience = self._poll_every
            try:
                if self._in_turn_elsewhere:
                    self._in_turn_elsewhere = False
                    await self.load()
                await self._give_back()
                await self._dispatch()
            except PlaneError as error:
                _log.warning("tasks could not be given to executors: %s", error)
                self._in_turn_elsewhere = True
                self._wait_at_most(_RETRY)
            if not await self._work.wait(self._patience) and self._patience == self._poll_every:
                self._in_turn_elsewhere = True

    def _wait_at_most(self, seconds: float) -> None:
        self._patience = min(self._patience, seconds)

    async def _give_back(self) -> None:
        """Release assignments that their stream did not take before its end."""
        unseen, self._unseen = self._unseen, []
        for process_id, row in unseen:
            stream = self._streams.get(process_id)
            if stream is not None:
                stream.assign(row)
            else:
                await self._leases.release(process_id, [(row.uid, row.fence)])

    async def _dispatch(self) -> None:
        """Assign queued tasks, each to the process with the most free slots that serves its agent, while there are
        slots."""
        self._freed = self._full = False
        self._waiting.clear()
        self._passed_over.begin()
        for agents in {stream.agents for stream in self._streams.values()}:
            while not self.draining and await self._claim(agents):
                pass
        self._starved = self._full or bool(self._waiting)
        if (left := self._passed_over.note(self._waiting)) is not None:
            self._wait_at_most(max(left, _SOON))
        if self._starved and self._freed:
            # The slot may have become free after the slots were counted.
            self._work.notify()
        if len(self._waiting) > _MOST_NAMED:
            self._full = True
        backlog = self._full, frozenset[Owner]() if self._full else frozenset(self._waiting)
        if self._backlog != backlog:
            self._backlog = backlog
            for stream in self._streams.values():
                stream.changed.notify()

    async def _claim(self, agents: frozenset[str]) -> bool:
        """Assign tasks once to processes that serve exactly `agents`; return whether another round may find more."""
        slots = {each.process_id: each.slots for each in self._streams.values() if each.agents == agents}
        loads = await self._log.loads(list(slots))
        held = {process_id: slots[process_id].held_by(each) for process_id, each in loads.items()}
        free = ProcessSlots(held, self._passed_over.over())
        # One waiting task is enough for a backlog.
        limit, wanted = (_MAX_CLAIMS, free) if free.any else (1, None)
        claimable = await self._log.claimable(sorted(agents), limit, self._after, wanted)
        if claimable.wait is not None:
            self._wait_at_most(max(claimable.wait, _SOON))
        self._waiting |= claimable.passed_over
        if not claimable.uids:
            return False
        until = await self._leases.until()
        claims: list[Claim] = []
        lent_to: set[str] = set()
        for uid, principal in zip(claimable.uids, claimable.principals, strict=True):
            if not free.any:
                self._full = True
                break
            process_id, lent = free.take(principal)
            if not process_id:
                self._waiting.add(principal)
                continue
            if lent:
                lent_to.add(uid)
            self._after = principal
            self._passed_over.given(principal)
            claims.append(Claim(task_uid=uid, process_id=process_id, lease_until=until))
        if self.draining:
            # The drain began while the queue was read.
            return False
        answers = await self._log.submit_all(claims)
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, Done):
                self._unseen.append((claim.process_id, answer.row))
                stream = self._streams.get(claim.process_id)
                if stream is not None and claim.task_uid in lent_to:
                    stream.lent.add(claim.task_uid)
            elif answer is None:
                self._wait_at_most(_SOON)
            elif isinstance(answer, PlaneError):
                _log.error("the queued task %s could not be claimed: %s", claim.task_uid, answer)
        await afp("lease.after_claim")
        await self._give_back()
        settled(answers)
        return claimable.more and any(isinstance(answer, Done) for answer in answers)

    async def drain(self, notice: float) -> None:
        """Assign no more tasks, notify every process, and end the streams after at most `notice` seconds."""
        self.draining = True
        for stream in self._streams.values():
            stream.hint()
        try:
            async with asyncio.timeout(notice):
                await self._idle.wait()
        except TimeoutError:
            _log.info("%d executors are still connected", len(self._streams))
        self._closed = True
        for stream in self._streams.values():
            stream.changed.notify()
