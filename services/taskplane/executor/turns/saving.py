"""Session entries of a new turn: the user's message and the outcome."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from taskplane.api.a2a.v1 import a2a_pb2 as a2a
from taskplane.api.sessions.v1 import sessions_pb2 as pb
from taskplane.executor.derived_ids import derived
from taskplane.executor.session_entries import OPENING, title_of, unvoid
from taskplane.executor.session_log import MAX_CALL_BYTES, SessionLog, outcome_id
from taskplane.executor.turns.routing import Routing
from taskplane.runtime import message_times
from taskplane.runtime.backoff import Backoff
from taskplane.runtime.retry import retry_briefly
from taskplane.runtime.times import micros

# Seconds for an executor to store the decision of its router, and maximum seconds between two looks for the decision.
_TO_STORE: Final = 1.0
_LONGEST_PAUSE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a turn. `answer`: None for a task. `begins_session`: the session had no earlier entry.

    `repeated`: the turn was saved before. `unapplied`: the history is not applied to the session's tasks yet. `found`:
    the turn was decided without the router of this request. Perhaps another executor will create the task soon.
    """

    answer: a2a.Message | None
    begins_session: bool
    repeated: bool
    unapplied: bool
    found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A new turn without a task. `message`: a copy of the executor. In a repeat the copy gets the time and the id of
    the first message."""

    invocation_id: str
    request_hash: bytes
    context_id: str
    task_id: str
    agent: str
    message: a2a.Message
    # The required version of the session before the save; 0: any.
    expected_version: int = 0
    # The replacement for a message id that the session already has; "" if this is impossible.
    own_message_id: str = ""

    async def decide(self, log: SessionLog, routing: Routing | None, route_timeout: float) -> Decision:
        """Save the user's message and the outcome of its turn, in one call if no wait for the router is necessary.

        The first stored outcome decides. Raise Refused KEY_REUSED, Conflict VERSION_MISMATCH, Unavailable and similar
        errors.
        """
        if routing is None or (await routing.is_decided_early() and self._fits(routing)):
            outcome = self._outcome(routing)
            opening = [self._user(is_task=not outcome.HasField("message")), outcome]
            stored = await self._begin(log, opening)
            repeated = stored.appended < 2
            if repeated:
                await unvoid(log, self.context_id, self.invocation_id, self.request_hash)
            begins = stored.appended == OPENING == stored.entry_count
            return Decision(_answer(stored, outcome), begins, repeated, stored.unapplied)
        saved = await self._begin(log, [self._user(is_task=False)])
        repeated = saved.appended == 0
        if repeated:
            voided = await unvoid(log, self.context_id, self.invocation_id, self.request_hash)
            # No executor asks a router about a void turn.
            decided = await self._outcome_within(0.0 if voided else route_timeout, log, saved)
            if decided is not None:
                answer = decided.message if decided.HasField("message") else None
                return Decision(answer, begins_session=False, repeated=True, unapplied=saved.unapplied, found=True)
        begins = saved.appended == 1 == saved.entry_count
        await routing.wait(route_timeout, () if begins else await self._history(log))
        outcome = self._outcome(routing)
        stored = await self._save(log, [outcome], 0, "")
        # The session may have changed while the router was working.
        begins = begins and stored.entry_count == OPENING
        return Decision(_answer(stored, outcome), begins, repeated, stored.unapplied)

    def _fits(self, routing: Routing) -> bool:
        """Return whether the message and its answer fit into one call."""
        answer = routing.answer()
        return answer is None or self.message.ByteSize() + answer.ByteSize() <= MAX_CALL_BYTES

    async def _outcome_within(
        self, route_timeout: float, log: SessionLog, saved: pb.AppendEntriesResponse
    ) -> pb.Entry | None:
        """Return the outcome of a turn that was saved before; None without an outcome after the time limit of routers.

        Before the time limit another executor may wait for its router. A model must not be asked twice.
        """
        most = route_timeout + min(route_timeout, _TO_STORE)
        age = time.time() - saved.known[0].created_at.ToMicroseconds() / 1e6
        looks = Backoff(longest=_LONGEST_PAUSE, jitter=False, patience=min(max(most - age, 0.0), most))
        while (found := await log.outcome(self.context_id, self.invocation_id)) is None:
            if not await looks.wait():
                return None
        return found

    async def _begin(self, log: SessionLog, entries: Sequence[pb.Entry]) -> pb.AppendEntriesResponse:
        """Save entries. The first entry has the user's message. Copy its id and time in the session to `message`."""
        stored = await self._save(log, entries, self.expected_version, self.own_message_id)
        if stored.renamed:
            self.message.message_id = self.own_message_id
        for entry in stored.known:
            if entry.id == self.invocation_id:
                self.message.message_id = entry.message.message_id
                time = entry.message.metadata.fields[message_times.KEY]
                self.message.metadata.fields[message_times.KEY].CopyFrom(time)
        return stored

    async def _save(
        self, log: SessionLog, entries: Sequence[pb.Entry], expected_version: int, own_message_id: str
    ) -> pb.AppendEntriesResponse:
        create = pb.NewSession(agent=self.agent, title=title_of(self.message))
        # The answer of the agent may have a used id.
        own_answer_id = derived(self.invocation_id, "answer") if _is_answer(entries[-1]) else ""
        stored = await retry_briefly(
            lambda: log.append(
                self.context_id, entries, create, expected_version, own_message_id, own_answer_id=own_answer_id
            )
        )
        if stored.answer_renamed:
            entries[-1].message.message_id = own_answer_id
        return stored

    async def _history(self, log: SessionLog) -> Sequence[a2a.Message]:
        return (await log.effective_history(self.context_id)).messages(self.task_id, without={self.invocation_id})

    def _user(self, *, is_task: bool) -> pb.Entry:
        entry = pb.Entry(
            id=self.invocation_id,
            kind=pb.ENTRY_KIND_MESSAGE,
            invocation_id=self.invocation_id,
            request_hash=self.request_hash,
            message=self.message,
        )
        if is_task:
            entry.task_id, entry.generation = self.task_id, 1
            entry.message.task_id = self.task_id
        return entry

    def _outcome(self, routing: Routing | None) -> pb.Entry:
        answer = routing.answer() if routing is not None else None
        return pb.Entry(
            id=outcome_id(self.invocation_id),
            kind=pb.ENTRY_KIND_OUTCOME,
            invocation_id=self.invocation_id,
            task_id="" if answer is not None else self.task_id,
            message=answer,
        )


def _is_answer(entry: pb.Entry) -> bool:
    return entry.kind == pb.ENTRY_KIND_OUTCOME and entry.HasField("message")


def _answer(stored: pb.AppendEntriesResponse, ours: pb.Entry) -> a2a.Message | None:
    """Return the direct answer of the first stored outcome; None for a task.

    `ours`: the outcome that was sent.
    """
    first = next((entry for entry in stored.known if entry.id == ours.id), ours)
    if not first.HasField("message"):
        return None
    message_times.add_time(first.message.metadata, micros(stored.updated_at))
    return first.message
